//! From files to a comparison: statistics of each set, and each set against the first.

use super::bench_file::{BenchFile, BenchPath, label};
use super::host_changes;
use super::model::{CompareReport, Comparison, SCHEMA, SetRow, Verdict};
use super::sentence::{self, Circumstances};
use super::verdict::{self, Demand, Evidence};
use crate::foreign::Foreign;
use crate::report::bench::model::PathName;
use crate::stats::median::median_interval_of_sorted;
use crate::stats::summary::Sorted;
use crate::stats::{rank_test, shift, welch};

/// Values that are kept of each set for pictures.
const VALUES_KEPT: usize = 1000;

/// A file to compare.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// Its name, `-` for standard input.
    pub file: String,
    /// What is in it.
    pub content: Content,
}

/// What is in a file.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Numbers, finite ones; at least one.
    Plain(Vec<f64>),
    /// A saved measurement.
    Bench(Box<BenchFile>),
}

/// How to compare.
#[derive(Clone, Debug, PartialEq)]
pub struct JudgeOptions {
    /// Confidence of the intervals, in percent.
    pub confidence_percent: f64,
    /// The smallest change that matters, in percent.
    pub min_effect_percent: f64,
    /// Greater values are better.
    pub higher_is_better: bool,
    /// Unit of the numbers of plain files.
    pub unit: String,
}

/// Why files cannot be compared with each other.
///
/// # Errors
///
/// A clause that says what to do.
pub fn check_alike(sources: &[Source]) -> Result<(), String> {
    let Some((first, rest)) = sources.split_first() else { return Ok(()) };
    for other in rest {
        match (&first.content, &other.content) {
            (Content::Plain(_), Content::Plain(_)) => {}
            (Content::Bench(a), Content::Bench(b)) if a.net == b.net => {}
            (Content::Bench(_), Content::Bench(_)) => {
                return Err(format!(
                    "{} and {} cannot be compared: only one was measured with --net; measure both \
                     the same way",
                    first.file, other.file
                ));
            }
            (a, b) => {
                return Err(format!(
                    "{} has {} and {} has {}; compare files of one kind",
                    first.file,
                    kind(a),
                    other.file,
                    kind(b)
                ));
            }
        }
    }
    Ok(())
}

fn kind(content: &Content) -> &'static str {
    match content {
        Content::Plain(_) => "plain numbers",
        Content::Bench(_) => "a measurement of clockscope bench",
    }
}

/// A set with what is only needed while judging.
struct Set {
    row: SetRow,
    values: Option<Sorted>,
    regimes: Option<Foreign>,
}

/// Compares every set with the first of its path.
#[must_use]
pub fn compare(sources: Vec<Source>, options: &JudgeOptions) -> CompareReport {
    let is_bench = sources.iter().any(|source| matches!(source.content, Content::Bench(_)));
    let mut report = CompareReport {
        schema: SCHEMA,
        unit: if is_bench { "ps".to_owned() } else { options.unit.clone() },
        higher_is_better: options.higher_is_better && !is_bench,
        confidence_percent: options.confidence_percent,
        min_effect_percent: options.min_effect_percent,
        host_changes: host_changes_of(&sources),
        ..CompareReport::default()
    };
    let confidence = options.confidence_percent / 100.0;
    let groups = group(sources, confidence, &mut report);
    let mut disagreeing = Vec::new();
    for sets in groups {
        let base = report.sets.len();
        report.sets.extend(sets.iter().map(|set| set.row.clone()));
        let mut sets = sets.into_iter();
        let Some(first) = sets.next() else { continue };
        note_about(&first, &mut report);
        for (index, other) in sets.enumerate() {
            note_about(&other, &mut report);
            let mut comparison = Comparison {
                path: other.row.path.clone(),
                base,
                other: base + 1 + index,
                ..Comparison::default()
            };
            let around = judge(&mut comparison, &first, &other, &report);
            if around.launches_disagree {
                disagreeing.push(comparison.path.clone().unwrap_or_default());
            }
            comparison.sentence = sentence::of(&comparison, around, &report);
            report.comparisons.push(comparison);
        }
    }
    report.notes.extend(launch_notes(&disagreeing, &report));
    report.conclusion = sentence::conclusion(&report);
    report
}

