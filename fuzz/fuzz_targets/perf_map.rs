//! Any bytes are a perf map: reading it ends, and each name given is in the map.
#![no_main]

use clockscope_callers::fuzzing::names_of_map;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let wanted = [0, 1, 0x10, 0x7000, 0x7010, u64::MAX];
    let names = names_of_map(bytes, &wanted);
    assert_eq!(names.len(), wanted.len());
    let text = String::from_utf8_lossy(bytes);
    for name in names.iter().flatten() {
        // A name that was cut may end in the middle of a character.
        assert!(
            text.contains(name.trim_end_matches('\u{fffd}')),
            "{name:?} does not stand in the map"
        );
    }
});
