//! Which fixes a label asks for on this machine, and which it forbids.

use super::machine::Machine;
use crate::rules::catalogue::Label;

/// Fixes that a label asks for, best first, and fixes that must not be advised because of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Remedy {
    /// Names of fixes.
    pub fixes: Vec<&'static str>,
    /// Names of fixes.
    pub forbids: Vec<&'static str>,
}

/// Everything that makes the kernel trust the TSC, or use it.
pub(crate) const TRUST: [&str; 4] =
    ["tsc=reliable", "tsc=nowatchdog", "clocksource=tsc", "switch-to-tsc"];

/// What keeps the watchdog off: `tsc=nowatchdog` where the kernel knows it, which leaves the check
/// of the CPUs' counters alive; else `tsc=reliable`, which 4.16 to 5.4 ignored for `tsc-early`.
#[must_use]
pub(crate) fn no_watchdog(machine: &Machine) -> Vec<&'static str> {
    match (machine.has_nowatchdog(), machine.since(3, 3)) {
        (Some(true) | None, _) => vec!["tsc=nowatchdog"],
        (Some(false), Some(true)) => vec!["measure", "tsc=reliable"],
        (Some(false), _) => vec!["newer-kernel"],
    }
}

/// What `label` asks for.
#[must_use]
pub fn of(label: Label, machine: &Machine, rate_is_unchecked: bool) -> Remedy {
    let mut fixes = Vec::new();
    let mut forbids = Vec::new();
    let vm = |names: &[&'static str]| if machine.is_virtual { names.to_vec() } else { Vec::new() };
    match label {
        Label::WatchdogFalsePositiveLikely | Label::TscWatchdogGlitch => {
            fixes.extend(no_watchdog(machine));
            fixes.push("reboot");
        }
        Label::WatchdogCounterWrapped | Label::WatchdogReadsTorn => {
            fixes.push("find-stall");
            fixes.extend(vm(&["pin-vcpus", "kvm-clock"]));
            fixes.extend(no_watchdog(machine));
        }
        Label::TscWatchdogLongInterval => {
            fixes.push("find-stall");
            fixes.extend(vm(&["pin-vcpus"]));
            fixes.extend(no_watchdog(machine));
        }
        Label::TscWatchdogReaddelay => {
            if machine.since(6, 12) != Some(true) {
                fixes.push("newer-kernel");
            }
            fixes.extend(no_watchdog(machine));
            fixes.extend(vm(&["pin-vcpus"]));
        }
        Label::TscWatchdogShortInterval | Label::VmPaused => {
            if machine.source.as_deref() == Some("kvm-clock") {
                fixes.push("keep");
            }
            fixes.extend(["reboot", "tsc=nowatchdog"]);
        }
        Label::TscWentBackwards | Label::AfterResume => {
            fixes.extend(vm(&["suspend-guests", "kvm-clock"]));
            if !machine.is_virtual {
                fixes.push("bios-update");
            }
            fixes.push("reboot");
            forbids.extend(TRUST);
        }
        Label::TscJumped => fixes.extend(["measure", "find-stall"]),
        Label::PerCpuSyncSuspicious | Label::TscWarpRuntime => {
            fixes.push("measure");
            fixes.extend(if machine.is_virtual { ["pin-vcpus"] } else { ["bios-update"] });
            forbids.extend(TRUST);
        }
        Label::WatchdogBadReference if rate_is_unchecked => {
            fixes.extend(["measure", "enable-hpet", "tsc=recalibrate"]);
            forbids.push("tsc=reliable");
        }
        Label::WatchdogBadReference => fixes.extend(no_watchdog(machine)),
        Label::NeedsRateMeasurement => fixes.push("measure"),
        Label::TscWatchdogSkew => {
            fixes.extend(["measure", "reboot"]);
            if rate_is_unchecked {
                forbids.push("tsc=reliable");
            } else {
                fixes.extend(no_watchdog(machine));
            }
        }
        _ => {}
    }
    Remedy { fixes, forbids }
}