/// What must be said about launches: where they disagree, and where there is only one.
fn launch_notes(disagreeing: &[String], report: &CompareReport) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(path) = disagreeing.first() {
        let more = match disagreeing.len() {
            1 => String::new(),
            2 => " and one more path".to_owned(),
            paths => format!(" and {} more paths", paths - 1),
        };
        notes.push(format!(
            "The launches of {path}{more} disagree about the change; measure again with more \
             --launches."
        ));
    }
    if report.sets.iter().any(|set| set.launch_medians.len() == 1) {
        notes.push(
            "A file has one launch only, so how much launches differ is not known, and only large \
             changes can be proven; measure with --launches 3."
                .to_owned(),
        );
    }
    notes
}

/// Sets of one path each, the first file's first; what has no counterpart goes to `unmatched`.
fn group(sources: Vec<Source>, confidence: f64, report: &mut CompareReport) -> Vec<Vec<Set>> {
    let alone = sources.len() == 1;
    let mut plain = Vec::new();
    let mut by_path: Vec<(PathName, Vec<Set>)> = Vec::new();
    for (index, source) in sources.into_iter().enumerate() {
        match source.content {
            Content::Plain(values) => plain.push(set_of(source.file, None, values, confidence)),
            Content::Bench(bench) => {
                for path in bench.paths {
                    let name = path.name.clone();
                    let row = set_of_path(&source.file, path, confidence);
                    match by_path.iter_mut().find(|(known, _)| *known == name) {
                        Some((_, sets)) => sets.push(row),
                        None if index == 0 => by_path.push((name, vec![row])),
                        None => report.unmatched.push((source.file.clone(), label(&name))),
                    }
                }
            }
        }
    }
    let mut groups: Vec<Vec<Set>> = Vec::new();
    if !plain.is_empty() {
        groups.push(plain);
    }
    for (name, sets) in by_path {
        if sets.len() > 1 || alone {
            groups.push(sets);
        } else {
            report.unmatched.push((sets[0].row.file.clone(), label(&name)));
        }
    }
    groups
}

fn set_of_path(file: &str, path: BenchPath, confidence: f64) -> Set {
    let mut set = set_of(file.to_owned(), Some(label(&path.name)), path.samples_ps, confidence);
    set.row.launch_medians = path.launches_ps;
    set.row.grade = Some(path.grade.printable()).filter(|grade| !grade.is_empty());
    set.regimes = path.regimes;
    set
}

fn set_of(file: String, path: Option<String>, values: Vec<f64>, confidence: f64) -> Set {
    let row = SetRow { file, path, ..SetRow::default() };
    let values = Sorted::new(values);
    let row = match &values {
        Some(values) => described(row, values, confidence),
        None => row,
    };
    Set { row, values, regimes: None }
}

fn described(row: SetRow, values: &Sorted, confidence: f64) -> SetRow {
    let Some(median) = median_interval_of_sorted(values.values(), confidence) else { return row };
    SetRow {
        n: values.count() as u64,
        min: values.min(),
        median: median.median,
        median_ci_low: median.low,
        median_ci_high: median.high,
        median_ci_percent: median.confidence * 100.0,
        max: values.max(),
        mean: values.mean(),
        sd: values.standard_deviation(),
        outliers: values.outliers().count() as u64,
        values: values.thinned(VALUES_KEPT),
        ..row
    }
}

