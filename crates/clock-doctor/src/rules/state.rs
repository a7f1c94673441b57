//! The current clocksource, and how it is read.

mod cost;
pub(super) mod source;
#[cfg(test)]
mod tests;

use self::source::Current;
use super::finding::{Finding, State, Verdict};
use super::{live, platform};
use crate::facts::{Evidence, Facts};
use crate::log::event::EventKind;
use crate::rules::catalogue::Label;

/// If a system call takes less than this many times the vDSO's time, the vDSO made the system call itself.
const FALLBACK_RATIO: f64 = 1.5;
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
/// Clocksources of other architectures. Their cost is unknown to doctor.
const ELSEWHERE: [&str; 5] = ["timebase", "tod", "Constant", "stick", "MIPS"];

/// Determines source, state, cost and platforms.
pub(crate) fn verdict(facts: &Facts) -> Verdict {
    let platforms = platform::platforms(facts);
    let current = source::current(facts);
    let (state, because) = match measured(facts) {
        Some(measured) => refine(&measured, current.name.as_deref(), facts),
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

/// How the vDSO answered in a measurement.
struct Seen {
    state: State,
    words: String,
}

fn measured(facts: &Facts) -> Option<Seen> {
    let host = &facts.measured.as_ref()?.host;
    let vdso = &host.vdso;
    let times = vdso.ratio.map(|ratio| format!(": the system call takes {ratio:.1} times as long"));
    let times = times.unwrap_or_default();
    let falls_back = vdso.falls_back.or(vdso.ratio.map(|ratio| ratio < FALLBACK_RATIO));
    match falls_back {
        Some(false) => Some(Seen {
            state: State::Fast,
            words: format!("the vDSO was seen to answer by itself{times}"),
        }),
        Some(true) => {
            let words = format!("the vDSO was seen to make a system call for every read{times}");
            Some(Seen { state: State::Slow, words })
        }
        None if !vdso.present && !host.kernel.is_empty() => {
            Some(Seen { state: State::Slow, words: "the process has no vDSO".to_owned() })
        }
        None => None,
    }
}

/// The measured state, except that a device stays slow even if the vDSO reads it.
fn refine(seen: &Seen, source: Option<&str>, facts: &Facts) -> (State, String) {
    if seen.state == State::Fast && source == Some("hpet") {
        return (State::Slow, hpet(facts));
    }
    if seen.state == State::Fast && facts.measured.as_ref().and_then(live::trapped).is_some() {
        return slow("the vDSO answers by itself, but what it reads the counter with is trapped");
    }
    (seen.state, seen.words.clone())
}

/// A measurement that contradicts the table: the table is wrong for this kernel, or the facts about it are.
pub(super) fn disagreement(facts: &Facts) -> Option<Finding> {
    let seen = measured(facts)?;
    let current = source::current(facts);
    let name = current.name.as_deref()?;
    let (state, because) = expected(facts, &current, &platform::platforms(facts));
    let opposite =
        matches!((state, seen.state), (State::Fast, State::Slow) | (State::Slow, State::Fast));
    // The table covers the device's own slowness; only its route changed with 4.7.
    if !opposite || name == "hpet" {
        return None;
    }
    let text = &seen.words;
    let found = Finding::new(Label::MeasurementDisagrees).seen(&Evidence::of("measured", text));
    let expectation = if state == State::Fast { "fast" } else { "slow" };
    Some(found.tell_with(
        "disagrees",
        &[("name", &name), ("expectation", &expectation), ("because", &because), ("text", &text)],
    ))
}

/// The state that files and log suggest.
fn expected(facts: &Facts, current: &Current, platforms: &[&'static str]) -> (State, String) {
    let Some(name) = current.name.as_deref() else {
        return unnamed(facts, current, platforms);
    };
    if let Some(why) = vdso_is_off(facts) {
        return (State::Slow, why);
    }
    let refused = |kind: &EventKind| matches!(kind, EventKind::VdsoModeInvalid(of) if of == name);
    if facts.logged(refused).is_some() {
        return slow(format!("the kernel refused to let the vDSO read {name}"));
    }
    match name {
        "tsc" | "tsc-early" => fast("the vDSO reads the TSC itself"),
        "hpet" => slow(hpet(facts)),
        "kvm-clock" => kvm_clock(facts),
        "hyperv_clocksource_tsc_page" => hyperv_page(facts),
        "xen" => xen(facts),
        "arch_sys_counter" => arm_counter(facts),
        "riscv_clocksource" => riscv_counter(facts),
        _ => match DEVICES.iter().find(|(device, _)| *device == name) {
            Some((_, what)) => {
                slow(format!("every read of {name} is a system call that reads {what}"))
            }
            None if ELSEWHERE.iter().any(|other| name.starts_with(other)) => unknown(format!(
                "whether the vDSO reads {name} is not known here, and nothing was measured"
            )),
            None => slow(format!("no vDSO reads {name}: every read is a system call")),
        },
    }
}

fn fast(why: impl Into<String>) -> (State, String) {
    (State::Fast, why.into())
}

fn slow(why: impl Into<String>) -> (State, String) {
    (State::Slow, why.into())
}

fn unknown(why: impl Into<String>) -> (State, String) {
    (State::Unknown, why.into())
}

/// Without a name, the remaining clocksources may still be known to be slow.
fn unnamed(facts: &Facts, current: &Current, platforms: &[&'static str]) -> (State, String) {
    if let Some(list) = &facts.available {
        let is_device = |name: &String| DEVICES.iter().any(|(device, _)| device == name);
        if !list.value.is_empty() && list.value.iter().all(is_device) {
            let names = list.value.join(" and ");
            return slow(format!(
                "nothing but {names} is available, and no vDSO reads such a clocksource"
            ));
        }
        if list.value.first().is_some_and(|name| source::is_tsc(name)) {
            return unknown(
                "tsc heads the list of available clocksources, from which the kernel takes \
                            the first unless told otherwise, but nothing says which is current",
            );
        }
    }
    if current.lost.is_some() || current.early.is_none() && source::tsc_given_up(facts).is_some() {
        return match platforms.contains(&"bare-metal") {
            true => slow("the kernel gave tsc up, and what is left on such a machine is a device"),
            false => unknown("the kernel gave tsc up, and nothing says what it uses since"),
        };
    }
    if let Some(name) = &current.early {
        return unknown(format!(
            "{name} was current in the first seconds of the boot only, as far as the log goes"
        ));
    }
    if facts.logged(|kind| matches!(kind, EventKind::Registered { .. })).is_some() {
        return unknown("the log ends before the kernel chose a clocksource, or lacks that line");
    }
    unknown("nothing here says which clocksource is current")
}

/// The command line or a sysctl keeps all programs from using the vDSO's clocks.
fn vdso_is_off(facts: &Facts) -> Option<String> {
    if facts.line_with("vdso=0").is_some() {
        return Some("vdso=0 on the command line takes the vDSO away".to_owned());
    }
    let gate = facts.vsyscall64.as_ref()?;
    let words = "kernel.vsyscall64 is 0, which makes the vDSO pass every read on to the kernel";
    (gate.value == 0).then(|| words.to_owned())
}

fn hpet(facts: &Facts) -> String {
    match facts.kernel() {
        Some(kernel) if !kernel.at_least(4, 7) => format!(
            "hpet is a device: the vDSO of {} may read it without a system call, but waits for it all the \
             same",
            kernel.release
        ),
        _ => "every read of hpet is a system call that reads a device over the bus".to_owned(),
    }
}

/// `VCLOCK_PVCLOCK` is in 4.4 and not in 3.6; the host has to set `PVCLOCK_TSC_STABLE_BIT`.
fn kvm_clock(facts: &Facts) -> (State, String) {
    let page = facts.measured.as_ref().and_then(|measured| measured.pvclock.as_ref());
    if let Some(page) = page.filter(|page| page.kind == "kvm") {
        return match page.is_stable {
            true => {
                fast("the host states that its TSC is stable, so the vDSO reads kvm-clock itself")
            }
            false => slow(
                "the host does not state that its TSC is stable, so that every read of \
                           kvm-clock is a system call",
            ),
        };
    }
    if facts.line_with("no-kvmclock-vsyscall").is_some() {
        return slow(
            "no-kvmclock-vsyscall on the command line keeps the vDSO from reading kvm-clock",
        );
    }
    if let Some(kernel) = facts.kernel().filter(|kernel| !kernel.at_least(3, 8)) {
        return slow(format!(
            "the vDSO of {} does not read kvm-clock: that came with 3.8",
            kernel.release
        ));
    }
    if let Some(list) = &facts.available {
        return match list.value.iter().any(|name| source::is_tsc(name)) {
            true => fast(
                "the vDSO reads kvm-clock where the host's TSC is stable, as it seems to be: tsc \
                          is available too",
            ),
            false => unknown(
                "the vDSO reads kvm-clock only where the host states that its TSC is \
                              stable, and tsc is not available here",
            ),
        };
    }
    match super::hosts::breaks_kvm_clock(facts) {
        Some(_) => unknown(
            "the vDSO reads kvm-clock only if the host keeps the CPUs' counters \
                            together, and the kernel found them apart",
        ),
        None => fast("the vDSO reads kvm-clock, unless the host holds its own TSC for unstable"),
    }
}

/// `VCLOCK_HVCLOCK` is in 4.14 and not in 4.9 (4.12).
fn hyperv_page(facts: &Facts) -> (State, String) {
    let page = facts.measured.as_ref().and_then(|measured| measured.pvclock.as_ref());
    if page.is_some_and(|page| page.kind == "hyperv" && !page.is_stable) {
        return slow("the hypervisor has turned the TSC page off, so that every read asks it");
    }
    let age = super::age::age(facts);
    match facts.kernel() {
        Some(kernel) if kernel.at_least(4, 12) => fast("the vDSO reads Hyper-V's TSC page itself"),
        Some(kernel) => unknown(format!(
            "the vDSO reads Hyper-V's TSC page from 4.12 on, and whether {} has that from its vendor has \
             to be measured",
            kernel.release
        )),
        None if age.at_least >= (4, 2) => fast(
            "the vDSO reads Hyper-V's TSC page from 4.12 on, and the log looks like a later kernel's",
        ),
        None => unknown(
            "the vDSO reads Hyper-V's TSC page from 4.12 on, and the kernel's version is not known",
        ),
    }
}

/// The vDSO reads it in 4.19 and not in 4.14 (4.16), if the hypervisor sets the stable bit.
fn xen(facts: &Facts) -> (State, String) {
    let refused = facts.logged(|kind| *kind == EventKind::PvclockUnstable);
    if refused.is_some() {
        return slow(
            "Xen does not state that its TSC is stable, so that every read of its clock is a \
                     system call",
        );
    }
    let since =
        "the vDSO reads Xen's clock from 4.16 on, and only if Xen states that its TSC is stable";
    let why = match facts.kernel() {
        Some(kernel) if !kernel.at_least(4, 16) => {
            format!("{since}; {} has it only if its vendor put it in", kernel.release)
        }
        _ => since.to_owned(),
    };
    (State::SlowUnlessPvclockVdso, why)
}

/// `arch/riscv/kernel/vdso` reads the counter with `rdtime` since ad5d1122b82f (5.8). A CPU without that register traps
/// to the firmware, which no file shows.
fn riscv_counter(facts: &Facts) -> (State, String) {
    match facts.kernel() {
        Some(kernel) if kernel.at_least(5, 9) => fast(
            "the vDSO reads RISC-V's time counter itself, which takes long only where the firmware emulates it",
        ),
        _ => unknown(
            "the vDSO reads RISC-V's time counter from about 5.9 on, and the kernel is older or not known",
        ),
    }
}

fn arm_counter(facts: &Facts) -> (State, String) {
    if let Some(name) = super::arm::erratum(facts).and_then(|found| found.1) {
        return slow(format!(
            "the workaround for {name} takes the counter out of the vDSO for all CPUs"
        ));
    }
    if super::arm::entries_removed(facts).is_some() {
        return slow("the kernel removes the vDSO's clock functions on this device tree");
    }
    fast("the vDSO reads ARM's counter itself")
}
