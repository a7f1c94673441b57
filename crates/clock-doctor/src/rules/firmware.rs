//! The firmware's changes of counters, and the kernel's lines about HPET and ACPI timer.

use super::watchdog::episode::{self, Episode};
use super::watchdog::machine::Machine;
use super::{EventKind, Evidence, Facts, Finding, Fix, Label, Severity, Verdict};

/// The findings of these rules.
pub(crate) fn find(facts: &Facts, verdict: &Verdict) -> Vec<Finding> {
    let machine = Machine::of(facts, verdict);
    let p0 = of(facts, Label::FirmwareP0Warning, |kind| *kind == EventKind::FirmwareP0);
    let p0 = p0.map(|finding| finding.tell_if(machine.is_virtual, "virtual"));
    let off = of(facts, Label::HpetNotEnabledInBios, |kind| *kind == EventKind::HpetNotEnabled);
    let off = off.map(|finding| without_hpet(finding, facts, verdict, &machine));
    let unreliable = of(facts, Label::HpetUnreliable, |kind| *kind == EventKind::HpetDisabled);
    let pm_timer = of(facts, Label::AcpiPmBug, |kind| *kind == EventKind::PmTimerBad);
    let found = [adjusted(facts, &machine), p0, off, unreliable, pm_timer];
    found.into_iter().flatten().collect()
}

/// The finding `label`, if there are lines of that kind.
fn of(facts: &Facts, label: Label, is_it: impl Fn(&EventKind) -> bool) -> Option<Finding> {
    let lines: Vec<&Evidence> =
        facts.events().filter(|event| is_it(&event.kind)).map(|event| &event.evidence).collect();
    lines.first()?;
    // Firmware lines are printed once for each CPU.
    let finding = Finding::new(label).seen_all(lines.iter().take(4).copied());
    let more = facts.log.as_ref().map_or(0, |log| log.count(&is_it));
    Some(if more > 4 { finding.detail(format!("There are {more} such lines.")) } else { finding })
}

/// The firmware wrote `TSC_ADJUST`; worse if the CPUs still disagreed afterwards.
fn adjusted(facts: &Facts, machine: &Machine) -> Option<Finding> {
    let is_added = facts.logged(|kind| *kind == EventKind::HotAdded).is_some();
    // A CPU that was added counts from another start, without the firmware's doing: see `refused/warp.rs`.
    let is_adjusted = |kind: &EventKind| {
        let is_compensated = matches!(kind, EventKind::AdjustCompensated(_)) && !is_added;
        matches!(kind, EventKind::AdjustDiffers(_)) || is_compensated
    };
    let finding = of(facts, Label::FirmwareTscAdjust, is_adjusted)?;
    let finding = finding.tell_if(machine.is_virtual, "virtual");
    let mut after = facts.events().skip_while(|event| !is_adjusted(&event.kind));
    let Some(warped) = after.find(|event| event.kind.is_warp()) else { return Some(finding) };
    let finding = finding.severity(Severity::Wrong).seen(&warped.evidence);
    Some(finding.fix(&[Fix::BiosUpdate]).tell("came-back"))
}

/// A missing HPET matters if the TSC is given up: the next best source is the slower ACPI timer.
fn without_hpet(finding: Finding, facts: &Facts, verdict: &Verdict, machine: &Machine) -> Finding {
    let is_given_up = |one: &Episode| one.is_of_tsc() && (one.is_skew() || one.is_delay());
    let is_lost =
        matches!(verdict.source.as_deref(), Some("acpi_pm" | "jiffies" | "refined-jiffies"))
            || episode::gather(facts).iter().any(is_given_up)
            || facts.logged(EventKind::is_warp).is_some();
    if is_lost && !machine.is_virtual { finding.fix(&[Fix::EnableHpet]) } else { finding }
}
