//! Help from clockscope until the cause is repaired, and open questions with decisive answers.

use super::super::advice::tsc_guards;
use super::super::finding::Cost;
use super::super::watchdog::figures::cost;
use crate::rules::{Diagnosis, EventKind, Facts, Fix, Label, Log, Role, Says, Severity, State};

fn says(diagnosis: &Diagnosis, what: Says) -> bool {
    diagnosis.findings.iter().any(|finding| finding.says(what))
}

/// Help that clockscope offers now, with its command.
pub(super) fn meanwhile(facts: &Facts, diagnosis: &Diagnosis) -> Vec<String> {
    let mut sentences = Vec::new();
    let source = diagnosis.verdict.source.as_deref();
    let is_x86 = match facts.cpu.machine_name() {
        Some(machine) => machine == "x86_64",
        None => !source.is_some_and(|name| name.contains("arm")),
    };
    let is_slow = diagnosis.verdict.state == State::Slow && source != Some("arch_sys_counter");
    if is_slow && is_x86 && !says(diagnosis, Says::NoVdso) {
        // The measured cost, or the usual one.
        let read = facts.measured.as_ref().and_then(|it| it.read("CLOCK_MONOTONIC_COARSE"));
        let coarse = read.and_then(|read| read.vdso_ns).map_or("4 to 13 ns".to_owned(), cost);
        let instead = diagnosis.verdict.cost.as_ref().map(instead_of).unwrap_or_default();
        let values = [("coarse", coarse), ("instead", instead)];
        sentences.push(Label::StateSlow.sentence("clock-coarse", &values));
        if tsc_guards(facts, &diagnosis.findings).is_ok() {
            sentences.push(Label::StateSlow.sentence("clock-tsc", &[]));
        }
    }
    let of_time = [Label::TimeBehindHost, Label::ReferenceDisagrees];
    let mut others = diagnosis.findings.iter().filter(|one| !of_time.contains(&one.label));
    if others.any(|one| one.severity == Severity::Wrong)
        && !diagnosis.advice.iter().any(|advice| advice.basis.measures)
    {
        sentences.push(Label::TscOffsetMeasured.sentence("measure", &[]));
    }
    sentences
}

fn instead_of(of: &Cost) -> String {
    let (low, high) = (cost(of.low_ns), cost(of.high_ns));
    if low == high {
        return format!(" instead of {low}");
    }
    let unit = high.split_once(' ').map_or("", |(_, unit)| unit);
    let low = low.strip_suffix(unit).map_or(low.as_str(), str::trim_end);
    format!(" instead of {low} to {high}")
}

/// Open questions with decisive answers, with the command that answers each.
pub(super) fn missing(facts: &Facts, diagnosis: &Diagnosis) -> Vec<String> {
    let asked = |key, values: &[_]| Label::StateUnknown.sentence(key, values);
    let mut missing = Vec::new();
    let verdict = &diagnosis.verdict;
    let is_measured = facts.measured.as_ref().is_some_and(|measured| !measured.reads.is_empty());
    let is_open =
        verdict.state == State::SlowUnlessPvclockVdso || says(diagnosis, Says::VdsoIsOpen);
    missing.extend(match &verdict.source {
        None => Some(asked("open-source", &[])),
        Some(source) => {
            (is_open && !is_measured).then(|| asked("open-vdso", &[("source", source.clone())]))
        }
    });
    let is_advised = diagnosis.advice.iter().any(|advice| advice.is(Fix::ReadLog));
    if says(diagnosis, Says::LogIsWanted)
        && !is_advised
        && !facts.log.as_ref().is_some_and(Log::is_complete)
        && !says(diagnosis, Says::WhyTscIsGone)
    {
        missing.push(asked("open-log", &[]));
    }
    let has_skew = diagnosis.findings.iter().any(|one| one.label == Label::TscWatchdogSkew);
    if has_skew && !has_numbers(facts) {
        missing.push(asked("open-numbers", &[]));
    }
    let depends = diagnosis.advice.iter().any(|advice| advice.basis.needs_kernel);
    if facts.kernel().is_none() && depends {
        missing.push(asked("open-kernel", &[]));
    }
    let utc = facts.measured.iter().filter_map(|measured| measured.utc.as_ref());
    missing.extend(
        utc.flat_map(|utc| &utc.unread).map(|why| format!("whether the time is right: {why}")),
    );
    let unread = facts.unread.iter().filter(|unread| unread.is_denied);
    missing
        .extend(unread.map(|unread| format!("{} ({}): run it as root", unread.file, unread.why)));
    missing
}

fn has_numbers(facts: &Facts) -> bool {
    use EventKind::*;
    let is_number = |kind: &EventKind| match kind {
        Reading(role, _) | Interval(role, ..) => *role == Role::Reference,
        kind => matches!(kind, Skewed { .. } | CpuCycles { .. } | OldDelta { .. }),
    };
    facts.logged(is_number).is_some()
}
