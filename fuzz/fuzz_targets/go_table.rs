//! Any bytes are Go's table of functions: a lookup of any address ends.
#![no_main]

use clockscope_callers::fuzzing::go_functions;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let wanted: Vec<u64> =
        (0..64).map(|place| 0x40_1000 + place * 0x40).chain([0, u64::MAX]).collect();
    for name in go_functions(bytes, 0x40_1000, &wanted).iter().flatten() {
        assert!(name.len() <= 3 * 4096, "a name of {} bytes", name.len());
    }
});
