//! The current clocksource, and how it is read.

mod cost;
pub(super) mod source;
#[cfg(test)]
mod tests;

use self::source::Current;
use super::{EventKind, Facts, Label, State, Verdict, platform};
use crate::facts::Kernel;
use crate::measured::Measured;

/// If a system call takes less than this many times the vDSO's time, the vDSO made the system call itself.
const FALLBACK_RATIO: f64 = 1.5;
/// Cost of a slow read through the vDSO, in nanoseconds, ...
const SLOW_NS: f64 = 300.0;
/// ... and its minimum ratio to a coarse read, which never reads the counter. Above both limits a read is too slow for
/// a counter that is read by an instruction: tsc takes 18 to 57 ns, a paravirtual clock twice that, a coarse clock 4 to
/// 13 ns, and a trap to a hypervisor a microsecond. In an emulator all of them are slow.
const SLOW_TIMES: f64 = 15.0;
/// Clocksources that no vDSO reads: ticks, devices behind ports or memory-mapped registers, and a hypercall. The vDSO
/// read hpet up to 4.6, which saved the system call but not the access to the device.
const DEVICES: [(&str, &str); 12] = [
    ("hpet", "a device over the bus"),
    ("acpi_pm", "a device behind an I/O port"),
    ("jiffies", "the count of timer ticks"),
    ("refined-jiffies", "the count of timer ticks"),
    ("hyperv_clocksource_msr", "a register that only the hypervisor can read"),
    ("hyperv_clocksource", "a register that only the hypervisor can read"),
    ("sgi_rtc", "a device over the fabric of the machine"),
    ("pit", "a device behind I/O ports"),
    ("i8253", "a device behind I/O ports"),
    ("arm,sp804", "a timer on the bus"),
    ("arm_global_timer", "a timer on the bus"),
    ("vmi-timer", "the hypervisor's timer"),
];
/// The counters of other architectures, which their vDSOs read: `VDSO_CLOCKMODE_ARCHTIMER` in arch/powerpc, `_TOD` in
/// arch/s390, `_CPU` in arch/loongarch, `_R4K` in arch/mips, `_GIC` in drivers/clocksource/mips-gic-timer.c, `VCLOCK_STICK`
/// in arch/sparc (Linux 6.12). Their cost is unknown to doctor.
const ELSEWHERE: [&str; 7] = ["timebase", "tod", "Constant", "MIPS", "GIC", "stick", "tick"];

/// Determines source, state, cost and platforms.
pub(crate) fn verdict(facts: &Facts) -> Verdict {
    let platforms = platform::platforms(facts);
    let current = source::current(facts);
    let (state, because) = match measured(facts) {
        Some(measured) => refine(measured, current.name.as_deref(), facts),
        None => expected(facts, &current, &platforms),
    };
    let is_vm = platform::has_hypervisor(facts, &platforms);
    let named = current.name.as_deref().unwrap_or_default();
    let cost = cost::cost(facts, state, named, is_vm);
    Verdict {
        state,
        because,
        source: current.name,
        source_evidence: current.evidence,
        cost,
        platforms,
    }
}

/// How the vDSO answered in a measurement: the state, and how it was seen, as a clause.
fn measured(facts: &Facts) -> Option<(State, String)> {
    let host = &facts.measured.as_ref()?.host;
    let vdso = &host.vdso;
    let times = vdso.ratio.map(|ratio| format!(": the system call takes {ratio:.1} times as long"));
    let times = &[("times", times.unwrap_or_default())];
    match vdso.falls_back.or(vdso.ratio.map(|ratio| ratio < FALLBACK_RATIO)) {
        Some(false) => Some((State::Fast, Label::StateFast.sentence("seen-to-answer", times))),
        Some(true) => Some(slow("seen-to-fall-back", times)),
        None if !vdso.present && !host.kernel.is_empty() => Some(slow("no-vdso", &[])),
        None => None,
    }
}

