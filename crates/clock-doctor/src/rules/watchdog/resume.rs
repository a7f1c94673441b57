//! Whether the TSC was given up because the machine, or the guest, slept or was moved.

use super::figures::duration;
use crate::rules::{
    Event, EventKind, Facts, Finding, Label, Severity, UnstableReason, gives_tsc_up,
};

use super::machine::Machine;
use super::{Decision, explain, remedies};

/// A loss within this time after waking is a consequence of it, in seconds.
const AFTER_S: f64 = 60.0;

/// The finding `after-resume`, from the log's lines about sleeping and waking.
pub(crate) fn find(facts: &Facts, machine: &Machine) -> Option<Finding> {
    let mut woke: Option<&Event> = None;
    for event in facts.events() {
        match &event.kind {
            EventKind::Suspended(true) => woke = Some(event),
            _ if is_loss(event) => {
                if let Some(before) = woke.filter(|before| is_soon(before, event)) {
                    return Some(after(before, event, machine));
                }
            }
            _ => {}
        }
    }
    restored(facts)
}

/// `after-resume` from the counter itself: it restarted, or reads as before its start.
pub(crate) fn by_counter(decision: &Decision) -> Option<Finding> {
    let Decision { episode, interval, machine, .. } = decision;
    let (now, last) = interval.readings.filter(|_| interval.is_backwards)?;
    if !interval.is_before_zero && !explain::restarted(now, last) {
        return None;
    }
    let finding = remedies::add(Finding::new(Label::AfterResume), machine, false);
    Some(finding.seen_all(&episode.numbers))
}

/// Whether `before`, the earlier line in the file, is so shortly before `event` that it is the reason.
pub(crate) fn is_soon(before: &Event, event: &Event) -> bool {
    match (before.at, event.at) {
        (Some(before), Some(now)) => (-1.0..=AFTER_S).contains(&(now - before)),
        _ => true,
    }
}

fn after(woke: &Event, loss: &Event, machine: &Machine) -> Finding {
    let finding = remedies::add(Finding::new(Label::AfterResume), machine, false);
    let finding = finding.seen(&woke.evidence).seen(&loss.evidence);
    match woke.at.zip(loss.at) {
        Some((before, now)) => {
            let delay = duration((now - before).max(0.0) * 1e9);
            finding.tell_with("given-up", &[("delay", &delay)])
        }
        None => finding,
    }
}

/// The firmware wrote a CPU's `TSC_ADJUST` while the machine ran, and the kernel restored it.
fn restored(facts: &Facts) -> Option<Finding> {
    let is_restoring = |kind: &EventKind| matches!(kind, EventKind::AdjustDiffers(true));
    let line = facts.logged(is_restoring)?;
    let finding = Finding::new(Label::AfterResume).seen(&line.evidence);
    Some(match facts.events().any(is_loss) {
        true => finding,
        false => finding.severity(Severity::Note).tell("put-back"),
    })
}

/// Whether a line reports that the TSC was given up.
fn is_loss(event: &Event) -> bool {
    use UnstableReason::BootParameter;
    let is_chosen =
        matches!(event.kind, EventKind::Unstable { reason: BootParameter, is_whole: true, .. });
    let is_later = matches!(event.kind, EventKind::HostUnstable | EventKind::SchedClockUnstable);
    gives_tsc_up(event) && !is_chosen && !is_later && !event.kind.is_about_hyperv()
}
