//! The time of day, against clocks outside of this kernel.

use super::finding::{Finding, Severity, Verdict};
use super::{platform, state};
use crate::facts::{Evidence, Facts};
use crate::log::event::{Event, EventKind};
use crate::rules::catalogue::{Fix, Label};
use crate::utc::{Broken, Comparison, Kind, Proof, Reference, Weighed, Word};
use clockscope_text::units;

const SECOND: i64 = 1_000_000_000;
/// A difference up to this is no finding, beyond the error of the reading: a guest that takes its first time from the
/// RTC may begin two seconds late, and a host that smears a leap second is off by up to one.
const HEALTHY_NS: i64 = 3 * SECOND;
/// From this on, a host's clock is believed although a daemon contradicts it: a host may be wrong by seconds, and a
/// guest that stood still does not know of it.
const STOOD_STILL_NS: i64 = 60 * SECOND;

/// The findings of these rules.
pub(crate) fn find(facts: &Facts, verdict: &Verdict) -> Vec<Finding> {
    let Some(comparison) = comparison(facts) else { return Vec::new() };
    let is_guest = platform::is_guest(facts, &verdict.platforms);
    let (broken, event) = broken(facts, comparison);
    let weighed = comparison.weighed(is_guest, broken);
    let mut found: Vec<Finding> = match (weighed.conflict, weighed.best) {
        (Some((one, other)), _) => vec![conflict(one, other)],
        (None, best) => best.and_then(|best| compared(best, weighed.word)).into_iter().collect(),
    };
    if let (Some(void), None, None) = (weighed.void, weighed.word, weighed.best) {
        let since = Finding::new(Label::TimeNotSynchronised).tell_with("void", &[("by", &void.by)]);
        found.push(if is_guest { since.fix(&[Fix::SetClockAfterRestore]) } else { since });
    }
    if let Some(event) = event {
        let at = event.at.map(|at| format!(", {at:.0} s after the boot")).unwrap_or_default();
        let tell = |one: Finding| one.seen(&event.evidence).tell_with("event", &[("at", &at)]);
        found = found.into_iter().map(tell).collect();
    }
    found
}

fn comparison(facts: &Facts) -> Option<&Comparison> {
    facts.measured.as_ref()?.utc.as_ref()
}

/// The last restore or resume, and the line that shows it. A marker that changed at an unknown time is one of unknown
/// time, unless the log has it.
fn broken<'a>(facts: &'a Facts, comparison: &Comparison) -> (Broken, Option<&'a Event>) {
    let breaks =
        |kind: &EventKind| matches!(kind, EventKind::Restored | EventKind::Suspended(true));
    // A time namespace shifts this process's CLOCK_MONOTONIC, and not the log's.
    let namespace = facts.measured.as_ref().and_then(|it| it.host.time_namespace.as_deref());
    let is_shifted = namespace.is_some_and(|offsets| offsets != "none");
    match facts.events().rfind(|event| breaks(&event.kind)) {
        Some(event) => {
            let at = event.at.filter(|_| !is_shifted);
            (at.map_or(Broken::Sometime, Broken::At), Some(event))
        }
        None if comparison.disruption_marker.is_some_and(|marker| marker != 0) => {
            (Broken::Sometime, None)
        }
        None => (Broken::Never, None),
    }
}

fn seen(reference: &Reference) -> Evidence {
    let sign = if reference.behind_ns < 0 { '-' } else { '+' };
    let (apart, error) = (duration(reference.behind_ns), duration(reference.error_ns));
    let text = format!("{} minus CLOCK_REALTIME: {sign}{apart}, +/- {error}", reference.name);
    Evidence { file: "measured".to_owned(), line: None, text }
}

/// A duration in words.
pub(crate) fn duration(ns: i64) -> String {
    units::nanos(ns.unsigned_abs())
}

/// The reading as a clause: `the clock is 60 s behind rtc0, give or take 1 s`.
pub(crate) fn sentence(reference: &Reference) -> String {
    let way = if reference.behind_ns < 0 { "ahead of" } else { "behind" };
    let (apart, error) = (duration(reference.behind_ns), duration(reference.error_ns));
    format!("the clock is {apart} {way} {}, give or take {error}", reference.name)
}

fn conflict(one: &Reference, other: &Reference) -> Finding {
    let finding = Finding::new(Label::ReferenceDisagrees).severity(Severity::Note);
    finding
        .seen(&seen(one))
        .seen(&seen(other))
        .tell_with("two", &[("one", &one.name), ("other", &other.name)])
}

