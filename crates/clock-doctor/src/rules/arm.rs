//! ARM: errata and device trees that remove the clock from the vDSO.

use super::{Event, EventKind, Evidence, Facts, Finding, Fix, Label, Severity, Verdict};

/// The erratum of Cortex-A76 and Neoverse-N1 with a workaround that affects 32-bit programs only.
const COMPAT_ONLY: &str = "1418040";

/// The findings of these rules.
pub(crate) fn find(facts: &Facts, verdict: &Verdict) -> Vec<Finding> {
    let found = [vdso_off(facts), compat_only(facts), trapped(facts), entries_off(facts, verdict)];
    found.into_iter().flatten().collect()
}

/// Whether this is an ARM.
pub(super) fn is_arm(facts: &Facts) -> bool {
    let is_name = |name: &str| name.starts_with("arm") || name.starts_with("aarch64");
    let named = facts.cpu.machine_name().is_some_and(is_name);
    let source = |name: &str| name.starts_with("arm") || name == "arch_sys_counter";
    let logged = |event: &Event| match &event.kind {
        EventKind::ArmBoot | EventKind::ArmWorkaround(_) | EventKind::ArmTrapping => true,
        EventKind::OfPlatform("arm64") => true,
        kind => kind.clocksources().any(source),
    };
    let listed = facts.available.iter().any(|list| list.value.iter().any(|name| source(name)));
    named || facts.cpu.is_arm32 || listed || facts.events().any(logged)
}

/// The workarounds for errata, with their names.
fn workarounds(facts: &Facts) -> impl Iterator<Item = (&Event, &str)> {
    facts.events().filter_map(|event| match &event.kind {
        EventKind::ArmWorkaround(name) => Some((event, name.as_str())),
        _ => None,
    })
}

/// The first workaround that removes the counter from the vDSO, and the erratum's name.
pub(super) fn erratum(facts: &Facts) -> Option<(&Event, &str)> {
    workarounds(facts).find(|(_, name)| !name.contains(COMPAT_ONLY))
}

/// Whether the device tree makes a 32-bit kernel remove the clock functions from the vDSO (`cntvct_functional` in
/// `arch/arm/kernel/vdso.c`).
pub(super) fn entries_removed(facts: &Facts) -> Option<(Evidence, &'static str)> {
    let machine = facts.cpu.machine_name();
    if matches!(machine, Some("aarch64" | "arm64")) && !facts.cpu.is_arm32 {
        return None;
    }
    if let Some(evidence) = &facts.arm_registers_not_configured {
        return Some((evidence.clone(), "not-set-up"));
    }
    let timer = facts.arm_timer.as_ref()?;
    let is_arm32 = facts.cpu.is_arm32 || machine.is_some_and(|name| name.starts_with("armv"));
    let known = timer.value.contains("armv7-timer") || timer.value.contains("armv8-timer");
    (is_arm32 && !known).then(|| (timer.evidence.clone(), "no-timer"))
}

fn vdso_off(facts: &Facts) -> Option<Finding> {
    let (event, name) = erratum(facts)?;
    let times = workarounds(facts).filter(|(_, other)| *other == name).count();
    let found = Finding::new(Label::ArmErratumVdsoOff).seen(&event.evidence);
    let key = if times == 1 { "one-cpu" } else { "some-cpus" };
    let found = found.tell_with(key, &[("name", &name), ("times", &times)]);
    if facts.falls_back() == Some(false) {
        return Some(found.severity(Severity::Note).tell("answers"));
    }
    Some(found.fix(&[Fix::Coarse, Fix::Keep]))
}

fn compat_only(facts: &Facts) -> Option<Finding> {
    let (event, _) = workarounds(facts).find(|(_, name)| name.contains(COMPAT_ONLY))?;
    let found = Finding::new(Label::ArmErratumCompatOnly).seen(&event.evidence);
    Some(found.tell("compat-only").fix(&[Fix::Use64Bit]))
}

fn trapped(facts: &Facts) -> Option<Finding> {
    let traps = facts.events().filter(|event| event.kind == EventKind::ArmTrapping);
    let lines: Vec<&Evidence> = traps.map(|event| &event.evidence).collect();
    lines.first()?;
    let found = Finding::new(Label::ArmCntvctTrapped).seen_all(lines.iter().take(3).copied());
    let key = if lines.len() == 1 { "that-cpu" } else { "many-cpus" };
    let found = found.tell_with(key, &[("many", &lines.len())]);
    match erratum(facts) {
        Some(_) => Some(found.follows(Label::ArmErratumVdsoOff)),
        // Only 32-bit programs are affected.
        None => Some(found.severity(Severity::Note).follows(Label::ArmErratumCompatOnly)),
    }
}

fn entries_off(facts: &Facts, verdict: &Verdict) -> Option<Finding> {
    let (evidence, why) = entries_removed(facts)?;
    let found = Finding::new(Label::Arm32VdsoOff).seen(&evidence).tell(why);
    if facts.falls_back() == Some(false) {
        return Some(found.severity(Severity::Note).tell("answers"));
    }
    let found = found.tell_if(verdict.source.as_deref() == Some("arch_sys_counter"), "removed");
    Some(found.fix(&[Fix::Use64Bit, Fix::BiosUpdate, Fix::Coarse]))
}
