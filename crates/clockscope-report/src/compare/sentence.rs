//! Verdicts in words.

use super::spelling::spelled;
use clockscope_model::compare::{CompareReport, Comparison, SetRow, Verdict};
use clockscope_text::units;

/// At most this many changed paths are named in the last line.
const NAMED_MAX: usize = 3;

/// What is not in the comparison itself but decides its words.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Circumstances {
    /// The shift's interval would decide, but the launches differ.
    pub launches_disagree: bool,
    /// A set was measured on a machine too noisy to measure on.
    pub is_unusable: bool,
    /// The interval would decide, but among so many comparisons, or between two runs, as much is
    /// expected by chance.
    pub is_chance: bool,
}

/// Whether the unit is one of time; so is none, for want of better knowledge.
pub fn is_time(unit: &str) -> bool {
    matches!(unit, "" | "ps" | "ns" | "us" | "\u{b5}s" | "\u{3bc}s" | "ms" | "s" | "min" | "h")
}

/// The verdict in a word or two, as the table has it.
pub fn word(verdict: Verdict, report: &CompareReport) -> &'static str {
    let is_time = is_time(&report.unit) && !report.higher_is_better;
    match verdict {
        Verdict::Faster if is_time => "faster",
        Verdict::Faster => "better",
        Verdict::Slower if is_time => "slower",
        Verdict::Slower => "worse",
        Verdict::Same => "same",
        Verdict::NotProven => "not proven",
        Verdict::TooFew => "too few",
    }
}

/// A change in percent with its sign and three digits: `+0.93 %`, `-60.1 %`, `+483 %`.
pub fn percent(change: f64) -> String {
    let size = change.abs();
    let text = if size >= 1e6 {
        format!("{change:+.1e}")
    } else if size >= 99.95 {
        format!("{change:+.0}")
    } else if size >= 9.995 {
        format!("{change:+.1}")
    } else {
        format!("{change:+.2}")
    };
    let is_zero = text.bytes().all(|byte| matches!(byte, b'+' | b'-' | b'0' | b'.'));
    format!("{} %", if is_zero { text.trim_start_matches(['+', '-']) } else { &text })
}

/// The smallest effect that matters, without a sign: `1 %`.
fn effect(report: &CompareReport) -> String {
    format!("{} %", super::numbers::general(report.min_effect_percent, 6))
}

/// The change with the interval that decides: `+0.93 % (95 % interval +0.10 % to +1.2 %)`.
fn change(comparison: &Comparison, report: &CompareReport) -> String {
    let confidence = super::numbers::general(report.confidence_percent, 6);
    match (comparison.change(), comparison.decision_percent) {
        (Some(shift), Some((low, high))) => {
            let all = [shift, low, high];
            let are_tiny = all.iter().all(|change| change.abs() < 0.005)
                && all.iter().any(|change| *change != 0.0);
            // Where two decimals show nothing at all.
            let show = |change: f64| match are_tiny {
                true => format!("{} %", super::numbers::general(change, 2)),
                false => percent(change),
            };
            let [shift, low, high] = all.map(show);
            format!("{shift} ({confidence} % interval {low} to {high})")
        }
        _ => {
            let number = |value: f64| super::numbers::number(value, &report.unit, 6);
            format!(
                "{} ({confidence} % interval {} to {}; the median of the first is zero)",
                number(comparison.shift),
                number(comparison.shift_ci_low),
                number(comparison.shift_ci_high)
            )
        }
    }
}

/// The sentence of one comparison.
pub fn of(comparison: &Comparison, around: Circumstances, report: &CompareReport) -> String {
    let (base, other) = (&report.sets[comparison.base], &report.sets[comparison.other]);
    let (a, b) = names(base, other);
    let prefix =
        comparison.path.as_ref().map(|path| format!("{}: ", spelled(path))).unwrap_or_default();
    let change = change(comparison, report);
    let matters = effect(report);
    let is_proven = comparison.p_holm < 1.0 - report.confidence_percent / 100.0;
    let sentence = match comparison.verdict {
        Verdict::TooFew => return prefix + &too_few(comparison, base, other, report),
        Verdict::Faster | Verdict::Slower => {
            let word = word(comparison.verdict, report);
            let beyond = if report.min_effect_percent > 0.0 {
                format!(", beyond the {matters} that matters")
            } else {
                String::new()
            };
            format!("{b} is {word} than {a}: {change}{beyond}.")
        }
        Verdict::Same if is_proven => {
            format!("{b} differs from {a} by {change}, less than the {matters} that matters.")
        }
        Verdict::Same => {
            format!("{b} is the same as {a}: {change}, within the {matters} that matters.")
        }
        Verdict::NotProven if around.is_unusable => format!(
            "No difference proven between {b} and {a}: {change}; the machine was too noisy to \
             measure on."
        ),
        Verdict::NotProven if around.is_chance => format!(
            "No difference proven between {b} and {a}: {change}; as much is expected by chance (p = \
             {}, corrected for all comparisons), measure again.",
            super::numbers::general(comparison.p_holm, 2)
        ),
        Verdict::NotProven if around.launches_disagree => format!(
            "No difference proven between {b} and {a}: {change}; the launches disagree, measure \
             again with more --launches."
        ),
        Verdict::NotProven => {
            let more = match comparison.more_needed {
                Some(more) => {
                    format!(
                        "about {} each would tell",
                        units::counted(more, "more value", "more values")
                    )
                }
                None => "more values would hardly tell".to_owned(),
            };
            if is_proven {
                format!(
                    "{b} differs from {a} by {change}, but not proven by the {matters} that \
                     matters; {more}."
                )
            } else {
                format!("No difference proven between {b} and {a}: {change}; {more}.")
            }
        }
    };
    prefix + &sentence
}

