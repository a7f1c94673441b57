//! Any bytes are the packed symbol table of a stripped file: unpacking stops at its limit, and a lookup of any address
//! ends.
#![no_main]

use clockscope_callers::fuzzing::{UNPACKED_MAX, packed_functions};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let wanted: Vec<u64> = (0..64).map(|place| 0x1000 + place * 0x10).chain([0, u64::MAX]).collect();
    let (names, unpacked) = packed_functions(bytes, &wanted);
    assert_eq!(names.len(), wanted.len());
    assert!(unpacked <= UNPACKED_MAX, "{unpacked} bytes");
});