/// The costs of a read and of a coarse read in nanoseconds, if the vDSO answers by itself and is so slow that the
/// instruction which reads the counter must be trapped. A trapped `rdtsc` shows only in its cost.
pub(super) fn trapped(measured: &Measured) -> Option<(f64, f64)> {
    let monotonic = measured.read("CLOCK_MONOTONIC")?;
    let ns = monotonic.vdso_ns.filter(|ns| *ns >= SLOW_NS)?;
    let coarse = measured.read("CLOCK_MONOTONIC_COARSE")?.vdso_ns.filter(|ns| *ns > 0.0)?;
    (monotonic.falls_back == Some(false) && ns >= coarse * SLOW_TIMES).then_some((ns, coarse))
}

/// The measured state, except that a device stays slow even if the vDSO reads it.
fn refine(seen: (State, String), source: Option<&str>, facts: &Facts) -> (State, String) {
    if seen.0 == State::Fast && source == Some("hpet") {
        return hpet(facts);
    }
    if seen.0 == State::Fast && facts.measured.as_ref().and_then(trapped).is_some() {
        return slow("trapped", &[]);
    }
    seen
}

/// The state that files and log suggest.
fn expected(facts: &Facts, current: &Current, platforms: &[&'static str]) -> (State, String) {
    let Some(name) = current.name.as_deref() else { return unnamed(facts, current, platforms) };
    if facts.line_with("vdso=0").is_some() {
        return slow("vdso=0", &[]);
    }
    if facts.vsyscall64.as_ref().is_some_and(|gate| gate.value == 0) {
        return slow("vsyscall64", &[]);
    }
    let named = &[("name", name.to_owned())];
    let refused = |kind: &EventKind| matches!(kind, EventKind::VdsoModeInvalid(of) if of == name);
    if facts.logged(refused).is_some() {
        return slow("refused", named);
    }
    match name {
        "tsc" | "tsc-early" => fast("tsc"),
        "hpet" => hpet(facts),
        "kvm-clock" => kvm_clock(facts),
        "hyperv_clocksource_tsc_page" => hyperv_page(facts),
        "xen" => xen(facts),
        "arch_sys_counter" => arm_counter(facts),
        "riscv_clocksource" => riscv_counter(facts),
        _ => match DEVICES.iter().find(|(device, _)| *device == name) {
            Some((_, what)) => {
                slow("device", &[("name", name.to_owned()), ("what", (*what).to_owned())])
            }
            None if is_elsewhere(name) => {
                (State::Fast, Label::StateFast.sentence("elsewhere", named))
            }
            None => slow("no-vdso-reads", named),
        },
    }
}

/// Whether no vDSO reads the clocksource.
pub(super) fn is_device(name: &str) -> bool {
    DEVICES.iter().any(|(device, _)| *device == name)
}

/// Whether the clocksource is the counter of another architecture than x86 and ARM.
pub(super) fn is_elsewhere(name: &str) -> bool {
    ELSEWHERE.contains(&name)
}

/// The state with its reason, a clause of the state's page.
fn fast(key: &str) -> (State, String) {
    (State::Fast, Label::StateFast.sentence(key, &[]))
}

fn slow(key: &str, values: &[(&str, String)]) -> (State, String) {
    (State::Slow, Label::StateSlow.sentence(key, values))
}

fn unknown(key: &str, values: &[(&str, String)]) -> (State, String) {
    (State::Unknown, Label::StateUnknown.sentence(key, values))
}

/// The kernel's release, for a clause.
fn release(kernel: &Kernel) -> [(&'static str, String); 1] {
    [("release", kernel.release.clone())]
}

/// Without a name, the remaining clocksources may still be known to be slow.
fn unnamed(facts: &Facts, current: &Current, platforms: &[&'static str]) -> (State, String) {
    if let Some(list) = &facts.available {
        if !list.value.is_empty() && list.value.iter().all(|name| is_device(name)) {
            return slow("nothing-but", &[("names", list.value.join(" and "))]);
        }
        if list.value.first().is_some_and(|name| source::is_tsc(name)) {
            return unknown("tsc-heads", &[]);
        }
    }
    if current.lost.is_some() || current.early.is_none() && source::tsc_given_up(facts).is_some() {
        let is_metal = platforms.contains(&"bare-metal");
        return if is_metal { slow("given-up", &[]) } else { unknown("given-up", &[]) };
    }
    if let Some(name) = &current.early {
        return unknown("only-early", &[("name", name.clone())]);
    }
    match facts.logged(|kind| matches!(kind, EventKind::Registered { .. })) {
        Some(_) => unknown("log-ends", &[]),
        None => unknown("nothing-says", &[]),
    }
}

fn hpet(facts: &Facts) -> (State, String) {
    match facts.kernel() {
        Some(kernel) if !kernel.at_least(4, 7) => slow("hpet-before-4.7", &release(kernel)),
        _ => slow("hpet", &[]),
    }
}

/// `VCLOCK_PVCLOCK` is in 4.4 and not in 3.6; the host has to set `PVCLOCK_TSC_STABLE_BIT`.
fn kvm_clock(facts: &Facts) -> (State, String) {
    let page = facts.measured.as_ref().and_then(|measured| measured.pvclock.as_ref());
    if let Some(page) = page.filter(|page| page.kind == "kvm") {
        return if page.is_stable { fast("kvm-stable") } else { slow("kvm-not-stable", &[]) };
    }
    if facts.line_with("no-kvmclock-vsyscall").is_some() {
        return slow("no-kvmclock-vsyscall", &[]);
    }
    if super::age::age(facts).since(3, 8) == Some(false) {
        let by_log = || unknown("kvm-before-3.8", &[]);
        return facts.kernel().map_or_else(by_log, |it| slow("kvm-before-3.8", &release(it)));
    }
    if let Some(lists_tsc) = source::lists_tsc(facts) {
        return if lists_tsc { fast("kvm-with-tsc") } else { unknown("kvm-without-tsc", &[]) };
    }
    match super::hosts::breaks_kvm_clock(facts) {
        Some(_) => unknown("kvm-apart", &[]),
        None => fast("kvm"),
    }
}

/// `VCLOCK_HVCLOCK` is in 4.14 and not in 4.9 (4.12).
fn hyperv_page(facts: &Facts) -> (State, String) {
    let page = facts.measured.as_ref().and_then(|measured| measured.pvclock.as_ref());
    if page.is_some_and(|page| page.kind == "hyperv" && !page.is_stable) {
        return slow("hyperv-page-off", &[]);
    }
    match facts.kernel() {
        Some(kernel) if kernel.at_least(4, 12) => fast("hyperv-page"),
        Some(kernel) => unknown("hyperv-before-4.12", &release(kernel)),
        None if super::age::age(facts).at_least >= (4, 2) => fast("hyperv-by-log"),
        None => unknown("hyperv-no-version", &[]),
    }
}

/// The vDSO reads it in 4.19 and not in 4.14 (4.16), if the hypervisor sets the stable bit.
fn xen(facts: &Facts) -> (State, String) {
    if facts.logged(|kind| *kind == EventKind::PvclockUnstable).is_some() {
        return slow("xen-not-stable", &[]);
    }
    let clause = |key, values: &[_]| Label::StateSlowUnlessPvclockVdso.sentence(key, values);
    let why = match facts.kernel() {
        Some(kernel) if !kernel.at_least(4, 16) => clause("xen-before-4.16", &release(kernel)),
        _ => clause("xen", &[]),
    };
    (State::SlowUnlessPvclockVdso, why)
}

/// `arch/riscv/kernel/vdso` reads the counter with `rdtime` since ad5d1122b82f (5.8). A CPU without that register traps
/// to the firmware, which no file shows.
fn riscv_counter(facts: &Facts) -> (State, String) {
    match facts.kernel() {
        Some(kernel) if kernel.at_least(5, 9) => fast("riscv"),
        _ => unknown("riscv-before-5.9", &[]),
    }
}

fn arm_counter(facts: &Facts) -> (State, String) {
    if let Some((_, name)) = super::arm::erratum(facts) {
        return slow("arm-erratum", &[("name", name.to_owned())]);
    }
    if super::arm::entries_removed(facts).is_some() {
        return slow("arm-removed", &[]);
    }
    fast("arm")
}