fn too_few(
    comparison: &Comparison,
    base: &SetRow,
    other: &SetRow,
    report: &CompareReport,
) -> String {
    let (a, b) = names(base, other);
    let more = match comparison.more_needed {
        Some(more) => format!("each needs at least {} more", units::count(more)),
        None => "ask for less confidence".to_owned(),
    };
    let confidence = super::numbers::general(report.confidence_percent, 6);
    let has = |set: &SetRow| units::counted(set.n, "value", "values");
    format!(
        "Too few values for a verdict at {confidence} %: {a} has {} and {b} has {}; {more}.",
        has(base),
        has(other)
    )
}

/// What the two sets are called: their files, told apart if they are one file.
fn names(base: &SetRow, other: &SetRow) -> (String, String) {
    let name = |set: &SetRow| match set.file.as_str() {
        "-" => "standard input".to_owned(),
        file => file.to_owned(),
    };
    if base.file == other.file {
        (format!("{} (first)", name(base)), format!("{} (second)", name(other)))
    } else {
        (name(base), name(other))
    }
}

/// The last line: what changed.
pub fn conclusion(report: &CompareReport) -> String {
    match report.comparisons.as_slice() {
        [] if report.unmatched.is_empty() => {
            "One file, so nothing is compared; give a second one.".to_owned()
        }
        [] => "No path is in two files, so nothing is compared.".to_owned(),
        [only] => only.sentence.clone(),
        several => summary(several, report),
    }
}

fn summary(comparisons: &[Comparison], report: &CompareReport) -> String {
    let is_pair = comparisons
        .iter()
        .all(|c| report.sets[c.other].file == report.sets[comparisons[0].other].file);
    let noun = match comparisons[0].path {
        Some(_) if is_pair => "paths",
        Some(_) => "comparisons",
        None => "sets",
    };
    let total = comparisons.len();
    let of = |verdict| comparisons.iter().filter(move |c| c.verdict == verdict);
    let mut parts = Vec::new();
    for verdict in [Verdict::Slower, Verdict::Faster] {
        let mut found: Vec<&Comparison> = of(verdict).collect();
        if found.is_empty() {
            continue;
        }
        found.sort_by(|a, b| size(b).total_cmp(&size(a)));
        let named: Vec<String> = found.iter().take(NAMED_MAX).map(|c| named(c, report)).collect();
        let rest = match found.len().saturating_sub(NAMED_MAX) {
            0 => String::new(),
            rest => format!(" and {rest} more"),
        };
        parts.push(format!(
            "{} {} ({}{rest})",
            found.len(),
            word(verdict, report),
            named.join(", ")
        ));
    }
    let changed = of(Verdict::Slower).count() + of(Verdict::Faster).count();
    for verdict in [Verdict::Same, Verdict::NotProven, Verdict::TooFew] {
        match of(verdict).count() {
            0 => {}
            count => parts.push(format!("{count} {}", word(verdict, report))),
        }
    }
    let head = match changed {
        0 => format!("No change proven in {total} {noun}"),
        1 => format!("1 of {total} {noun} changed"),
        _ => format!("{changed} of {total} {noun} changed"),
    };
    format!("{head}: {}.", parts.join(", "))
}

/// A changed path with its change: `CLOCK_TAI by vdso +12.3 %`.
fn named(comparison: &Comparison, report: &CompareReport) -> String {
    let file = &report.sets[comparison.other].file;
    let is_pair = report.comparisons.iter().all(|c| &report.sets[c.other].file == file);
    let what = match &comparison.path {
        Some(path) if is_pair => spelled(path),
        Some(path) => format!("{} in {file}", spelled(path)),
        None => file.clone(),
    };
    match comparison.change() {
        Some(change) => format!("{what} {}", percent(change)),
        None => what,
    }
}

/// How large a change is, for sorting.
pub fn size(comparison: &Comparison) -> f64 {
    comparison.change().unwrap_or(comparison.shift).abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percents_have_a_sign_and_three_digits() {
        let table = [
            (0.0, "0.00 %"),
            (-0.001, "0.00 %"),
            (0.934, "+0.93 %"),
            (-9.996, "-10.0 %"),
            (-60.128, "-60.1 %"),
            (482.98, "+483 %"),
            (1e7, "+1.0e7 %"),
        ];
        for (change, text) in table {
            assert_eq!(percent(change), text, "{change}");
        }
    }

    #[test]
    fn only_times_are_fast_and_slow() {
        let report = |unit: &str, higher_is_better| CompareReport {
            unit: unit.to_owned(),
            higher_is_better,
            ..CompareReport::default()
        };
        for (unit, higher, expected) in [
            ("ns", false, "slower"),
            ("", false, "slower"),
            ("", true, "worse"),
            ("MB", false, "worse"),
            ("op/s", true, "worse"),
        ] {
            assert_eq!(word(Verdict::Slower, &report(unit, higher)), expected, "{unit}");
        }
    }
}
