//! The reason why the watchdog gave the TSC up: arithmetic on its lines.
//!
//! [`episode`] finds the lines that belong together, [`rates`] the rate of each clocksource, [`interval`] the counts of
//! both clocks, [`labels`] their meaning. [`explain`] writes sentences about it, and [`remedies`] selects the fixes.

pub(crate) mod episode;
pub(crate) mod explain;
pub(crate) mod figures;
pub(crate) mod interval;
pub(crate) mod labels;
pub(crate) mod machine;
pub(crate) mod rates;
pub(crate) mod reference;
pub(crate) mod remedies;
pub(crate) mod resume;
#[cfg(test)]
mod simulated_tests;
pub(crate) mod sync;

use self::episode::Episode;
use self::interval::Interval;
use self::machine::Machine;
use self::rates::Rates;
use super::finding::{Finding, Severity, Verdict, merged};
use crate::facts::Facts;
use crate::log::event::{EventKind, Mark};
use crate::rules::catalogue::{Fix, Label};

/// The findings of these rules.
pub(crate) fn find(facts: &Facts, verdict: &Verdict) -> Vec<Finding> {
    let machine = Machine::of(facts, verdict);
    let rates = Rates::of(facts);
    let (episodes, others): (Vec<Episode>, Vec<Episode>) =
        episode::gather(facts).into_iter().partition(Episode::is_of_tsc);
    let mut findings = Vec::new();
    for episode in &episodes {
        if episode.is_delay() {
            findings.push(too_slow(episode, &machine));
        }
        if episode.is_skew() {
            findings.extend(skewed(episode, &rates, facts, &machine));
        }
    }
    if findings.is_empty() {
        findings.extend(noise(facts, &episodes, &others));
    }
    findings.extend(sync::find(facts, &machine));
    findings.extend(resume::find(facts, &machine));
    after_resume(merged(findings, Vec::extend))
}

/// All findings about one decision.
fn skewed(episode: &Episode, rates: &Rates, facts: &Facts, machine: &Machine) -> Vec<Finding> {
    let interval = Interval::of(episode, rates);
    let unchecked = rate_is_unchecked(facts);
    let mut labels = labels::labels(&interval);
    let is_rate = matches!(episode.marked, Some((_, Mark::FrequencySkew)));
    if labels.is_empty() && labels::only_a_rate_decides(&interval, is_rate) {
        labels.push(Label::NeedsRateMeasurement);
    }
    let mut findings: Vec<Finding> = labels
        .into_iter()
        .map(|label| specific(label, episode, &interval, machine, unchecked))
        .collect();
    findings.extend(runtime_warp(episode, machine));
    findings.extend(resume::by_counter(episode, &interval, machine));
    findings.extend(reference::find(episode, &interval, facts, machine, unchecked));
    link(&mut findings);
    let cause = findings.iter().find(|finding| is_cause(finding.label)).map(|found| found.label);
    let skew = Finding::new(Label::TscWatchdogSkew).seen_all(&episode.lines);
    let mut skew = event_in_words(skew, episode, &interval, cause.is_none());
    if findings.is_empty() || cause.is_none() {
        let remedy = remedies::of(Label::TscWatchdogSkew, machine, unchecked);
        skew = skew.fix(&remedy.fixes).forbid(&remedy.forbids);
    } else if unchecked {
        skew = skew.forbid(&[Fix::TscReliable]);
    }
    skew.follows_from = cause;
    findings.push(skew);
    findings.extend(early(episode, machine));
    findings
}

/// A finding more specific than the decision itself.
fn specific(
    label: Label,
    episode: &Episode,
    interval: &Interval,
    machine: &Machine,
    unchecked: bool,
) -> Finding {
    let remedy = remedies::of(label, machine, unchecked);
    let mut finding = Finding::new(label).fix(&remedy.fixes).forbid(&remedy.forbids);
    finding.detail = explain::sentences(label, episode, interval, machine);
    if label == Label::NeedsRateMeasurement && interval.second_agrees() == Some(true) {
        finding.severity = Severity::Note;
    }
    let lines = if episode.numbers.is_empty() { &episode.lines } else { &episode.numbers };
    finding = finding.seen_all(lines);
    if interval.reference_is_inferred
        && let Some((_, line)) = &episode.fallback
    {
        finding = finding.seen(line);
    }
    finding
}

/// Whether a finding gives the reason for the watchdog's decision, rather than an open question.
fn is_cause(label: Label) -> bool {
    !matches!(label, Label::NeedsRateMeasurement | Label::PerCpuSyncSuspicious | Label::AfterResume)
}

