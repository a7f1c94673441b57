//! Any bytes are a jitdump: reading one ends, and gives a name only where a record covers the address.
#![no_main]

use clockscope_callers::fuzzing::names_of_dump;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let wanted = [0, 0x7000, 0x7001, 0x8000, 0x9000, u64::MAX];
    let names = names_of_dump(bytes, &wanted);
    assert_eq!(names.len(), wanted.len());
    if !bytes.starts_with(&0x4a69_5444_u32.to_le_bytes()) {
        assert!(names.iter().all(Option::is_none), "a name from what is no jitdump");
    }
});
