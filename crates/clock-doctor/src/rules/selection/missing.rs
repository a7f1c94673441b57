//! tsc is missing, with or without a reason in the log.

use crate::rules::state::is_elsewhere;
use crate::rules::state::source::tsc_given_up;
use crate::rules::{
    Event, EventKind, Facts, Finding, Fix, Label, Severity, State, Verdict, arm, is_device,
    lists_tsc, params, refused, watchdog,
};

/// The findings of these rules.
pub(super) fn find(facts: &Facts, verdict: &Verdict) -> Vec<Finding> {
    let mut found: Vec<Finding> = absent(facts, verdict).into_iter().collect();
    if !has_cause(facts, verdict) {
        found.extend(match tsc_given_up(facts) {
            Some(event) => without_reason(event).into_iter().collect(),
            None => needs_log(facts, verdict),
        });
    }
    found
}

/// Whether a finding gives the reason why tsc is missing.
fn has_cause(facts: &Facts, verdict: &Verdict) -> bool {
    let mut told = refused::find(facts, verdict);
    told.extend(watchdog::find(facts, verdict));
    told.extend(params::find(facts, verdict));
    told.iter().any(|finding| Label::TscAbsent.bearing().follows.contains(&finding.label))
}

/// Whether these clocksources are a PC's.
fn is_pc(facts: &Facts) -> bool {
    match facts.cpu.machine_name() {
        Some(name) => name == "x86_64" || name.starts_with('i') && name.ends_with("86"),
        None => !arm::is_arm(facts),
    }
}

/// On Hyper-V, Linux refuses tsc on purpose if it uses the TSC page.
fn on_purpose(facts: &Facts, verdict: &Verdict) -> bool {
    verdict.platforms.contains(&"hyperv") || facts.logged(EventKind::is_about_hyperv).is_some()
}

fn absent(facts: &Facts, verdict: &Verdict) -> Option<Finding> {
    let list = facts.available.as_ref().filter(|list| !list.value.is_empty())?;
    const OF_PC: [&str; 5] = ["hpet", "acpi_pm", "kvm-clock", "xen", "jiffies"];
    let pc =
        is_pc(facts) && list.value.iter().any(|name| OF_PC.iter().any(|of| name.ends_with(of)));
    let pc = pc && !list.value.iter().any(|name| is_elsewhere(name));
    if !pc || lists_tsc(facts) == Some(true) || on_purpose(facts, verdict) {
        return None;
    }
    let found = Finding::new(Label::TscAbsent).seen(&list.evidence);
    // The vDSO reads the current clocksource nevertheless.
    let found = if verdict.state == State::Fast { found.severity(Severity::Note) } else { found };
    let found = found.tell_with("only", &[("names", &list.value.join(" and "))]);
    Some(found.forbid(&[Fix::SwitchToTsc]))
}

/// A line that gives tsc up, or shows that it was given up, without the reason.
fn without_reason(event: &Event) -> Option<Finding> {
    let key = match event.kind {
        EventKind::HostUnstable => "host",
        EventKind::Unstable { is_whole: false, .. } => "cut",
        // Lines of other kinds are a cause, even if unknown.
        _ => return None,
    };
    let found = Finding::new(Label::CauseNeedsDmesg).severity(Severity::Slow).fix(&[Fix::ReadLog]);
    Some(found.seen(&event.evidence).tell(key))
}

/// tsc is missing, without a known reason.
fn needs_log(facts: &Facts, verdict: &Verdict) -> Vec<Finding> {
    let listed = lists_tsc(facts);
    let current = verdict.source.as_deref();
    let device = current.is_some_and(is_device);
    let asked = params::asked(facts);
    let chosen = asked.is_some() && asked == current;
    // A missing tsc is a question only if the remaining clocksource is slow, or may be.
    let gone = match listed {
        Some(true) => false,
        Some(false) => verdict.state != State::Fast && is_pc(facts) && !on_purpose(facts, verdict),
        None => device && !chosen && is_pc(facts),
    };
    let pc = device
        || listed.is_some() && current.is_none_or(|name| matches!(name, "kvm-clock" | "xen"));
    if !gone || !pc {
        return Vec::new();
    }
    let found = Finding::new(Label::CauseNeedsDmesg).fix(&[Fix::ReadLog]);
    let found = found.seen_all(&verdict.source_evidence);
    let found = found.seen_all(facts.available.as_ref().map(|list| &list.evidence));
    let found = if listed == Some(false) { found.follows(Label::TscAbsent) } else { found };
    match facts.log.as_ref().filter(|log| !log.events.is_empty()) {
        None => vec![found.tell("no-log")],
        Some(log) if log.begins_at_boot => vec![found.tell_with("part", &[("file", &log.file)])],
        Some(log) => {
            let lost = Finding::new(Label::LogIncomplete).follows(Label::CauseNeedsDmesg);
            vec![found, lost.tell_with("lost", &[("file", &log.file)])]
        }
    }
}
