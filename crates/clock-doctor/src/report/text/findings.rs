//! The findings: each cause once, with its evidence, and its consequences below it.

use std::collections::HashSet;

use super::TextOptions;
use super::paragraph::{quoted, wrapped};
use crate::facts::Evidence;
use crate::report::model::{DoctorReport, FindingRow};
use crate::rules::catalogue::capitalised;
use crate::rules::finding::Severity;

/// Maximum number of lines of evidence for a finding; the JSON contains all.
const LINES_MAX: usize = 6;
/// Length of the machine's details, in characters, that makes the general explanation superfluous.
const ENOUGH: usize = 100;
/// Maximum number of sentences of a remark, or of the general explanation; `--explain` prints all.
const SENTENCES_MAX: usize = 2;

/// The findings that cost time or may make the time wrong.
pub(super) fn render(report: &DoctorReport, options: &TextOptions) -> String {
    let mut writer = Writer { shown: HashSet::new(), options };
    let mut out = String::new();
    let mut heading = "Why: ";
    for (row, depth) in rows(report, true) {
        if depth > 0 {
            out += &writer.consequence(row, 2 * depth);
            continue;
        }
        out.push('\n');
        out += &writer.cause(heading, row);
        heading = "Also: ";
    }
    out
}

/// Notes, then harmless findings: each with the reason and its lines.
pub(super) fn remarks(report: &DoctorReport, options: &TextOptions) -> String {
    let rows = rows(report, false);
    let mut writer = Writer { shown: HashSet::new(), options };
    let mut out = String::new();
    for (heading, is_ok) in [("Note: ", false), ("Harmless: ", true)] {
        for (row, _) in rows.iter().filter(|(row, _)| (row.severity == Severity::Ok) == is_ok) {
            out += &wrapped(heading, 2, &remark(row));
            out += &writer.evidence(4, row);
        }
    }
    out
}

/// The findings that cost time, or the others, each with its depth: 0 for one that follows from no finding before it.
/// What follows from a finding goes with it.
fn rows(report: &DoctorReport, cost: bool) -> Vec<(&FindingRow, usize)> {
    let mut rows: Vec<(&FindingRow, usize, bool)> = Vec::new();
    for row in &report.findings {
        let name = row.follows_from.as_deref();
        let cause = rows.iter().find(|(cause, ..)| Some(cause.id.as_str()) == name);
        let (depth, costs) = cause
            .map_or((0, row.severity >= Severity::Slow), |(_, depth, costs)| (depth + 1, *costs));
        rows.push((row, depth, costs));
    }
    let chosen = rows.into_iter().filter(|(.., costs)| *costs == cost);
    chosen.map(|(row, depth, _)| (row, depth)).collect()
}

/// Writes findings, and each line of evidence once.
struct Writer<'a> {
    shown: HashSet<Evidence>,
    options: &'a TextOptions,
}

impl Writer<'_> {
    fn cause(&mut self, heading: &str, row: &FindingRow) -> String {
        let title = wrapped(heading, heading.len(), &titled(row));
        let (heading, rest) = title.split_at(heading.trim_end().len());
        let out = self.options.bold(heading) + rest;
        let detail = row.detail.join(" ");
        let general = sentences(&row.explanation, SENTENCES_MAX);
        let (before, after) = match detail.chars().count() {
            0 => (general, ""),
            ENOUGH.. => (detail.as_str(), ""),
            _ => (detail.as_str(), general),
        };
        let paragraph =
            |text: &str| if text.is_empty() { String::new() } else { wrapped("  ", 2, text) };
        out + &paragraph(before) + &self.evidence(4, row) + &paragraph(after)
    }

    fn consequence(&mut self, row: &FindingRow, indent: usize) -> String {
        let detail = row.detail.join(" ");
        let text = match detail.as_str() {
            "" => format!("{}.", titled(row)),
            detail => format!("{}: {detail}", titled(row)),
        };
        wrapped(&format!("{}- ", " ".repeat(indent)), indent + 2, &text)
            + &self.evidence(indent + 4, row)
    }

    /// The lines that were not quoted before.
    fn evidence(&mut self, indent: usize, row: &FindingRow) -> String {
        let mut new: Vec<&Evidence> =
            row.evidence.iter().filter(|line| self.shown.insert((*line).clone())).collect();
        let files: Vec<&str> = new.iter().map(|line| line.file.as_str()).collect();
        let file = |line: &Evidence| files.iter().position(|name| *name == line.file);
        // In the order of the log: the most important line may be the last one there.
        new.sort_by_key(|line| (file(line), line.line));
        let line = |line: &&Evidence| quoted(indent, line, self.options.columns);
        let mut out: String = new.iter().take(LINES_MAX).map(line).collect();
        if let Some(more) = new.len().checked_sub(LINES_MAX).filter(|more| *more > 0) {
            out += &format!("{}and {more} more\n", " ".repeat(indent));
        }
        out
    }
}

/// The first sentences of a text: a sentence ends at a full stop before a space and a capital.
fn sentences(text: &str, most: usize) -> &str {
    let ends = text.match_indices(". ").map(|(at, _)| at + 1);
    let mut ends = ends.filter(|&end| text[end..].trim_start().starts_with(char::is_uppercase));
    match most.checked_sub(1).and_then(|before| ends.nth(before)) {
        Some(end) => &text[..end],
        None => text,
    }
}

fn titled(row: &FindingRow) -> String {
    format!("{} [{}]", capitalised(&row.title), row.id)
}

/// Title and the first details, or the general explanation.
fn remark(row: &FindingRow) -> String {
    let reason = match row.detail.first() {
        Some(detail) => sentences(detail, SENTENCES_MAX),
        None => sentences(&row.explanation, 1),
    };
    format!("{}: {reason}", titled(row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_end_at_a_full_stop_before_a_capital() {
        let text = "Every 0.5 s (e.g. at boot) it looks. The TSC is 1.2. It stays.";
        assert_eq!(sentences(text, 1), "Every 0.5 s (e.g. at boot) it looks.");
        assert_eq!(sentences(text, 2), "Every 0.5 s (e.g. at boot) it looks. The TSC is 1.2.");
        assert_eq!(sentences(text, 9), text);
        assert_eq!(sentences("", 2), "");
    }
}
