//! Which fixes a label asks for on this machine, and which it forbids.

use super::machine::Machine;
use crate::rules::catalogue::{Fix, Label, TRUST};

/// Fixes that a label asks for, best first, and fixes that must not be advised because of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Remedy {
    /// Best first.
    pub fixes: Vec<Fix>,
    /// In the order in which they are told.
    pub forbids: Vec<Fix>,
}

/// Keeps the watchdog off: `tsc=nowatchdog` where the kernel knows it, which leaves the check
/// of the CPUs' counters alive; else `tsc=reliable`, which 4.16 to 5.4 ignored for `tsc-early`.
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
