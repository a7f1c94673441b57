//! The comparison as text: a table, the limits of the comparison, and the conclusion.

use crate::table;
use clockscope_model::compare::{CompareReport, CompareRow, Cost, Verdict};
use clockscope_stats::order;
use clockscope_text::foreign::printable;
use clockscope_text::lines::{self, WIDTH, cut_middle};
use clockscope_text::units;

/// Verdicts in the order of the last line.
pub(super) const WORDS: [(Verdict, &str); 5] = [
    (Verdict::Slower, "slower"),
    (Verdict::Faster, "faster"),
    (Verdict::Same, "same"),
    (Verdict::NotProven, "not proven"),
    (Verdict::TooFew, "too few"),
];
/// Number of rows named that only one file has.
const UNMATCHED_MAX: usize = 5;

/// The whole text, with all rows or only the changed ones.
pub fn render(report: &CompareReport, all: bool) -> String {
    let [before, after] = [&report.before, &report.after].map(|file| printable(file));
    let table = format!("{before} -> {after}\n\n{}", table(&report.rows, all));
    let mut blocks = vec![table, notes(report), paragraph(&report.conclusion)];
    blocks.retain(|block| !block.is_empty());
    blocks.join("\n")
}

/// The notes between the figures and the conclusion.
fn notes(report: &CompareReport) -> String {
    let mut lines: Vec<String> = Vec::new();
    lines.extend(report.host_changes.iter().map(|clause| format!("Host: {clause}.")));
    lines.extend(report.notes.iter().map(|note| format!("Note: {note}")));
    let only = |(file, name): &(String, String)| format!("Only in {file}: {name}.");
    lines.extend(report.unmatched.iter().take(UNMATCHED_MAX).map(only));
    if report.unmatched.len() > UNMATCHED_MAX {
        lines
            .push(format!("And {} more in one file only.", report.unmatched.len() - UNMATCHED_MAX));
    }
    lines.iter().map(|line| paragraph(line)).collect()
}

/// A paragraph in which a percent sign stays with its number.
fn paragraph(words: &str) -> String {
    let words = printable(words).replace(" %", "\u{a0}%");
    lines::paragraph(&words).replace('\u{a0}', " ")
}

/// The largest changes first.
pub(super) fn largest_first<'a>(rows: impl Iterator<Item = &'a CompareRow>) -> Vec<&'a CompareRow> {
    let mut rows: Vec<_> = rows.collect();
    order::by(&mut rows, |a, b| b.change().abs().total_cmp(&a.change().abs()));
    rows
}

/// The changed rows, then, with `all`, the others.
fn table(rows: &[CompareRow], all: bool) -> String {
    use Verdict::{Faster, NotProven, Same, Slower, TooFew};
    let mut shown = Vec::new();
    for verdicts in [&[Slower, Faster][..], &[NotProven], &[Same], &[TooFew]] {
        if all || verdicts.contains(&Slower) {
            shown.extend(largest_first(rows.iter().filter(|row| verdicts.contains(&row.verdict))));
        }
    }
    let mut text = String::new();
    if !shown.is_empty() {
        let head = ["path", "before", "after", "change", "95 % interval", "verdict"];
        let rows = shown.iter().map(|row| cells(row));
        text = aligned([head.map(str::to_owned)].into_iter().chain(rows).collect());
    }
    let (one, many) = if shown.is_empty() { ("path", "paths") } else { ("other", "others") };
    match rows.len() - shown.len() {
        0 => text,
        rest => format!(
            "{text}{}: no change found (--all shows them)\n",
            units::counted(rest as u64, one, many)
        ),
    }
}

fn cells(row: &CompareRow) -> [String; 6] {
    let cost = |cost: Option<Cost>| cost.map_or("-".to_owned(), |cost| units::picos(cost.ps));
    let (change, interval) = match row.change_percent {
        Some((change, low, high)) => {
            let bare = |value: f64| percent(value).trim_end_matches(" %").to_owned();
            (percent(change), format!("{} to {}", bare(low), bare(high)))
        }
        None => ("-".to_owned(), "-".to_owned()),
    };
    let word =
        WORDS.iter().find(|(verdict, _)| *verdict == row.verdict).map_or("", |(_, word)| word);
    [printable(&row.name), cost(row.before), cost(row.after), change, interval, word.to_owned()]
}

/// Columns as wide as their widest cell; the first and the last are aligned left. The first is cut if the
/// others leave too little room.
fn aligned(mut rows: Vec<[String; 6]>) -> String {
    let mut widths = table::widest(&rows, 6);
    let others = widths[1..].iter().sum::<usize>() + 2 * 5;
    widths[0] = widths[0].min(WIDTH.saturating_sub(others).max(1));
    let line = |row: &mut [String; 6]| {
        row[0] = cut_middle(&row[0], widths[0]);
        table::line(&*row, &widths, "  ", |column| column == 0 || column == 5)
    };
    rows.iter_mut().map(line).collect()
}

/// A change in percent with its sign and three digits: `+0.93 %`, `-60.1 %`, `+483 %`.
pub(super) fn percent(change: f64) -> String {
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
}
