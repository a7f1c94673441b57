//! KVM, QEMU, Firecracker: kvm-clock, and the TSC that the host passes through.

use super::flag_evidence;
use crate::rules::watchdog::figures::count;
use crate::rules::{
    Event, EventKind, Evidence, Facts, Finding, Fix, Label, Severity, State, UnstableReason,
    Verdict, lists_tsc, platform,
};

/// Evidence of kvm-clock: a line of its driver, or its name in a list.
pub(super) fn clock_evidence(facts: &Facts) -> Option<Evidence> {
    let names = |event: &&Event| match &event.kind {
        EventKind::KvmClock => true,
        kind => kind.clocksources().any(|name| name == "kvm-clock"),
    };
    let logged = facts.events().find(names).map(|event| &event.evidence);
    let current = facts.current.as_ref().filter(|current| current.value == "kvm-clock");
    let listed = facts.available.as_ref().filter(|_| facts.lists("kvm-clock") == Some(true));
    let file = current.map(|current| &current.evidence).or(listed.map(|list| &list.evidence));
    file.or(logged).cloned()
}

/// A line showing that the host does not keep the virtual CPUs' counters together. Such a host cannot set the stable
/// bit (`kvm_track_tsc_matching` in `arch/x86/kvm/x86.c`).
pub(in crate::rules) fn breaks_kvm_clock(facts: &Facts) -> Option<&Event> {
    let is_apart = |kind: &EventKind| match kind {
        EventKind::HotAdded => true,
        EventKind::Unstable { reason: UnstableReason::SyncCheck, is_whole, .. } => *is_whole,
        // The line after it has the figure.
        EventKind::SyncCheck(_) => false,
        kind => kind.is_warp(),
    };
    facts.logged(is_apart).or_else(|| facts.logged(EventKind::is_warp))
}

pub(super) fn clock_present(facts: &Facts, _: &Verdict) -> Option<Finding> {
    let evidence = clock_evidence(facts)?;
    Some(Finding::new(Label::KvmClockPresent).seen(&evidence))
}

pub(super) fn clock_without_vdso(facts: &Facts, verdict: &Verdict) -> Option<Finding> {
    let clock = clock_evidence(facts)?;
    // Its rating is higher than that of all other clocksources that remain after tsc was given up.
    let current = verdict.source.as_deref().is_none_or(|name| name == "kvm-clock");
    let settled = facts.falls_back();
    if !current || settled == Some(false) {
        return None;
    }
    let found = Finding::new(Label::KvmClockNoVdsoSuspected).seen(&clock);
    let listed = facts.available.as_ref().filter(|list| !list.value.is_empty());
    let absent = listed.filter(|_| lists_tsc(facts) == Some(false));
    let broken = breaks_kvm_clock(facts);
    let found = match (broken, absent) {
        (Some(event), _) => {
            let cycles = match event.kind {
                EventKind::Warp(cycles) => format!(" by {} ticks", count(cycles)),
                _ => String::new(),
            };
            found.seen(&event.evidence).tell_with("apart", &[("cycles", &cycles)])
        }
        (None, Some(list)) if verdict.source.is_some() => {
            found.seen(&list.evidence).tell_with("only", &[("names", &list.value.join(" and "))])
        }
        _ => return None,
    };
    let found = found.fix(&[Fix::Measure, Fix::HostTsc, Fix::Invtsc]);
    Some(found.follows(match broken.map(|event| &event.kind) {
        Some(EventKind::HotAdded) => Label::TscWarpHotplug,
        Some(_) => Label::TscWarp,
        None => Label::TscAbsent,
    }))
}

/// The guest's CPU model has no invariant TSC, and the kernel gave tsc up because of that.
pub(super) fn lacks_invtsc(facts: &Facts, verdict: &Verdict) -> Option<Finding> {
    let of_others = ["hyperv", "xen", "vmware", "virtualbox"];
    let other = verdict.platforms.iter().any(|name| of_others.contains(name));
    if !platform::has_hypervisor(facts, &verdict.platforms) || other {
        return None;
    }
    use UnstableReason::{HaltsBelowC2, HaltsInC1e, HaltsInIdle, Unsynchronized};
    let unseen = |kind: &EventKind| match kind {
        EventKind::Unstable { reason, is_whole: true, .. } => {
            matches!(reason, Unsynchronized | HaltsInIdle | HaltsInC1e | HaltsBelowC2)
        }
        _ => false,
    };
    let refused = facts.logged(unseen);
    let found = Finding::new(Label::GuestLacksInvtsc);
    let found = match refused {
        Some(event) => found.seen(&event.evidence).tell("unstated"),
        // The kernel lists tsc, and so has not refused it: slowness has another reason.
        None if verdict.state == State::Fast || lists_tsc(facts) == Some(true) => return None,
        None => {
            let lacks = |name: &&&str| facts.cpu.flag(name) == Some(false);
            let missing: Vec<&str> =
                ["constant_tsc", "nonstop_tsc"].iter().filter(lacks).copied().collect();
            if missing.is_empty() {
                return None;
            }
            let words = missing.join(" and no ");
            let found = found.seen(&flag_evidence(facts, &format!("no {words}")));
            found.tell_with("lacks", &[("words", &words)])
        }
    };
    // A guest that reads kvm-clock through the vDSO needs no change.
    let fast = verdict.state == State::Fast;
    let found = if fast { found.severity(Severity::Note) } else { found };
    Some(found.fix(&[Fix::Invtsc, Fix::KvmClock]).forbid(&[Fix::TscReliable, Fix::TscNowatchdog]))
}

pub(super) fn snapshots(facts: &Facts, verdict: &Verdict) -> Option<Finding> {
    if !verdict.platforms.contains(&"firecracker") {
        return None;
    }
    let found = Finding::new(Label::SnapshotRestoreRisk);
    let absent = facts.logged(|kind| *kind == EventKind::DmiAbsent);
    let found = found.seen_all(clock_evidence(facts).as_ref());
    Some(found.seen_all(absent.map(|event| &event.evidence)).tell("firecracker"))
}
