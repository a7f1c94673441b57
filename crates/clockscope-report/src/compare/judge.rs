//! From files to a comparison: statistics of each set, and each set against the first.

use super::bench_file::{BenchFile, BenchPath, label};
use super::host_changes;
use super::sentence::{self, Circumstances};
use super::spelling::spelled;
use super::verdict::{self, Demand, Evidence};
use clockscope_model::bench::PathName;
use clockscope_model::compare::{CompareReport, Comparison, SCHEMA, SetRow, Verdict};
use clockscope_stats::gated;
use clockscope_stats::launches::{LaunchPair, common_spread};
use clockscope_stats::median::median_interval_of_sorted;
use clockscope_stats::summary::Sorted;
use clockscope_stats::{holm, rank_test, shift, welch};
use clockscope_text::foreign::Foreign;
use clockscope_text::units;

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

/// What is in a file, with its article.
pub fn kind(content: &Content) -> &'static str {
    match content {
        Content::Plain(_) => "plain numbers",
        Content::Bench(_) => "a measurement of clockscope bench",
    }
}

/// Of the batches of a path at least this part must have been undisturbed for a change to be proven.
const KEPT_LEAST: f64 = 0.1;

/// A set with what is only needed while judging.
struct Set {
    row: SetRow,
    values: Option<Sorted>,
    regimes: Option<Foreign>,
    /// Hardly any batch was undisturbed.
    is_unusable: bool,
}

/// A comparison before its verdict, which depends on how many others there are.
struct Weighed {
    comparison: Comparison,
    /// What the batches alone say, and what all says; none if there are too few values.
    evidence: Option<(Evidence, Evidence)>,
    /// Launches of both; none for plain sets.
    launches: Option<LaunchPair>,
}

