//! The fixes that a label suggests on this machine, and those that it rules out.

use super::machine::Machine;
use crate::rules::catalogue::{Fix, Label, TRUST};

/// Fixes that a label suggests, and fixes that it rules out.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Remedy {
    /// The suggested fixes, best first.
    pub fixes: Vec<Fix>,
    /// The ruled-out fixes, in the order of the report.
    pub forbids: Vec<Fix>,
}

/// Fixes that disable the watchdog for the TSC: `tsc=nowatchdog` if the kernel supports it, which keeps the check of
/// the CPUs' counters; else `tsc=reliable`, which 4.16 to 5.4 ignored for `tsc-early`.
pub(crate) fn no_watchdog(machine: &Machine) -> Vec<Fix> {
    match (machine.has_nowatchdog(), machine.since(3, 3)) {
        (Some(true) | None, _) => vec![Fix::TscNowatchdog],
        (Some(false), Some(true)) => vec![Fix::Measure, Fix::TscReliable],
        (Some(false), _) => vec![Fix::NewerKernel],
    }
}

/// The remedy for `label`.
pub(crate) fn of(label: Label, machine: &Machine, rate_is_unchecked: bool) -> Remedy {
    let mut fixes = Vec::new();
    let mut forbids = Vec::new();
    let vm = |fixes: &[Fix]| if machine.is_virtual { fixes.to_vec() } else { Vec::new() };
    match label {
        Label::WatchdogFalsePositiveLikely | Label::TscWatchdogGlitch => {
            fixes.extend(no_watchdog(machine));
            fixes.push(Fix::Reboot);
        }
        Label::WatchdogCounterWrapped | Label::WatchdogReadsTorn => {
            fixes.push(Fix::FindStall);
            fixes.extend(vm(&[Fix::PinVcpus, Fix::KvmClock]));
            fixes.extend(no_watchdog(machine));
        }
        Label::TscWatchdogLongInterval => {
            fixes.push(Fix::FindStall);
            fixes.extend(vm(&[Fix::PinVcpus]));
            fixes.extend(no_watchdog(machine));
        }
        Label::TscWatchdogReaddelay => {
            if machine.since(6, 12) != Some(true) {
                fixes.push(Fix::NewerKernel);
            }
            fixes.extend(no_watchdog(machine));
            fixes.extend(vm(&[Fix::PinVcpus]));
        }
        Label::TscWatchdogShortInterval | Label::VmPaused => {
            if machine.source.as_deref() == Some("kvm-clock") {
                fixes.push(Fix::Keep);
            }
            fixes.extend([Fix::Reboot, Fix::TscNowatchdog]);
        }
        Label::TscWentBackwards | Label::AfterResume => {
            fixes.extend(vm(&[Fix::SuspendGuests, Fix::KvmClock]));
            if !machine.is_virtual {
                fixes.push(Fix::BiosUpdate);
            }
            fixes.push(Fix::Reboot);
            if label == Label::AfterResume {
                forbids.extend(TRUST);
            }
        }
        Label::TscJumped => fixes.extend([Fix::Measure, Fix::FindStall]),
        Label::PerCpuSyncSuspicious | Label::TscWarpRuntime => {
            fixes.push(Fix::Measure);
            fixes.extend(if machine.is_virtual { [Fix::PinVcpus] } else { [Fix::BiosUpdate] });
        }
        Label::WatchdogBadReference if rate_is_unchecked => {
            fixes.extend([Fix::Measure, Fix::EnableHpet, Fix::TscRecalibrate]);
            forbids.push(Fix::TscReliable);
        }
        Label::WatchdogBadReference => fixes.extend(no_watchdog(machine)),
        Label::NeedsRateMeasurement => fixes.push(Fix::Measure),
        Label::TscWatchdogSkew => {
            if machine.source.as_deref() == Some("kvm-clock") {
                fixes.push(Fix::Keep);
            }
            fixes.extend([Fix::Measure, Fix::Reboot]);
            if rate_is_unchecked {
                forbids.push(Fix::TscReliable);
            } else {
                fixes.extend(no_watchdog(machine));
            }
        }
        _ => {}
    }
    Remedy { fixes, forbids }
}
