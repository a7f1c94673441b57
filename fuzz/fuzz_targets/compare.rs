//! Any bytes are a report that `compare` reads, or are refused in words that a terminal can show.
#![no_main]

use clockscope_report::compare::{Source, compare, parse, text};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let shown = match parse(bytes) {
        Ok(content) => {
            let source = |name: &str| Source { file: name.into(), content: content.clone() };
            let report = compare(&source("before"), &source("after"), None);
            text::render(&report.expect("they are of one kind"), true)
        }
        Err(error) => clockscope_text::foreign::printable(&format!("{error:#}")),
    };
    assert!(
        !shown.chars().any(|c| c.is_control() && c != '\n'),
        "a control character in {shown:?}"
    );
});
