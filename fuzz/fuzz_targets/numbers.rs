//! Any bytes are numbers or refused: what `compare` prints of them, and what ministat would, ends.
#![no_main]

use clockscope_report::compare::judge::{Content, JudgeOptions, Source, compare};
use clockscope_report::compare::plain::{PlainFormat, parse};
use clockscope_report::compare::text;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let format = PlainFormat {
        column: usize::from(choice & 3) + 1,
        delimiters: if choice & 4 == 0 { b" \t".to_vec() } else { b",;".to_vec() },
        comment_anywhere: choice & 8 == 0,
    };
    let Ok(values) = parse(bytes, &format) else { return };
    assert!(values.iter().all(|value| value.is_finite()));
    // Half of them against the others.
    let (before, after) = values.split_at(values.len() / 2);
    if before.is_empty() {
        return;
    }
    let source = |file: &str, values: &[f64]| Source {
        file: file.into(),
        content: Content::Plain(values.to_vec()),
    };
    let options = JudgeOptions {
        confidence_percent: 95.0,
        min_effect_percent: 1.0,
        higher_is_better: choice & 16 != 0,
        unit: "ns".into(),
    };
    let shown = text::render(
        &compare(vec![source("before", before), source("after", after)], &options),
        74,
    );
    assert!(
        !shown.chars().any(|c| c.is_control() && c != '\n'),
        "a control character in {shown:?}"
    );
});
