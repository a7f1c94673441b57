//! The time of day, against clocks outside of this kernel.

use super::{
    Event, EventKind, Evidence, Facts, Finding, Fix, Label, Severity, Verdict, platform, state,
};
use crate::utc::{Comparison, Kind, Proof, Reference, SOMETIME, Weighed, Word, duration};

const SECOND: i64 = 1_000_000_000;
/// A difference up to this is no finding, beyond the error of the reading: a guest that takes its first time from the
/// RTC may begin two seconds late, and a host that smears a leap second is off by up to one.
const HEALTHY_NS: i64 = 3 * SECOND;
/// From this on, a host's clock is believed although a daemon contradicts it: a host may be wrong by seconds, and a
/// guest that stood still does not know of it.
const STOOD_STILL_NS: i64 = 60 * SECOND;

/// The findings of these rules.
pub(crate) fn find(facts: &Facts, verdict: &Verdict) -> Vec<Finding> {
    let is_guest = platform::is_guest(facts, &verdict.platforms);
    let Some((weighed, event)) = weighed(facts, is_guest) else { return Vec::new() };
    let best = weighed.best.as_ref();
    let mut found: Vec<Finding> =
        best.and_then(|one| compared(one, weighed.word)).into_iter().collect();
    if let Some(best) = best.filter(|best| best.error_ns > HEALTHY_NS) {
        let two =
            Finding::new(Label::ReferenceDisagrees).severity(Severity::Note).seen(&seen(best));
        found.push(two.tell_with("two", &[("apart", &duration(best.error_ns))]));
    }
    let at = event.and_then(|event| event.at);
    let at = at.map(|at| format!(" {at:.0} s after the boot")).unwrap_or_default();
    if let Some(event) = event {
        let tell = |one: Finding| one.seen(&event.evidence).tell_with("event", &[("at", &at)]);
        found = found.into_iter().map(tell).collect();
    }
    if weighed.word.is_none() && best.is_none() && (weighed.void.is_some() || event.is_some()) {
        let since = Finding::new(Label::TimeNotSynchronised);
        let since = since.seen_all(event.map(|event| &event.evidence));
        let since = match weighed.void {
            Some(void) => since.tell_with("void", &[("by", &void.by), ("at", &at)]),
            None => since.tell_with("untold", &[("at", &at)]),
        };
        found.push(if is_guest { since.fix(&[Fix::SetClockAfterRestore]) } else { since });
    }
    found
}

fn comparison(facts: &Facts) -> Option<&Comparison> {
    facts.measured.as_ref()?.utc.as_ref()
}

/// What counts of the comparison, and the line that shows the last restore or resume. A marker that changed is one of
/// unknown time, unless the log has it.
fn weighed(facts: &Facts, is_guest: bool) -> Option<(Weighed<'_>, Option<&Event>)> {
    let comparison = comparison(facts)?;
    let breaks =
        |kind: &EventKind| matches!(kind, EventKind::Restored | EventKind::Suspended(true));
    let event = facts.events().rfind(|event| breaks(&event.kind));
    // A time namespace shifts this process's CLOCK_MONOTONIC, and not the log's.
    let namespace = facts.measured.as_ref().and_then(|it| it.host.time_namespace.as_deref());
    let at = event.and_then(|event| event.at).filter(|_| namespace.is_none_or(|it| it == "none"));
    let is_marked = comparison.disruption_marker.is_some_and(|marker| marker != 0);
    let broken = (event.is_some() || is_marked).then_some(at.unwrap_or(SOMETIME));
    Some((comparison.weighed(is_guest, broken), event))
}

fn seen(reference: &Reference) -> Evidence {
    let sign = if reference.behind_ns < 0 { '-' } else { '+' };
    let (apart, error) = (duration(reference.behind_ns), duration(reference.error_ns));
    Evidence::measured(format!(
        "{} minus CLOCK_REALTIME: {sign}{apart}, +/- {error}",
        reference.name
    ))
}

/// The reading as a clause: `the clock is 60 s behind rtc0, give or take 1 s`.
pub(crate) fn sentence(reference: &Reference) -> String {
    let way = if reference.behind_ns < 0 { "ahead of" } else { "behind" };
    let (apart, error) = (duration(reference.behind_ns), duration(reference.error_ns));
    format!("the clock is {apart} {way} {}, give or take {error}", reference.name)
}

fn compared(best: &Reference, word: Option<&Word>) -> Option<Finding> {
    let (surely, is_behind) = (best.surely_ns(), best.behind_ns > 0);
    if surely <= HEALTHY_NS.max(word.map_or(0, |word| word.error_ns)) {
        return None;
    }
    let is_wrong = match word {
        Some(_) => is_behind && surely > STOOD_STILL_NS,
        None => is_behind || best.kind == Kind::Host,
    };
    // Nothing but a stop of the guest makes a good RTC run away from it; a bad one may stand, or be slow.
    if best.kind == Kind::Rtc && !is_wrong {
        return None;
    }
    let is_late = is_behind && word.is_none();
    let label = if is_late { Label::TimeBehindHost } else { Label::ReferenceDisagrees };
    let severity = if is_wrong { Severity::Wrong } else { Severity::Note };
    let reading = sentence(best);
    let finding = Finding::new(label).severity(severity).seen(&seen(best));
    let finding = finding.tell_with("reading", &[("reading", &reading)]);
    let finding = match word.map(|word| (word, word.age())) {
        Some((word, age)) => finding
            .tell_with(
                "word",
                &[("by", &word.by), ("age", &age), ("bound", &duration(word.error_ns))],
            )
            .tell(if is_behind { "stood-still" } else { "host-is-wrong" }),
        None => finding,
    };
    Some(if is_wrong { finding.fix(&[Fix::SetClockAfterRestore]) } else { finding })
}

/// The best reference, for a report.
pub(crate) fn best(facts: &Facts, verdict: &Verdict) -> Option<Reference> {
    weighed(facts, platform::is_guest(facts, &verdict.platforms))?.0.best
}

/// The answer to `--utc-within`, and a sentence about it. In a guest whose log cannot be read, the kernel's word proves
/// nothing: only the log shows a restore.
pub fn within(facts: &Facts, limit_ns: i64) -> (Proof, String) {
    let is_guest = platform::is_guest(facts, &state::verdict(facts).platforms);
    let (mut weighed, _) = weighed(facts, is_guest).unwrap_or_default();
    let is_unseen = is_guest && facts.log.is_none();
    if is_unseen {
        weighed.void = weighed.word.take().or(weighed.void);
    }
    let proof = weighed.within(limit_ns);
    let said = |word: &Word| format!("{} states {}", word.by, duration(word.error_ns));
    let mut clauses: Vec<String> = weighed.best.iter().map(sentence).collect();
    clauses.extend(weighed.word.map(said));
    if proof == Proof::Open {
        if clauses.is_empty() {
            clauses.push("there is no clock to compare with".to_owned());
        }
        let why = match is_unseen {
            true => "the log, which would show a restore, cannot be read",
            false => "that is from before a restore or resume",
        };
        clauses.extend(weighed.void.map(|void| format!("{}, but {why}", said(void))));
        clauses.extend(comparison(facts).into_iter().flat_map(|it| it.unread.clone()));
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
