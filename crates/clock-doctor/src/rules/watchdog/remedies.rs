//! The fixes that a label suggests on this machine, and those that it rules out.

use super::machine::Machine;
use crate::rules::age::kernel_since;
use crate::rules::{Finding, Fix, Label, TRUST};

/// Fixes that disable the watchdog for the TSC: `tsc=nowatchdog` if the kernel supports it, which keeps the check of
/// the CPUs' counters; else `tsc=reliable`, which 4.16 to 5.4 ignored for `tsc-early`.
fn no_watchdog(machine: &Machine) -> &'static [Fix] {
    match (kernel_since(machine.facts, (5, 2), Some(8)), machine.since(3, 3)) {
        (Some(true) | None, _) => &[Fix::TscNowatchdog],
        (Some(false), Some(true)) => &[Fix::Measure, Fix::TscReliable],
        (Some(false), _) => &[Fix::NewerKernel],
    }
}

/// Adds the fixes that the finding's label suggests, best first, and those that it rules out.
pub(crate) fn add(finding: Finding, machine: &Machine, rate_is_unchecked: bool) -> Finding {
    use Fix::*;
    use Label::*;
    let when = |applies: bool, fixes: &'static [Fix]| if applies { fixes } else { &[] };
    let vm = |fixes| when(machine.is_virtual, fixes);
    let no_watchdog = no_watchdog(machine);
    let keep = when(machine.verdict.source.as_deref() == Some("kvm-clock"), &[Keep]);
    let bios_update = when(!machine.is_virtual, &[BiosUpdate]);
    let newer_kernel = when(machine.since(7, 1) != Some(true), &[NewerKernel]);
    let fixes: Vec<&[Fix]> = match finding.label {
        WatchdogFalsePositiveLikely | TscWatchdogGlitch => vec![no_watchdog, &[Reboot]],
        WatchdogCounterWrapped | WatchdogReadsTorn => {
            vec![&[FindStall], vm(&[PinVcpus, KvmClock]), no_watchdog]
        }
        TscWatchdogLongInterval => vec![&[FindStall], vm(&[PinVcpus]), no_watchdog],
        TscWatchdogReaddelay => vec![no_watchdog, newer_kernel, vm(&[PinVcpus])],
        TscWatchdogShortInterval | VmPaused => vec![keep, &[Reboot, TscNowatchdog]],
        TscWentBackwards | AfterResume => {
            vec![vm(&[SuspendGuests, KvmClock]), bios_update, &[Reboot]]
        }
        TscJumped => vec![&[Measure, FindStall]],
        PerCpuSyncSuspicious | TscWarpRuntime => vec![&[Measure], vm(&[PinVcpus]), bios_update],
        WatchdogBadReference if rate_is_unchecked => vec![&[Measure, EnableHpet, TscRecalibrate]],
        WatchdogBadReference => vec![no_watchdog],
        NeedsRateMeasurement => vec![&[Measure]],
        TscWatchdogSkew if rate_is_unchecked => vec![keep, &[Measure, Reboot]],
        TscWatchdogSkew => vec![keep, &[Measure, Reboot], no_watchdog],
        _ => vec![],
    };
    let forbids = match finding.label {
        AfterResume => TRUST,
        WatchdogBadReference | TscWatchdogSkew => when(rate_is_unchecked, &[TscReliable]),
        _ => &[],
    };
    finding.fix(&fixes.concat()).forbid(forbids)
}
