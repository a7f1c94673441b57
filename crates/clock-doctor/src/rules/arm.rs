//! ARM: errata and device trees that remove the clock from the vDSO.

use super::finding::{Finding, Severity, Verdict};
use crate::facts::{Evidence, Facts};
use crate::log::event::{Event, EventKind};
use crate::rules::catalogue::{Fix, Label};

/// The erratum of Cortex-A76 and Neoverse-N1 with a workaround that affects 32-bit programs only.
const COMPAT_ONLY: &str = "1418040";

/// The findings of these rules.
pub(crate) fn find(facts: &Facts, verdict: &Verdict) -> Vec<Finding> {
    let found = [vdso_off(facts), compat_only(facts), trapped(facts), entries_off(facts, verdict)];
    found.into_iter().flatten().collect()
}

/// Whether this is an ARM.
pub(super) fn is_arm(facts: &Facts) -> bool {
    let machine = facts.cpu.machine.as_ref();
    let named =
        machine.is_some_and(|it| it.value.starts_with("arm") || it.value.starts_with("aarch64"));
    let source = |name: &str| name.starts_with("arm") || name == "arch_sys_counter";
    let logged = |event: &Event| match &event.kind {
        EventKind::ArmBoot | EventKind::ArmWorkaround(_) | EventKind::ArmTrapping => true,
        EventKind::OfPlatform("arm64") => true,
        kind => kind.clocksources().any(source),
    };
    let listed = facts.available.iter().any(|list| list.value.iter().any(|name| source(name)));
    named || facts.cpu.is_arm32 || listed || facts.events().any(logged)
}

/// The first workaround that removes the counter from the vDSO, and the erratum's name.
pub(super) fn erratum(facts: &Facts) -> Option<(&Event, Option<String>)> {
    let affects = |event: &&Event| matches!(&event.kind, EventKind::ArmWorkaround(name) if !name.contains(COMPAT_ONLY));
    let event = facts.events().find(affects)?;
    match &event.kind {
        EventKind::ArmWorkaround(name) => Some((event, Some(name.clone()))),
        _ => None,
    }
}

/// Whether the device tree makes a 32-bit kernel remove the clock functions from the vDSO (`cntvct_functional` in
/// `arch/arm/kernel/vdso.c`).
pub(super) fn entries_removed(facts: &Facts) -> Option<(Evidence, &'static str)> {
    let machine = facts.cpu.machine.as_ref().map(|machine| &machine.value[..]);
    if matches!(machine, Some("aarch64" | "arm64")) && !facts.cpu.is_arm32 {
        return None;
    }
    if let Some(evidence) = &facts.arm_registers_not_configured {
        let why = "The firmware did not set the timer's registers up, as the device tree says.";
        return Some((evidence.clone(), why));
    }
    let timer = facts.arm_timer.as_ref()?;
    let is_arm32 = facts.cpu.is_arm32 || machine.is_some_and(|name| name.starts_with("armv"));
    let known = timer.value.contains("armv7-timer") || timer.value.contains("armv8-timer");
    let why = "The device tree has no timer of the ARMv7 kind.";
    (is_arm32 && !known).then(|| (timer.evidence.clone(), why))
}

fn is_measured_fast(facts: &Facts) -> bool {
    facts.falls_back() == Some(false)
}

fn vdso_off(facts: &Facts) -> Option<Finding> {
    let (event, name) = erratum(facts)?;
    let name = name.unwrap_or_default();
    let same =
        |event: &&Event| matches!(&event.kind, EventKind::ArmWorkaround(other) if *other == name);
    let times = facts.events().filter(same).count();
    let found = Finding::new(Label::ArmErratumVdsoOff).seen(&event.evidence);
    let found = found.detail(match times {
        1 => format!("The kernel works around {name}, and so keeps the counter from every program's vDSO."),
        _ => format!(
            "The kernel works around {name} on {times} CPUs; that some cores are not concerned does not help, as \
             the vDSO is the same for all."
        ),
    });
    if is_measured_fast(facts) {
        let contrary = "The vDSO was seen to answer by itself all the same.";
        return Some(found.severity(Severity::Note).detail(contrary));
    }
    Some(found.fix(&[Fix::Coarse, Fix::Keep]))
}

fn compat_only(facts: &Facts) -> Option<Finding> {
    let concerns = |event: &&Event| matches!(&event.kind, EventKind::ArmWorkaround(name) if name.contains(COMPAT_ONLY));
    let event = facts.events().find(concerns)?;
    let found = Finding::new(Label::ArmErratumCompatOnly).seen(&event.evidence);
    let found =
        found.detail("64-bit programs read the counter as ever; 32-bit ones make a system call.");
    Some(found.fix(&[Fix::Use64Bit]))
}

fn trapped(facts: &Facts) -> Option<Finding> {
    let traps: Vec<&Event> =
        facts.events().filter(|event| event.kind == EventKind::ArmTrapping).collect();
    let found = Finding::new(Label::ArmCntvctTrapped).seen(&traps.first()?.evidence);
    let found =
        traps.iter().skip(1).take(2).fold(found, |found, event| found.seen(&event.evidence));
    let found = found.detail(match traps.len() {
        1 => "A program that reads the counter itself on that CPU goes through the kernel."
            .to_owned(),
        many => format!(
            "A program that reads the counter itself goes through the kernel on {many} of the CPUs."
        ),
    });
    match erratum(facts) {
        Some(_) => Some(found.follows(Label::ArmErratumVdsoOff)),
        // Only 32-bit programs are affected.
        None => Some(found.severity(Severity::Note).follows(Label::ArmErratumCompatOnly)),
    }
}

fn entries_off(facts: &Facts, verdict: &Verdict) -> Option<Finding> {
    let (evidence, why) = entries_removed(facts)?;
    let found = Finding::new(Label::Arm32VdsoOff).seen(&evidence).detail(why);
    if is_measured_fast(facts) {
        return Some(
            found.severity(Severity::Note).detail("The vDSO was seen to answer all the same."),
        );
    }
    let found = match verdict.source.as_deref() {
        Some("arch_sys_counter") => found.tell("removed"),
        _ => found,
    };
    Some(found.fix(&[Fix::Use64Bit, Fix::BiosUpdate, Fix::Coarse]))
}
