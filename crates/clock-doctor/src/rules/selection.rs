//! The clocksource that was chosen, and better choices.

mod missing;

use super::state::source::{self, rank};
use super::{
    EventKind, Evidence, Facts, Finding, Fix, Label, Severity, State, Verdict, counts_ticks,
    is_device, is_tsc, params, trust,
};

/// The findings of these rules.
pub(crate) fn find(facts: &Facts, verdict: &Verdict) -> Vec<Finding> {
    let rules = [rejected, tsc_not_selected, better_source, ticks];
    let mut found = missing::find(facts, verdict);
    found.extend(rules.iter().filter_map(|rule| rule(facts, verdict)));
    found
}

/// A request that the kernel refused, although the write to the file succeeded.
fn rejected(facts: &Facts, verdict: &Verdict) -> Option<Finding> {
    let (event, name) = facts.events().rev().find_map(|event| match &event.kind {
        EventKind::Override { name, is_deferred: false } => Some((event, name)),
        _ => None,
    })?;
    let unstable = event.evidence.text.contains("unstable");
    let holds = match verdict.source.as_deref() {
        Some(current) => current != name,
        // Before 4.9 the kernel prints the same about a clocksource that it accepts a moment later.
        None => unstable || is_tsc(name) && source::tsc_given_up(facts).is_some(),
    };
    if !holds {
        return None;
    }
    let found = Finding::new(Label::OverrideRejected).seen(&event.evidence);
    let found = found.seen_all(&verdict.source_evidence);
    let found = match verdict.source.as_deref() {
        Some(current) => found.tell_with("kept-current", &[("name", name), ("current", &current)]),
        None => found.tell_with("refused", &[("name", name)]),
    };
    let found = found.tell_if(is_tsc(name), "no-way-back");
    Some(found.forbid(&[Fix::SwitchToTsc]).fix(&[Fix::Reboot]))
}

/// Evidence that tsc can be selected: it is listed, or registered and never given up.
fn tsc_available(facts: &Facts) -> Option<Evidence> {
    if source::tsc_given_up(facts).is_some() {
        // The list omits it only while the tick is in one-shot mode.
        return None;
    }
    if let Some(list) = &facts.available {
        return (facts.lists("tsc") == Some(true)).then(|| list.evidence.clone());
    }
    let registers =
        |kind: &EventKind| matches!(kind, EventKind::Registered { name, .. } if name == "tsc");
    facts.logged(registers).map(|event| event.evidence.clone())
}

/// Whether tsc can be selected, and is not known to drift.
fn usable_tsc(facts: &Facts, verdict: &Verdict) -> bool {
    let may_use = trust::doubt(facts, &verdict.platforms).is_none_or(|doubt| doubt.may_use);
    may_use && tsc_available(facts).is_some()
}

fn tsc_not_selected(facts: &Facts, verdict: &Verdict) -> Option<Finding> {
    let current = verdict.source.as_deref()?;
    let slow = matches!(verdict.state, State::Slow | State::SlowUnlessPvclockVdso);
    let worse = !is_tsc(current) && !matches!(current, "kvm-clock" | "hyperv_clocksource_tsc_page");
    let evidence = tsc_available(facts).filter(|_| slow && worse)?;
    let found = Finding::new(Label::TscAvailableNotSelected).seen(&evidence);
    let found = found.seen_all(&verdict.source_evidence);
    let line = facts.command_line.as_ref();
    if let Some(line) = line.filter(|_| params::asked(facts) == Some(current)) {
        let found = found.tell_with("asked", &[("current", &current)]);
        return Some(found.seen(&line.evidence).fix(&[Fix::SwitchToTsc, Fix::RemoveParameter]));
    }
    let is_xen = current == "xen";
    let found =
        found.tell_with(if is_xen { "xen" } else { "not-refused" }, &[("current", &current)]);
    let found = match trust::doubt(facts, &verdict.platforms) {
        Some(doubt) => found.tell_with("doubt", &[("why", &doubt.why)]),
        None => found,
    };
    const USE: [Fix; 2] = [Fix::SwitchToTsc, Fix::ClocksourceTsc];
    if !is_xen {
        return Some(found.fix(&USE));
    }
    let slept = facts.logged(|kind| matches!(kind, EventKind::Suspended(_))).is_some();
    let found = found.severity(Severity::Slow).follows(Label::VdsoSupportDependsOnKernel);
    Some(if slept { found.forbid(&USE) } else { found.fix(&USE) })
}

/// A device is current while a faster one, or the hypervisor's clock, is listed.
fn better_source(facts: &Facts, verdict: &Verdict) -> Option<Finding> {
    let current = verdict.source.as_deref()?;
    let list = facts.available.as_ref()?;
    let has = |name: &str| facts.lists(name) == Some(true);
    const BETTER: [&str; 4] = ["kvm-clock", "hyperv_clocksource_tsc_page", "hpet", "acpi_pm"];
    if !is_device(current) || current.starts_with("arm") || usable_tsc(facts, verdict) {
        return None;
    }
    let better = BETTER.iter().find(|name| has(name) && rank(name) < rank(current))?;
    let found = Finding::new(Label::BetterSourceAvailable).seen(&list.evidence);
    let found = found.seen_all(&verdict.source_evidence);
    let (key, fix) = match *better {
        "hpet" => ("hpet", Fix::SwitchToHpet),
        "acpi_pm" if counts_ticks(current) => ("loses-none", Fix::SwitchSource),
        "acpi_pm" => ("cheaper", Fix::SwitchSource),
        "kvm-clock" => ("by-vdso", Fix::SwitchToKvmClock),
        _ => ("by-vdso", Fix::SwitchSource),
    };
    let found = found.tell_with(key, &[("better", better), ("current", &current)]);
    let asked = params::asked(facts);
    let found = if asked == Some(current) { found.fix(&[Fix::RemoveParameter]) } else { found };
    Some(found.fix(&[fix]))
}

/// Time counted in timer ticks: every late tick is lost time.
fn ticks(facts: &Facts, verdict: &Verdict) -> Option<Finding> {
    let current = verdict.source.as_deref().filter(|name| name.ends_with("jiffies"))?;
    let found = Finding::new(Label::RateRiskTicks).seen_all(&verdict.source_evidence);
    let found = found.tell_with("ticks", &[("current", &current)]);
    let has = |name: &str| facts.lists(name) == Some(true);
    Some(match () {
        () if usable_tsc(facts, verdict) => found.fix(&[Fix::SwitchToTsc, Fix::ClocksourceTsc]),
        () if has("hpet") => found.fix(&[Fix::SwitchToHpet]),
        () => found.fix(&[Fix::SwitchSource, Fix::KvmClock, Fix::EnableHpet]),
    })
}
