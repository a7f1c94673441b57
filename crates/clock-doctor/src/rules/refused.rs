//! The reason why the kernel refused the TSC without a test (`Marking TSC unstable due to REASON`), or after it compared
//! the CPUs' counters at boot.

pub(crate) mod warp;

use super::watchdog::machine::Machine;
use super::{EventKind, Facts, Finding, Fix, Label, Severity, TRUST, UnstableReason, Verdict};

/// The findings for every reason in the log, except those that other rules judge.
pub(crate) fn find(facts: &Facts, verdict: &Verdict) -> Vec<Finding> {
    let machine = &Machine::of(facts, verdict);
    let mut findings = warp::find(facts, machine);
    for event in facts.events() {
        let EventKind::Unstable { reason, text, is_whole } = &event.kind else { continue };
        // A reason of which too little is left is none: see `selection/missing.rs`.
        if *reason == UnstableReason::Other && !is_whole {
            continue;
        }
        let found = by_reason(*reason, text, machine).into_iter();
        findings.extend(found.map(|finding| finding.seen(&event.evidence)));
    }
    findings
}

/// The findings for a reason; none for reasons of the watchdog, the comparison of CPUs, Hyper-V or a boot parameter.
fn by_reason(reason: UnstableReason, text: &str, machine: &Machine) -> Vec<Finding> {
    use UnstableReason::{
        Backwards, BootParameter, CpuFrequency, HaltsBelowC2, HaltsInC1e, HaltsInIdle, HyperV,
        HyperVOtherwise, NoTsc, NotCalculated, NotCalibrated, Other, SyncCheck, Unsynchronized,
        Watchdog,
    };
    match reason {
        Watchdog | SyncCheck | HyperV | BootParameter | NoTsc => Vec::new(),
        Unsynchronized => unsynchronized(machine),
        HaltsInIdle | HaltsInC1e | HaltsBelowC2 => vec![halts(reason)],
        Backwards => host_backwards(),
        CpuFrequency | NotCalibrated | NotCalculated | HyperVOtherwise | Other => {
            vec![refused(reason, text, machine)]
        }
    }
}

fn unsynchronized(machine: &Machine) -> Vec<Finding> {
    let finding = Finding::new(Label::TscUnsynchronized);
    let fix = if machine.is_virtual { Fix::Invtsc } else { Fix::Keep };
    vec![finding.fix(&[fix]).tell_if(machine.is_virtual, "guest")]
}

fn halts(reason: UnstableReason) -> Finding {
    let finding = Finding::new(Label::TscHaltsInIdle).fix(&[Fix::Keep, Fix::MaxCstate]);
    match reason {
        UnstableReason::HaltsInC1e => finding.tell("c1e"),
        UnstableReason::HaltsBelowC2 => finding.tell("below-c2"),
        _ => finding,
    }
}

/// The findings for a KVM host that saw its counter go back when a CPU came up again, as after a suspend.
fn host_backwards() -> Vec<Finding> {
    let back = Finding::new(Label::TscWentBackwards).follows(Label::AfterResume);
    let resumed =
        Finding::new(Label::AfterResume).fix(&[Fix::BiosUpdate, Fix::Reboot]).forbid(TRUST);
    let host = Finding::new(Label::KvmHostTscBackwards).follows(Label::TscWentBackwards);
    vec![host.fix(&[Fix::SuspendGuests, Fix::BiosUpdate, Fix::Reboot]), back, resumed]
}

fn refused(reason: UnstableReason, text: &str, machine: &Machine) -> Finding {
    let text = text.trim().trim_start_matches(':').trim_end_matches('.').trim();
    let finding = Finding::new(Label::TscRefused).tell_with("reason", &[("reason", &text)]);
    if reason == UnstableReason::CpuFrequency {
        return finding.fix(&[Fix::Keep]).forbid(TRUST).tell("frequency");
    }
    let finding = finding.forbid(&[Fix::TscReliable, Fix::TscNowatchdog]);
    match reason {
        UnstableReason::NotCalculated if !machine.is_physical => {
            let finding = finding.tell("no-timer");
            // The hypervisor's own clock does not need a rate measured by the guest.
            match machine.verdict.source.as_deref() {
                Some("hyperv_clocksource_tsc_page" | "kvm-clock" | "xen") => {
                    finding.severity(Severity::Note).tell("nothing-lost")
                }
                _ => finding.fix(&[Fix::KvmClock, Fix::TscEarlyKhz]),
            }
        }
        UnstableReason::NotCalibrated => {
            let first = if machine.is_virtual { Fix::KvmClock } else { Fix::BiosUpdate };
            finding.fix(&[first, Fix::TscEarlyKhz]).tell("no-rate")
        }
        _ => finding.fix(&[Fix::Keep]),
    }
}
