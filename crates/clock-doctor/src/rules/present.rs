//! A log that says that the TSC was given up, beside files that have it: which of them holds for the present.

use super::{Event, EventKind, Facts, Finding, Fix, Label, Log, TRUST, gives_tsc_up, is_tsc};

/// The facts without the lines that the files contradict, and what is to be said of that; `None` if they agree. A kernel
/// that gave the TSC up has no way back before the next boot, so such a line is not of the time of the files.
pub(super) fn of(facts: &Facts) -> Option<(Facts, Option<Finding>)> {
    let current = facts.current.as_ref().filter(|known| is_tsc(&known.value));
    let listed = facts.available.as_ref().filter(|_| facts.lists("tsc") == Some(true));
    let file = current.map(|known| &known.evidence).or(listed.map(|known| &known.evidence))?;
    let gives_up = |event: &Event| gives_tsc_up(event) && !event.kind.is_about_hyperv();
    let proves = |event: &&Event| gives_up(event) && event.kind != EventKind::SchedClockUnstable;
    let line = facts.events().find(proves)?;
    let mut present = facts.clone();
    // Red Hat's kernel 6 keeps the TSC, and the end of the line that says so may be cut off.
    if facts.events().filter(proves).all(|it| matches!(it.kind, EventKind::OldDelta { .. })) {
        for event in present.log.iter_mut().flat_map(|log| &mut log.events) {
            if let EventKind::OldDelta { delta_ns, .. } = event.kind {
                event.kind = EventKind::KeptDelta(delta_ns);
            }
        }
        return Some((present, None));
    }
    let found = Finding::new(Label::LogContradictsSysfs).seen(&line.evidence).seen(file);
    let found = found.forbid(TRUST).fix(&[Fix::ReadLog, Fix::Measure]);
    let release = facts.log.as_ref().and_then(Log::release);
    let running = facts.kernel().map(|kernel| &kernel.release[..]);
    let found = match (release.zip(running).filter(|(log, now)| log != now), current) {
        (Some((log, now)), _) => found.tell_with("other-kernel", &[("log", &log), ("now", &now)]),
        (None, Some(_)) => found.tell("current"),
        (None, None) => found.tell("listed"),
    };
    use EventKind::{BrokenBiosAdvice, CpusApart, Current};
    let is_of_fault = |event: &Event| {
        let is_beside = matches!(event.kind, Current { .. } | BrokenBiosAdvice | CpusApart { .. });
        is_beside || gives_up(event) || event.kind.has_figures()
    };
    if let Some(log) = &mut present.log {
        log.events.retain(|event| !is_of_fault(event));
    }
    Some((present, Some(found)))
}
