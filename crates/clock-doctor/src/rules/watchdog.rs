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

use self::episode::Episode;
use self::interval::Interval;
use self::machine::Machine;
use self::rates::Rates;
use super::finding::merged;
use super::{EventKind, Facts, Finding, Fix, Label, Log, Mark, Severity, Verdict};

/// One decision of the watchdog, with the properties of the machine that its remedies depend on.
#[derive(Clone)]
pub(crate) struct Decision<'a> {
    /// Its lines.
    pub episode: &'a Episode,
    /// Its comparison.
    pub interval: Interval,
    /// The machine.
    pub machine: &'a Machine<'a>,
    /// The rate of the TSC was never compared with a timer.
    pub rate_is_unchecked: bool,
}

/// The findings of these rules.
pub(crate) fn find(facts: &Facts, verdict: &Verdict) -> Vec<Finding> {
    let machine = Machine::of(facts, verdict);
    let rates = Rates::of(facts);
    let (episodes, others): (Vec<Episode>, Vec<Episode>) =
        episode::gather(facts).into_iter().partition(Episode::is_of_tsc);
    let mut findings = Vec::new();
    for episode in &episodes {
        let interval = Interval::default();
        let alone = Decision { episode, interval, machine: &machine, rate_is_unchecked: false };
        if episode.is_delay() {
            // The reference was slow to read.
            let finding = specific(Label::TscWatchdogReaddelay, &alone);
            findings.push(finding.seen_all(&episode.lines));
        }
        if episode.is_skew() {
            let interval = Interval::of(episode, &rates);
            let rate_is_unchecked = rate_is_unchecked(facts);
            findings.extend(skewed(&Decision { interval, rate_is_unchecked, ..alone }, facts));
        }
    }
    if findings.is_empty() {
        findings.extend(noise(facts, &episodes, &others));
    }
    findings.extend(cpus_apart(facts, &machine));
    findings.extend(resume::find(facts, &machine));
    after_resume(merged(findings, Vec::extend))
}

/// All findings about one decision.
fn skewed(decision: &Decision, facts: &Facts) -> Vec<Finding> {
    let Decision { episode, interval, machine, rate_is_unchecked } = decision;
    let mut labels = labels::labels(interval);
    let is_rate = matches!(episode.marked, Some((_, Mark::FrequencySkew)));
    let has_no_figure =
        *rate_is_unchecked && *interval == Interval { tsc: interval.tsc, ..Interval::default() };
    if labels.is_empty() && (has_no_figure || labels::only_a_rate_decides(interval, is_rate)) {
        labels.push(Label::NeedsRateMeasurement);
    }
    let stated = |kind: &EventKind| has_no_figure && matches!(kind, EventKind::DetectedTsc(_));
    let stated = facts.logged(stated).map(|event| &event.evidence);
    let specific = |label| specific(label, decision).seen_all(stated);
    let mut findings: Vec<Finding> = labels.into_iter().map(specific).collect();
    findings.extend(runtime_warp(decision));
    findings.extend(resume::by_counter(decision));
    findings.extend(reference::find(decision, facts));
    if labels::reference_jumped(interval) {
        let jumped = Finding::new(Label::TimeStepped).follows(Label::WatchdogBadReference);
        let sentence = Label::TimeStepped.sentence("clock-jumped", &explain::values(interval));
        findings.push(jumped.seen_all(&episode.numbers).detail(sentence));
    }
    link(&mut findings);
    let cause = findings.iter().find(|finding| is_cause(finding.label)).map(|found| found.label);
    let skew = Finding::new(Label::TscWatchdogSkew).seen_all(&episode.lines);
    let mut skew = event_in_words(skew, episode, interval, cause.is_none());
    if cause.is_none() {
        skew = remedies::add(skew, machine, *rate_is_unchecked);
    } else if *rate_is_unchecked {
        skew = skew.forbid(&[Fix::TscReliable]);
    }
    skew.follows_from = cause;
    findings.push(skew);
    findings.extend(early(episode, machine));
    findings
}

/// A finding more specific than the decision itself.
fn specific(label: Label, decision: &Decision) -> Finding {
    let Decision { episode, interval, machine, rate_is_unchecked } = decision;
    let mut finding = remedies::add(Finding::new(label), machine, *rate_is_unchecked);
    finding.detail = explain::sentences(label, decision);
    if label == Label::NeedsRateMeasurement && interval.second_agrees() == Some(true) {
        finding.severity = Severity::Note;
    }
    let lines = if episode.numbers.is_empty() { &episode.lines } else { &episode.numbers };
    let fallback = episode.fallback.as_ref().filter(|_| interval.reference_is_inferred);
    finding.seen_all(lines).seen_all(fallback.map(|(_, line)| line))
}

/// Whether a finding gives the reason for the watchdog's decision, rather than an open question.
fn is_cause(label: Label) -> bool {
    use Label::{AfterResume, NeedsRateMeasurement, PerCpuSyncSuspicious, TimeStepped};
    !matches!(label, NeedsRateMeasurement | PerCpuSyncSuspicious | AfterResume | TimeStepped)
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
    skew.tell_if(episode.has_bad_advice, "bad-advice")
}

