//! Times at which the clock was stepped, by what services and tools write of it.

use std::collections::HashSet;

use super::watchdog::figures::duration;
use super::{EventKind, Facts, Finding, Fix, Label, Severity, Verdict, platform};
use crate::rules::catalogue::capitalised;

/// Time by which a clock is set after a boot, in seconds.
const BOOT_S: f64 = 300.0;
/// A smaller step is within what a daemon corrects at any time, in seconds.
const SMALL_S: f64 = 0.5;
/// Number of steps that are told one by one.
const TOLD: usize = 3;

/// The finding `time-stepped`. The first step by each service is that of its start, unless the kernel's stamp is of a
/// later time.
pub(crate) fn find(facts: &Facts, verdict: &Verdict) -> Vec<Finding> {
    let mut known = HashSet::new();
    let mut all = Vec::new();
    for event in facts.events() {
        let EventKind::Stepped(what, seconds) = event.kind else { continue };
        let is_first = known.insert(what);
        let is_start = is_first && event.at.is_none_or(|at| at <= BOOT_S);
        let is_small = seconds.is_some_and(|seconds| seconds.abs() < SMALL_S);
        all.push((event, what, seconds, is_start || is_small));
    }
    let (usual, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|(.., is_usual)| *is_usual);
    let (steps, key) = if others.is_empty() { (&usual, "start") } else { (&others, "later") };
    if steps.is_empty() {
        return Vec::new();
    }
    let mut found = Finding::new(Label::TimeStepped);
    for (event, what, seconds, _) in steps.iter().take(TOLD) {
        let by =
            seconds.map_or(String::new(), |seconds| format!(" by {}", duration(seconds * 1e9)));
        found = found.seen(&event.evidence).detail(format!("{}{by}.", capitalised(what)));
    }
    if steps.len() > TOLD {
        found = found.detail(format!("There are {} more.", steps.len() - TOLD));
    }
    if key == "start" {
        return vec![found.severity(Severity::Note).tell(key)];
    }
    let is_guest = platform::is_guest(facts, &verdict.platforms);
    let fixes: &[Fix] =
        if is_guest { &[Fix::SuspendGuests, Fix::Synchronise] } else { &[Fix::Synchronise] };
    vec![found.tell(key).fix(fixes)]
}