/// Links the findings of one decision to their causes.
fn link(findings: &mut [Finding]) {
    let has = |label: Label| findings.iter().any(|finding| finding.label == label);
    let late = has(Label::TscWatchdogLongInterval);
    let (bad, wrapped) = (has(Label::WatchdogBadReference), has(Label::WatchdogCounterWrapped));
    let resumed = has(Label::AfterResume);
    for finding in findings {
        finding.follows_from = match finding.label {
            Label::TscWatchdogLongInterval if wrapped => Some(Label::WatchdogCounterWrapped),
            Label::WatchdogFalsePositiveLikely if late => Some(Label::TscWatchdogLongInterval),
            Label::NeedsRateMeasurement => Some(Label::TscWatchdogSkew),
            Label::TscJumped if bad => Some(Label::WatchdogBadReference),
            Label::PerCpuSyncSuspicious => Some(Label::TscWarpRuntime),
            Label::TscWentBackwards if resumed => Some(Label::AfterResume),
            _ => finding.follows_from,
        };
        if finding.label == Label::TscJumped && bad {
            finding.severity = Severity::Slow;
        }
    }
}

/// Adds the kernel's decision in sentences.
fn event_in_words(
    mut skew: Finding,
    episode: &Episode,
    interval: &Interval,
    is_alone: bool,
) -> Finding {
    if is_alone {
        skew.detail = explain::alone(interval);
    }
    if let Some(at) = episode.at.filter(|at| *at >= 1.0) {
        skew = skew.tell_with("when", &[("since", &figures::since_start(at))]);
    }
    if let Some((Some(current), true)) = &episode.current {
        skew = skew.tell_with("other-current", &[("current", current)]);
    }
    if episode.has_bad_advice { skew.tell("bad-advice") } else { skew }
}

/// The finding for a reference that was slow to read.
fn too_slow(episode: &Episode, machine: &Machine) -> Finding {
    let label = Label::TscWatchdogReaddelay;
    let finding = specific(label, episode, &Interval::default(), machine, false);
    finding.seen_all(&episode.lines)
}

/// The findings for a decision that two CPUs disagree (7.1 and later).
fn runtime_warp(episode: &Episode, machine: &Machine) -> Vec<Finding> {
    let says_so = matches!(episode.marked, Some((_, Mark::CpuSkew)));
    if !says_so && episode.cycles.is_none() {
        return Vec::new();
    }
    let interval = Interval::default();
    let warp = specific(Label::TscWarpRuntime, episode, &interval, machine, false);
    let apart = specific(Label::PerCpuSyncSuspicious, episode, &interval, machine, false);
    vec![warp, apart]
}

/// The finding if the early clocksource was judged.
fn early(episode: &Episode, machine: &Machine) -> Option<Finding> {
    let line = episode.lines.iter().find(|line| line.text.contains("tsc-early"));
    let line =
        line.or(episode.lines.first()).filter(|_| episode.name.as_deref() == Some("tsc-early"))?;
    let mut finding = Finding::new(Label::TscEarly).seen(line).follows(Label::TscWatchdogSkew);
    if machine.since(5, 5) == Some(false) && machine.since(4, 16) != Some(false) {
        finding = finding.fix(&[Fix::NewerKernel]);
    }
    Some(finding)
}

/// Whether the rate of the TSC comes from CPUID or the like and was never compared with a timer: the kernel prints it
/// separately from the processor's rate, and no refinement followed.
fn rate_is_unchecked(facts: &Facts) -> bool {
    let is_stated = facts.logged(|kind| matches!(kind, EventKind::DetectedTsc(_))).is_some();
    let is_refined = facts.logged(|kind| matches!(kind, EventKind::Refined(_))).is_some();
    is_stated && !is_refined
}

/// Messages of the watchdog without a consequence for the TSC.
fn noise(facts: &Facts, delays: &[Episode], others: &[Episode]) -> Option<Finding> {
    let lines = facts.events().filter(|event| event.kind == EventKind::WatchdogNoise);
    let lines: Vec<_> = lines.map(|event| &event.evidence).collect();
    let delayed = delays.iter().filter(|episode| episode.delay.is_some());
    let of_others = others.iter().flat_map(|one| &one.lines);
    let delayed = delayed.flat_map(|one| &one.lines);
    let all: Vec<_> = lines.into_iter().chain(delayed).chain(of_others).collect();
    let lines = all.len();
    let mut finding = Finding::new(Label::WatchdogNoise).seen_all(all.into_iter().take(5));
    if let Some(name) = others.iter().find_map(|one| one.name.as_deref()) {
        finding = finding.tell_with("noise", &[("name", &name)]);
    }
    finding.evidence.first()?;
    if lines > 5 {
        finding = finding.detail(format!("There are {lines} such lines."));
    }
    Some(finding)
}

/// A decision without another explanation follows from waking, if it came after it.
fn after_resume(mut findings: Vec<Finding>) -> Vec<Finding> {
    let resumed = findings.iter().find(|finding| finding.label == Label::AfterResume);
    if resumed.is_some_and(|finding| finding.severity == Severity::Wrong) {
        let skew = findings.iter_mut().find(|finding| finding.label == Label::TscWatchdogSkew);
        if let Some(skew) = skew {
            skew.follows_from = skew.follows_from.or(Some(Label::AfterResume));
        }
    }
    findings
}
