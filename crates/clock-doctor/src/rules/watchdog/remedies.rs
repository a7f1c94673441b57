//! The fixes that a label suggests on this machine, and those that it rules out.

use super::machine::Machine;
use crate::rules::{Finding, Fix, Label, TRUST};

/// Fixes that disable the watchdog for the TSC: `tsc=nowatchdog` if the kernel supports it, which keeps the check of
/// the CPUs' counters; else `tsc=reliable`, which 4.16 to 5.4 ignored for `tsc-early`.
fn no_watchdog(machine: &Machine) -> &'static [Fix] {
    match (machine.has_nowatchdog, machine.since(3, 3)) {
        (Some(true) | None, _) => &[Fix::TscNowatchdog],
        (Some(false), Some(true)) => &[Fix::Measure, Fix::TscReliable],
        (Some(false), _) => &[Fix::NewerKernel],
    }
}

/// Adds the fixes that the finding's label suggests, best first, and those that it rules out.
pub(crate) fn add(finding: Finding, machine: &Machine, rate_is_unchecked: bool) -> Finding {
    let when = |applies: bool, fixes: &'static [Fix]| if applies { fixes } else { &[] };
    let vm = |fixes| when(machine.is_virtual, fixes);
    let no_watchdog = no_watchdog(machine);
    let keep = when(machine.source.as_deref() == Some("kvm-clock"), &[Fix::Keep]);
    match finding.label {
        Label::WatchdogFalsePositiveLikely | Label::TscWatchdogGlitch => {
            finding.fix(no_watchdog).fix(&[Fix::Reboot])
        }
        Label::WatchdogCounterWrapped | Label::WatchdogReadsTorn => {
            finding.fix(&[Fix::FindStall]).fix(vm(&[Fix::PinVcpus, Fix::KvmClock])).fix(no_watchdog)
        }
        Label::TscWatchdogLongInterval => {
            finding.fix(&[Fix::FindStall]).fix(vm(&[Fix::PinVcpus])).fix(no_watchdog)
        }
        Label::TscWatchdogReaddelay => finding
            .fix(no_watchdog)
            .fix(when(machine.since(7, 1) != Some(true), &[Fix::NewerKernel]))
            .fix(vm(&[Fix::PinVcpus])),
        Label::TscWatchdogShortInterval | Label::VmPaused => {
            finding.fix(keep).fix(&[Fix::Reboot, Fix::TscNowatchdog])
        }
        label @ (Label::TscWentBackwards | Label::AfterResume) => finding
            .fix(vm(&[Fix::SuspendGuests, Fix::KvmClock]))
            .fix(when(!machine.is_virtual, &[Fix::BiosUpdate]))
            .fix(&[Fix::Reboot])
            .forbid(when(label == Label::AfterResume, TRUST)),
        Label::TscJumped => finding.fix(&[Fix::Measure, Fix::FindStall]),
        Label::PerCpuSyncSuspicious | Label::TscWarpRuntime => {
            let where_ = if machine.is_virtual { Fix::PinVcpus } else { Fix::BiosUpdate };
            finding.fix(&[Fix::Measure, where_])
        }
        Label::WatchdogBadReference if rate_is_unchecked => finding
            .fix(&[Fix::Measure, Fix::EnableHpet, Fix::TscRecalibrate])
            .forbid(&[Fix::TscReliable]),
        Label::WatchdogBadReference => finding.fix(no_watchdog),
        Label::NeedsRateMeasurement => finding.fix(&[Fix::Measure]),
        Label::TscWatchdogSkew => finding
            .fix(keep)
            .fix(&[Fix::Measure, Fix::Reboot])
            .fix(if rate_is_unchecked { &[] } else { no_watchdog })
            .forbid(when(rate_is_unchecked, &[Fix::TscReliable])),
        _ => finding,
    }
}
