//! Log lines that look like faults and are none.

use super::{
    Event, EventKind, Facts, Finding, Label, State, UnstableReason, Verdict, gives_tsc_up, is_tsc,
};

/// Time, in seconds, in which all changes of clocksource at boot take place, even on a machine with a slow console.
const BOOT_S: f64 = 120.0;

/// The findings of these rules.
pub(crate) fn find(facts: &Facts, verdict: &Verdict) -> Vec<Finding> {
    let found =
        [early_switch(facts, verdict), calibration(facts, verdict), hpet_pc10(facts, verdict)];
    found.into_iter().flatten().collect()
}

/// Several changes of clocksource that end at a fast one.
fn early_switch(facts: &Facts, verdict: &Verdict) -> Option<Finding> {
    let last = verdict.source.as_deref().filter(|_| verdict.state == State::Fast)?;
    let switches: Vec<(&Event, &str)> = facts
        .events()
        .filter_map(|event| match &event.kind {
            EventKind::Switched(name) => Some((event, &name[..])),
            EventKind::Override { name, .. } if name == last => Some((event, "")),
            _ => None,
        })
        .collect();
    let (end, name) = switches.last()?;
    let (begin, _) = switches.first()?;
    let near = |event: &Event| event.at.is_none_or(|at| at <= BOOT_S);
    if switches.len() < 2 || *name != last || !near(begin) || !near(end) {
        return None;
    }
    let names: Vec<&str> =
        switches.iter().map(|(_, name)| *name).filter(|name| !name.is_empty()).collect();
    let lines = switches.iter().map(|(event, _)| &event.evidence);
    let mut found = Finding::new(Label::EarlySwitchBenign).seen_all(lines);
    if names.len() > 1 {
        found = found.tell_with("switches", &[("names", &names.join(" to "))]);
    }
    if names.len() < switches.len() {
        found = found.tell_with("refused", &[("last", &last)]);
    }
    Some(found)
}

/// The quick calibration fails without a real timer chip, and the kernel calibrates in another way.
fn calibration(facts: &Facts, verdict: &Verdict) -> Option<Finding> {
    let notes = facts.events().filter(|event| event.kind == EventKind::CalibrationNote);
    let found = Finding::new(Label::CalibrationNoteBenign)
        .seen_all(notes.take(4).map(|event| &event.evidence));
    found.evidence.first()?;
    let failed = |kind: &EventKind| match kind {
        EventKind::Unstable { reason, .. } => *reason == UnstableReason::NotCalculated,
        EventKind::RateDiffers => true,
        _ => false,
    };
    if facts.logged(failed).is_some() {
        return None;
    }

    let rate = facts.events().rev().find_map(|event| match event.kind {
        EventKind::Refined(mhz)
        | EventKind::DetectedTsc(mhz)
        | EventKind::DetectedProcessor(mhz) => Some((event, mhz)),
        _ => None,
    });
    let is_vm = super::platform::has_hypervisor(facts, &verdict.platforms);
    let remark = if is_vm { " In virtual machines that is the rule." } else { "" };
    Some(match rate {
        Some((event, mhz)) => {
            found.seen(&event.evidence).tell_with("rate", &[("mhz", &mhz), ("remark", &remark)])
        }
        None => found,
    })
}

/// A kernel that knows that the HPET stops in deep sleep, and does not use it.
fn hpet_pc10(facts: &Facts, verdict: &Verdict) -> Option<Finding> {
    let event = facts.logged(|kind| *kind == EventKind::HpetPc10)?;
    let (lost, source) = (facts.events().any(gives_tsc_up), verdict.source.as_deref());
    if lost && !source.is_some_and(is_tsc) || source == Some("hpet") {
        return None;
    }
    let found = Finding::new(Label::HpetPc10Benign).seen(&event.evidence);
    Some(match source {
        Some(name) => found.tell_with("unread", &[("name", &name)]),
        None => found,
    })
}
