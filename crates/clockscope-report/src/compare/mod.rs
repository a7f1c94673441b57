//! The report of `clockscope compare`: two reports of `bench`, two of `trace`, or numbers as in ministat.

mod bench;
pub mod host_changes;
mod judge;
pub mod ministat;
pub mod numbers;
pub mod plain;
pub mod text;
mod traces;

use anyhow::{Result, bail};

use crate::pages::model;
use clockscope_model::bench::BenchReport;
use clockscope_model::compare::{CompareReport, CompareRow, SCHEMA, Verdict};
use clockscope_model::trace::TraceReport;
use clockscope_page::{Document, Kind};
use clockscope_text::names::listed;
use judge::Path;

/// Number of changed rows named in the last line.
const NAMED_MAX: usize = 3;

/// A file to compare.
#[derive(Clone, Debug)]
pub struct Source {
    /// Name of the file, `-` for standard input.
    pub file: String,
    /// The report in the file.
    pub content: Content,
}

/// A report that can be compared with another of its kind.
#[derive(Clone, Debug)]
pub enum Content {
    /// Costs of paths.
    Bench(Box<BenchReport>),
    /// Calls of a program.
    Trace(Box<TraceReport>),
}

/// Parses a report written by `--format json` or `bench --save`.
///
/// # Errors
///
/// One line with the remedy.
pub fn parse(bytes: &[u8]) -> Result<Content> {
    let document = Document::parse(bytes)?;
    Ok(match document.kind {
        Kind::Bench => Content::Bench(Box::new(model(&document)?)),
        Kind::Trace => Content::Trace(Box::new(model(&document)?)),
        other => bail!(
            "it is a report of clockscope {}, and those of bench and trace are compared",
            other.name()
        ),
    })
}

/// Compares the second report with the first. `min_effect` is in percent; `None` for the default of the kind
/// of report.
///
/// # Errors
///
/// When the two reports were not made in the same way.
pub fn compare(before: &Source, after: &Source, min_effect: Option<f64>) -> Result<CompareReport> {
    let (usual_effect, host_changes, notes, paths) = match (&before.content, &after.content) {
        (Content::Bench(a), Content::Bench(b)) if a.method.net != b.method.net => bail!(
            "only one of {} and {} was measured with --net; measure both the same way",
            before.file,
            after.file
        ),
        (Content::Bench(a), Content::Bench(b)) => {
            (1.0, bench::host_changes(a, b), Vec::new(), [bench::paths(a), bench::paths(b)])
        }
        (Content::Trace(a), Content::Trace(b)) => {
            let paths = [a, b].map(|report| traces::paths(report, a.via == b.via));
            let notes = traces::notes([(&before.file, a), (&after.file, b)]);
            // Two runs of one program often differ by nearly this much.
            (10.0, traces::host_changes(a, b), notes, paths)
        }
        _ => bail!(
            "one of {} and {} is a report of bench, the other of trace; compare files of one kind",
            before.file,
            after.file
        ),
    };
    let mut report = CompareReport {
        schema: SCHEMA,
        before: before.file.clone(),
        after: after.file.clone(),
        min_effect_percent: min_effect.unwrap_or(usual_effect),
        host_changes,
        notes,
        ..CompareReport::default()
    };
    let pairs = pairs(paths, &mut report);
    judge::judge(&pairs, &mut report);
    report.conclusion = conclusion(&report.rows);
    Ok(report)
}

/// Paths in both files; all other paths go to `unmatched`.
fn pairs([before, after]: [Vec<Path>; 2], report: &mut CompareReport) -> Vec<(Path, Path)> {
    let mut after: Vec<Option<Path>> = after.into_iter().map(Some).collect();
    let mut pairs = Vec::new();
    for path in before {
        let same = after
            .iter_mut()
            .find(|other| other.as_ref().is_some_and(|other| other.name == path.name));
        match same.and_then(Option::take) {
            Some(other) => pairs.push((path, other)),
            None => report.unmatched.push((report.before.clone(), path.name)),
        }
    }
    let rest = after.into_iter().flatten().map(|path| (report.after.clone(), path.name));
    report.unmatched.extend(rest);
    pairs
}

/// The last line: the changes.
fn conclusion(rows: &[CompareRow]) -> String {
    if rows.is_empty() {
        return "Nothing is in both files, so nothing is compared.".to_owned();
    }
    let mut parts = Vec::new();
    let mut changed = 0;
    for (verdict, word) in text::WORDS {
        let found: Vec<&CompareRow> =
            text::largest_first(rows.iter().filter(|row| row.verdict == verdict));
        let names = if matches!(verdict, Verdict::Slower | Verdict::Faster) {
            changed += found.len();
            let named = found.iter();
            let named = named.map(|row| format!("{} {}", row.name, text::percent(row.change())));
            format!(" ({})", listed(&named.collect::<Vec<_>>(), NAMED_MAX))
        } else {
            String::new()
        };
        if !found.is_empty() {
            parts.push(format!("{} {word}{names}", found.len()));
        }
    }
    let total = clockscope_text::units::counted(rows.len() as u64, "path", "paths");
    let head = match changed {
        0 => format!("No change proven in {total}"),
        changed => format!("{changed} of {total} changed"),
    };
    format!("{head}: {}.", parts.join(", "))
}

#[cfg(test)]
mod tests;