/// Fills in the statistics and the verdict; says what else the sentence must tell.
fn judge(
    comparison: &mut Comparison,
    base: &Set,
    other: &Set,
    report: &CompareReport,
) -> Circumstances {
    let confidence = report.confidence_percent / 100.0;
    let (Some(a), Some(b)) = (&base.values, &other.values) else {
        comparison.verdict = Verdict::TooFew;
        let counts = [base, other].map(|set| usize::try_from(set.row.n).unwrap_or(usize::MAX));
        comparison.more_needed = verdict::missing((counts[0], counts[1]), confidence);
        comparison.u_p = 1.0;
        return Circumstances::default();
    };
    let shift = shift::hodges_lehmann(a, b, confidence);
    let ranks = rank_test::mann_whitney(a, b);
    comparison.shift = shift.estimate;
    (comparison.shift_ci_low, comparison.shift_ci_high) = (shift.low, shift.high);
    comparison.u = ranks.u;
    comparison.u_p = ranks.p;
    comparison.u_exact = ranks.exact;
    comparison.cliff_delta = ranks.cliff_delta;
    if let Some(means) = welch::welch(a, b, confidence) {
        comparison.welch_t = Some(means.t);
        comparison.welch_df = Some(means.df);
        comparison.welch_p = Some(means.p);
        comparison.welch_ci = Some(means.interval);
    }
    let whole = base.row.median.abs();
    let percent = |value: f64| value / whole * 100.0;
    let is_relative = whole > 0.0 && percent(shift.low.abs().max(shift.high.abs())).is_finite();
    let mut interval = (shift.low, shift.high);
    if is_relative {
        interval = (percent(shift.low), percent(shift.high));
        comparison.shift_percent = Some((percent(shift.estimate), interval.0, interval.1));
    }
    let counts = (a.count(), b.count());
    let is_unusable = [base, other].iter().any(|set| set.row.grade.as_deref() == Some("unusable"));
    let alone = Evidence { counts, interval, p: ranks.p, is_unusable };
    let demand = Demand {
        confidence,
        effect: if is_relative { report.min_effect_percent } else { 0.0 },
        higher_is_better: report.higher_is_better,
    };
    let mut evidence = alone;
    let launches = verdict::between_launches(&base.row.launch_medians, &other.row.launch_medians);
    if let Some((low, high)) = launches.filter(|_| is_relative) {
        evidence.interval = (interval.0.min(low), interval.1.max(high));
    }
    comparison.decision_percent = is_relative.then_some(evidence.interval);
    comparison.verdict = verdict::decide(&evidence, &demand);
    let fewest = base.row.launch_medians.len().min(other.row.launch_medians.len());
    let launches_disagree = fewest > 1
        && comparison.verdict == Verdict::NotProven
        && verdict::decide(&alone, &demand) != Verdict::NotProven;
    comparison.more_needed = match comparison.verdict {
        Verdict::TooFew => verdict::missing(counts, confidence),
        Verdict::NotProven if !launches_disagree && !is_unusable && fewest != 1 => {
            let is_proven = ranks.p < 1.0 - confidence;
            let estimate = if is_relative { percent(shift.estimate) } else { shift.estimate };
            verdict::more_needed(counts, estimate, interval, demand.effect, is_proven)
        }
        _ => None,
    };
    Circumstances { launches_disagree, is_unusable }
}

fn note_about(set: &Set, report: &mut CompareReport) {
    let name = match &set.row.path {
        Some(path) => format!("{path} in {}", set.row.file),
        None => set.row.file.clone(),
    };
    if set.values.as_ref().is_some_and(|values| values.count() > 2 && values.is_constant()) {
        add_note(
            report,
            format!(
                "All values of {name} are equal: what measured them may be too coarse to see a \
                 difference."
            ),
        );
    }
    if let Some(regimes) = &set.regimes {
        add_note(report, format!("{name}: {}.", regimes.printable().trim_end_matches('.')));
    }
}

fn add_note(report: &mut CompareReport, note: String) {
    if !report.notes.contains(&note) {
        report.notes.push(note);
    }
}

fn host_changes_of(sources: &[Source]) -> Vec<String> {
    let mut hosts = sources.iter().filter_map(|source| match &source.content {
        Content::Bench(bench) => Some((&source.file, bench)),
        Content::Plain(_) => None,
    });
    let Some((_, first)) = hosts.next() else { return Vec::new() };
    let several = sources.len() > 2;
    hosts
        .flat_map(|(file, bench)| {
            host_changes::between(&first.host, &bench.host)
                .into_iter()
                .chain(host_changes::of_cpu(first.cpu, bench.cpu))
                .chain(host_changes::of_speed(first.control_ns, bench.control_ns))
                .map(move |clause| if several { format!("{file}: {clause}") } else { clause })
        })
        .collect()
}

#[cfg(test)]
mod tests;