/// The findings for a decision that two CPUs disagree (7.1 and later).
fn runtime_warp(decision: &Decision) -> Vec<Finding> {
    let episode = decision.episode;
    let says_so = matches!(episode.marked, Some((_, Mark::CpuSkew)));
    if !says_so && episode.cycles.is_none() {
        return Vec::new();
    }
    let interval = Interval::default();
    let alone = Decision { interval, rate_is_unchecked: false, ..decision.clone() };
    [Label::TscWarpRuntime, Label::PerCpuSyncSuspicious].map(|label| specific(label, &alone)).into()
}

/// The kernel's comparison of the CPUs' counters after a mark: `per-cpu-sync-suspicious`, from `CPUs LIST ahead of CPU N`.
fn cpus_apart(facts: &Facts, machine: &Machine) -> Option<Finding> {
    let apart = facts.events().filter_map(|event| match &event.kind {
        EventKind::CpusApart { cpus, is_ahead } => Some((&event.evidence, cpus, is_ahead)),
        _ => None,
    });
    let mut apart = apart.peekable();
    apart.peek()?;
    let new = remedies::add(Finding::new(Label::PerCpuSyncSuspicious), machine, false);
    let new = new.tell_if(machine.verdict.platforms.contains(&"xen"), "xen");
    Some(apart.fold(new, |finding, (line, cpus, is_ahead)| {
        let way = if *is_ahead { "ahead of" } else { "behind" };
        let one = if cpus.contains([',', '-']) { "CPUs" } else { "CPU" };
        finding.seen(line).tell_with("apart", &[("one", &one), ("cpus", cpus), ("way", &way)])
    }))
}

/// The finding if the early clocksource was judged.
fn early(episode: &Episode, machine: &Machine) -> Option<Finding> {
    if episode.name.as_deref() != Some("tsc-early") {
        return None;
    }
    let line = episode.lines.iter().find(|line| line.text.contains("tsc-early"));
    let line = line.or(episode.lines.first())?;
    let finding = Finding::new(Label::TscEarly).seen(line).follows(Label::TscWatchdogSkew);
    let is_mended = machine.since(5, 5) == Some(false) && machine.since(4, 16) != Some(false);
    Some(if is_mended { finding.fix(&[Fix::NewerKernel]) } else { finding })
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
    use EventKind::{KeptDelta, LongReadout, WatchdogNoise};
    let is_noise = |kind: &_| matches!(kind, WatchdogNoise | LongReadout(_) | KeptDelta(_));
    let noise = facts.events().filter(|event| is_noise(&event.kind));
    let delayed = delays.iter().filter(|episode| episode.delay.is_some());
    let episodes = delayed.chain(others).flat_map(|one| &one.lines);
    let all: Vec<_> = noise.map(|event| &event.evidence).chain(episodes).collect();
    let counted = |log: &Log| log.count(|kind| is_noise(kind) || kind.has_figures());
    let lines = facts.log.as_ref().map_or(0, counted).max(all.len() as u64);
    let mut finding = Finding::new(Label::WatchdogNoise).seen_all(all.into_iter().take(5));
    if let Some(name) = others.iter().find_map(|one| one.name.as_deref()) {
        finding = finding.tell_with("noise", &[("name", &name)]);
    }
    finding.evidence.first()?;
    if let Some((key, values)) = facts.events().find_map(|event| skipped(&event.kind)) {
        finding.detail.push(Label::WatchdogNoise.sentence(key, &values));
    }
    if lines > 5 {
        finding = finding.detail(format!("There are {} such lines.", figures::count(lines)));
    }
    Some(finding)
}

/// The sentence about a check that the kernel skipped, or whose result it did not act on, with its figures.
fn skipped(kind: &EventKind) -> Option<(&'static str, explain::Values)> {
    match *kind {
        EventKind::LongReadout(Some((watched, reference))) => {
            let ppm = (watched - reference) as f64 / (reference as f64).max(1.0) * 1e6;
            let values = vec![
                ("elapsed", figures::duration(reference as f64)),
                ("share", figures::share(ppm)),
                ("skew", figures::duration((watched - reference).abs() as f64)),
            ];
            let is_good = ppm.abs() <= labels::CRYSTAL_PPM;
            Some((if is_good { "skipped-good" } else { "skipped" }, values))
        }
        EventKind::KeptDelta(ns) => {
            Some(("kept", vec![("skew", figures::duration(ns.unsigned_abs() as f64))]))
        }
        _ => None,
    }
}

/// A decision without another explanation follows from waking, if it came after it.
fn after_resume(mut findings: Vec<Finding>) -> Vec<Finding> {
    let resumed = findings.iter().find(|finding| finding.label == Label::AfterResume);
    if resumed.is_some_and(|finding| finding.severity == Severity::Wrong) {
        for skew in findings.iter_mut().filter(|one| one.label == Label::TscWatchdogSkew) {
            skew.follows_from = skew.follows_from.or(Some(Label::AfterResume));
        }
    }
    findings
}
