//! Any bytes are a measurement that `bench` saved, or refused with words that a terminal can show.
#![no_main]

use clockscope_report::compare::bench_file::parse;
use clockscope_report::compare::judge::{Content, JudgeOptions, Source, compare};
use clockscope_report::compare::text;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let shown = match parse(bytes) {
        Ok(file) => {
            let source = |name: &str| Source {
                file: name.into(),
                content: Content::Bench(Box::new(file.clone())),
            };
            let options = JudgeOptions {
                confidence_percent: 95.0,
                min_effect_percent: 1.0,
                higher_is_better: false,
                unit: String::new(),
            };
            text::render(&compare(vec![source("before"), source("after")], &options), 74)
        }
        Err(error) => clockscope_text::foreign::printable(&error.to_string()),
    };
    assert!(
        !shown.chars().any(|c| c.is_control() && c != '\n'),
        "a control character in {shown:?}"
    );
});