/// Compares every set with the first of its path.
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
    let mut weighed = Vec::new();
    for sets in groups {
        let base = report.sets.len();
        report.sets.extend(sets.iter().map(|set| set.row.clone()));
        let mut sets = sets.into_iter();
        let Some(first) = sets.next() else { continue };
        note_about(&first, &mut report);
        for (index, other) in sets.enumerate() {
            note_about(&other, &mut report);
            let comparison = Comparison {
                path: other.row.path.clone(),
                base,
                other: base + 1 + index,
                ..Comparison::default()
            };
            weighed.push(weigh(comparison, &first, &other, &report));
        }
    }
    let disagreeing = decide_all(weighed, &mut report);
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
    let single = || report.sets.iter().filter(|set| set.launch_medians.len() == 1);
    if single().any(|set| set.launches.is_none_or(|made| made <= 1)) {
        notes.push(
            "A file has one launch only, so how much launches differ is not known, and only large \
             changes can be proven; measure with --launches 3."
                .to_owned(),
        );
    }
    let mut disturbed = single().filter(|set| set.launches.is_some_and(|made| made > 1));
    if let Some(first) = disturbed.next() {
        let made = first.launches.unwrap_or_default();
        let path = first.path.as_deref().map_or("a path".to_owned(), spelled);
        let more = match disturbed.count() {
            0 => String::new(),
            sets => format!(" (and in {} more)", units::counted(sets as u64, "set", "sets")),
        };
        notes.push(format!(
            "Of the {made} launches of {path} in {}{more} all but one were disturbed throughout, so \
             how much launches differ is not known there, and only large changes can be proven; \
             measure on a quieter machine.",
            first.file
        ));
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
                let launches = Some(bench.launches).filter(|launches| *launches > 0);
                for path in bench.paths {
                    let name = path.name.clone();
                    let mut row = set_of_path(&source.file, path, confidence);
                    row.row.launches = launches;
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
    if let Some((median, low, high)) = path.median_ps.filter(|_| set.row.n > 0) {
        // As bench prints it: the values here are a choice of those.
        if (confidence - gated::CONFIDENCE).abs() < 1e-9 {
            (set.row.median_ci_low, set.row.median_ci_high) = (low.min(median), high.max(median));
        }
        set.row.median = median;
        set.row.median_ci_low = set.row.median_ci_low.min(median);
        set.row.median_ci_high = set.row.median_ci_high.max(median);
    }
    set.row.cheapest = path.cheapest_ps;
    set.is_unusable = path.grade == "unusable" || path.kept < KEPT_LEAST;
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
    Set { row, values, regimes: None, is_unusable: false }
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

/// Fills in the statistics.
fn weigh(mut comparison: Comparison, base: &Set, other: &Set, report: &CompareReport) -> Weighed {
    let confidence = report.confidence_percent / 100.0;
    let (Some(a), Some(b)) = (&base.values, &other.values) else {
        comparison.verdict = Verdict::TooFew;
        let counts = [base, other].map(|set| usize::try_from(set.row.n).unwrap_or(usize::MAX));
        comparison.more_needed = verdict::missing((counts[0], counts[1]), confidence);
        (comparison.u_p, comparison.p_holm) = (1.0, 1.0);
        return Weighed { comparison, evidence: None, launches: None };
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
    let mut launches = None;
    if is_relative {
        interval = (percent(shift.low), percent(shift.high));
        comparison.shift_percent = Some((percent(shift.estimate), interval.0, interval.1));
        comparison.change_percent = comparison.shift_percent;
        launches = of_launches(base, other);
        if launches.is_some() {
            interval = verdict::between_medians(&base.row, &other.row);
            let change = percent(other.row.median - base.row.median);
            comparison.change_percent = Some((change, interval.0, interval.1));
        }
    }
    let is_unusable = base.is_unusable || other.is_unusable;
    let alone = Evidence { counts: (a.count(), b.count()), interval, p: ranks.p, is_unusable };
    let mut evidence = alone;
    if launches.is_some() {
        let (low, high) = verdict::widened(interval, &base.row, &other.row);
        evidence.interval = (low, high);
    }
    comparison.decision_percent = is_relative.then_some(evidence.interval);
    Weighed { comparison, evidence: Some((alone, evidence)), launches }
}

/// The launches of both, if they are of bench files.
fn of_launches(base: &Set, other: &Set) -> Option<LaunchPair> {
    let above = |set: &Set| match set.row.cheapest {
        Some(cheapest) if cheapest > 0.0 => (set.row.median - cheapest) / cheapest * 100.0,
        _ => 0.0,
    };
    let above = (above(base), above(other));
    LaunchPair::of(&base.row.launch_medians, &other.row.launch_medians, above)
}

/// Verdicts and sentences of all comparisons, each in the light of the others; gives the paths of
/// which the launches disagree.
fn decide_all(weighed: Vec<Weighed>, report: &mut CompareReport) -> Vec<String> {
    let common = common_spread(weighed.iter().filter_map(|weighed| weighed.launches.as_ref()));
    let by_chance = |weighed: &Weighed| match (&weighed.launches, weighed.comparison.change()) {
        (Some(pair), Some(change)) => pair.p(change, report.min_effect_percent, common),
        _ => weighed.comparison.u_p,
    };
    // What could not be compared is no comparison that might have shown something by chance.
    let compared = weighed.iter().filter(|weighed| weighed.evidence.is_some());
    let alone: Vec<f64> = compared.map(by_chance).collect();
    let mut corrected = holm::adjusted(&alone).into_iter();
    let mut disagreeing = Vec::new();
    for weighed in weighed {
        let Weighed { mut comparison, evidence, launches } = weighed;
        let mut around = Circumstances::default();
        if let Some((alone, evidence)) = evidence {
            let p = corrected.next().unwrap_or(1.0);
            comparison.p_holm = p;
            around = decide(&mut comparison, &alone, &Evidence { p, ..evidence }, launches, report);
        }
        if around.launches_disagree {
            disagreeing.push(comparison.path.as_deref().map(spelled).unwrap_or_default());
        }
        comparison.sentence = sentence::of(&comparison, around, report);
        report.comparisons.push(comparison);
    }
    disagreeing
}

/// Fills in the verdict; says what else the sentence must tell.
fn decide(
    comparison: &mut Comparison,
    alone: &Evidence,
    evidence: &Evidence,
    launches: Option<LaunchPair>,
    report: &CompareReport,
) -> Circumstances {
    let confidence = report.confidence_percent / 100.0;
    let is_relative = comparison.shift_percent.is_some();
    let demand = Demand {
        confidence,
        effect: if is_relative { report.min_effect_percent } else { 0.0 },
        higher_is_better: report.higher_is_better,
    };
    comparison.verdict = verdict::decide(evidence, &demand);
    let fewest = launches.map_or(0, |pair| pair.counts.0.min(pair.counts.1));
    let is_open = comparison.verdict == Verdict::NotProven;
    let launches_disagree =
        fewest > 1 && is_open && verdict::decide(alone, &demand) != Verdict::NotProven;
    let is_chance = is_open
        && verdict::decide(&Evidence { p: 0.0, ..*evidence }, &demand) != Verdict::NotProven;
    comparison.more_needed = match comparison.verdict {
        Verdict::TooFew => verdict::missing(evidence.counts, confidence),
        Verdict::NotProven
            if !launches_disagree && !is_chance && !evidence.is_unusable && fewest != 1 =>
        {
            let is_proven = evidence.p < 1.0 - confidence;
            let estimate = comparison.change().filter(|_| is_relative).unwrap_or(comparison.shift);
            verdict::more_needed(
                evidence.counts,
                estimate,
                alone.interval,
                demand.effect,
                is_proven,
            )
        }
        _ => None,
    };
    Circumstances {
        launches_disagree: launches_disagree && !is_chance,
        is_unusable: evidence.is_unusable,
        is_chance,
    }
}

fn note_about(set: &Set, report: &mut CompareReport) {
    let name = match &set.row.path {
        Some(path) => format!("{} in {}", spelled(path), set.row.file),
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