fn compared(best: &Reference, word: Option<&Word>) -> Option<Finding> {
    let (surely, is_behind) = (best.surely_ns(), best.behind_ns > 0);
    if surely <= HEALTHY_NS {
        return None;
    }
    let reading = sentence(best);
    let Some(word) = word else {
        // Nothing but a stop of the guest makes a good RTC run away from it; a bad one may stand or be slow.
        let (label, severity) = match (is_behind, best.kind) {
            (true, _) => (Label::TimeBehindHost, Severity::Wrong),
            (false, Kind::Host) => (Label::ReferenceDisagrees, Severity::Wrong),
            (false, Kind::Rtc) => (Label::ReferenceDisagrees, Severity::Note),
        };
        let finding = Finding::new(label).severity(severity).seen(&seen(best));
        let finding = finding.tell_with("reading", &[("reading", &reading)]);
        return Some(finding.fix(&[Fix::SetClockAfterRestore]));
    };
    if surely <= word.error_ns {
        return None;
    }
    let is_believed = is_behind && surely > STOOD_STILL_NS;
    if best.kind == Kind::Rtc && !is_believed {
        return None;
    }
    let severity = if is_believed { Severity::Wrong } else { Severity::Note };
    #[expect(clippy::cast_possible_truncation, reason = "saturates")]
    let age = duration((word.age_s.unwrap_or_default() * 1e9) as i64);
    let values: [(&str, &dyn std::fmt::Display); 4] = [
        ("by", &word.by),
        ("age", &age),
        ("bound", &duration(word.error_ns)),
        ("reading", &reading),
    ];
    let finding = Finding::new(Label::ReferenceDisagrees).severity(severity).seen(&seen(best));
    let finding = finding.tell_with("word", &values);
    let finding = finding.tell(if is_behind { "stood-still" } else { "host-is-wrong" });
    Some(if is_believed { finding.fix(&[Fix::SetClockAfterRestore]) } else { finding })
}

/// What counts of the comparison, for a report; none without one.
pub(crate) fn best<'a>(facts: &'a Facts, verdict: &Verdict) -> Option<&'a Reference> {
    weighed(facts, verdict)?.best
}

fn weighed<'a>(facts: &'a Facts, verdict: &Verdict) -> Option<Weighed<'a>> {
    let comparison = comparison(facts)?;
    let is_guest = platform::is_guest(facts, &verdict.platforms);
    Some(comparison.weighed(is_guest, broken(facts, comparison).0))
}

/// The answer to `--utc-within`, and a sentence about it. In a guest whose log cannot be read, no daemon's word proves
/// anything: only the log shows a restore.
pub fn within(facts: &Facts, limit_ns: i64) -> (Proof, String) {
    let verdict = state::verdict(facts);
    let empty = Comparison::default();
    let comparison = comparison(facts).unwrap_or(&empty);
    let is_guest = platform::is_guest(facts, &verdict.platforms);
    let (mut broken, _) = broken(facts, comparison);
    let is_unseen = is_guest && facts.log.is_none();
    if is_unseen {
        broken = Broken::Sometime;
    }
    let weighed = comparison.weighed(is_guest, broken);
    let proof = weighed.within(limit_ns);
    let said = |word: &Word| format!("{} states {}", word.by, duration(word.error_ns));
    let mut clauses: Vec<String> = weighed.best.map(sentence).into_iter().collect();
    if let Some((one, other)) = weighed.conflict {
        clauses.extend([sentence(one), sentence(other)]);
    }
    clauses.extend(weighed.word.map(said));
    if proof == Proof::Open {
        if weighed.best.is_none() && weighed.conflict.is_none() {
            clauses.push("there is no clock to compare with".to_owned());
        }
        let unset = comparison.word.iter().filter(|word| word.age_s.is_none());
        clauses.extend(unset.map(|word| format!("{} was not told the time", word.by)));
        if let Some(void) = weighed.void {
            let why = if is_unseen {
                "the log, which would show a restore, cannot be read; try as root"
            } else {
                "that is from before a restore or resume"
            };
            clauses.push(format!("{}, but {why}", said(void)));
        }
        clauses.extend(comparison.unread.iter().cloned());
    }
    let head = match proof {
        Proof::Within => "the time is within",
        Proof::Outside => "the time is not within",
        Proof::Open => "not known whether the time is within",
    };
    (proof, format!("{head} {}: {}", duration(limit_ns), clauses.join("; ")))
}

#[cfg(test)]
#[path = "utc_tests.rs"]
mod tests;
