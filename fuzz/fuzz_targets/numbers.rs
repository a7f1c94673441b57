//! Any bytes are numbers, or are refused; ministat's report of them ends.
#![no_main]

use clockscope_report::compare::ministat::{MinistatOptions, render};
use clockscope_report::compare::plain::{PlainFormat, parse};
use clockscope_stats::ministat::Set;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let format = PlainFormat {
        column: usize::from(choice & 3) + 1,
        delimiters: if choice & 4 == 0 { b" \t".to_vec() } else { b",;".to_vec() },
    };
    let Ok(values) = parse(bytes, &format) else { return };
    assert!(values.iter().all(|value| value.is_finite()));
    // Compares the first half of the numbers with the second.
    let (before, after) = values.split_at(values.len() / 2);
    let set = |name: &str, values: &[f64]| Some((name.to_owned(), Set::new(values.to_vec())?));
    let (Some(before), Some(after)) = (set("before", before), set("after", after)) else { return };
    let options = MinistatOptions {
        level: 2,
        plot: true,
        compare: true,
        separate_bars: choice & 8 != 0,
        width: 74,
    };
    let shown = render(&[before, after], &options);
    assert!(
        !shown.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t')),
        "a control character in {shown:?}"
    );
});
