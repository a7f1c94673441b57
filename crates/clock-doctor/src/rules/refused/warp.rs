//! CPUs with counters that disagreed when a CPU came up.

use crate::rules::watchdog::figures::{count, duration};
use crate::rules::watchdog::machine::Machine;
use crate::rules::watchdog::rates::Rates;
use crate::rules::watchdog::resume::is_soon;
use crate::rules::{
    Event, EventKind, Evidence, Facts, Finding, Fix, Label, Severity, TRUST, UnstableReason,
    gives_tsc_up,
};

/// A smaller warp, in ticks, is about the time that handing over the lock takes.
const SMALL: u64 = 2_000;
/// A warp of this size, in ticks, or more comes from firmware: a thirtieth of a second and more.
const FIRMWARE: u64 = 100_000_000;
/// Time by which all CPUs of the boot are up, in seconds.
const BOOT_S: f64 = 300.0;

/// The log's lines about a failed comparison.
#[derive(Default)]
struct Seen<'a> {
    lines: Vec<&'a Evidence>,
    worst: Option<u64>,
    first: Option<&'a Event>,
    is_random: bool,
    hot_added: Option<&'a Evidence>,
    woke: Option<&'a Evidence>,
}

/// The findings for a warp; none if no line reports one.
pub(crate) fn find(facts: &Facts, machine: &Machine) -> Vec<Finding> {
    let seen = look(facts);
    let Some(first) = seen.first else { return repaired(facts).into_iter().collect() };
    let kind = special(&seen, first, machine);
    let warp = Finding::new(Label::TscWarp).seen_all(seen.lines.iter().copied());
    let mut warp = in_words(warp, &seen, facts, machine);
    warp.follows_from = kind.as_ref().map(|finding| finding.label);
    if kind.is_none() {
        warp = advise(warp, machine);
    }
    let mut findings = vec![warp];
    findings.extend(kind);
    findings
}

/// A CPU that was added and whose counter the kernel set right, by its `TSC_ADJUST`.
fn repaired(facts: &Facts) -> Option<Finding> {
    let added = facts.logged(|kind| *kind == EventKind::HotAdded)?;
    let compensated = facts.events().find_map(|event| match event.kind {
        EventKind::AdjustCompensated(ticks) => Some((event, ticks.unsigned_abs())),
        _ => None,
    });
    let (event, ticks) = compensated?;
    let found = Finding::new(Label::TscWarpHotplug).fix(&[Fix::ColdBoot]);
    let is_lost = facts.events().any(gives_tsc_up);
    let found = if is_lost { found } else { found.severity(Severity::Note) };
    let found = found.seen(&added.evidence).seen(&event.evidence);
    Some(found.tell_with("repaired", &[("ticks", &count(ticks))]))
}

fn look(facts: &Facts) -> Seen<'_> {
    let mut seen = Seen::default();
    let mut added: Option<&Event> = None;
    let mut woke: Option<&Event> = None;
    // The first of the kernel's lines about a failed comparison says enough where the others are cut off.
    let has_figure = |kind: &EventKind| matches!(kind, EventKind::Warp(_) | EventKind::WarpRandom);
    let is_alone = facts.logged(has_figure).is_none();
    for event in facts.events() {
        match &event.kind {
            EventKind::Warp(cycles) => seen.worst = seen.worst.max(Some(*cycles)),
            EventKind::WarpRandom => seen.is_random = true,
            EventKind::SyncCheck(true) if is_alone => {}
            EventKind::Unstable { reason: UnstableReason::SyncCheck, .. } => {}
            EventKind::HotAdded => {
                added = Some(event);
                continue;
            }
            EventKind::Suspended(true) => {
                woke = Some(event);
                continue;
            }
            _ => continue,
        }
        seen.lines.push(&event.evidence);
        if seen.first.is_none() {
            seen.first = Some(event);
            seen.hot_added = added.map(|event| &event.evidence);
            seen.woke = woke.filter(|woke| is_soon(woke, event)).map(|event| &event.evidence);
        }
    }
    seen
}

/// A finding more specific than the warp itself.
fn special(seen: &Seen, first: &Event, machine: &Machine) -> Option<Finding> {
    let is_late = first.at.is_some_and(|at| at > BOOT_S);
    let finding = if seen.hot_added.is_some() || is_late {
        let late = Finding::new(Label::TscWarpHotplug).seen_all(seen.hot_added);
        let late = if seen.woke.is_some() {
            // On waking, the kernel brings the other CPUs up as if they were hot-added.
            late.fix(&[Fix::Reboot, Fix::BiosUpdate]).forbid(TRUST).follows(Label::AfterResume)
        } else {
            late.fix(&[Fix::ColdBoot]).forbid(&[Fix::SwitchToTsc])
        };
        match (seen.hot_added, first.at) {
            (None, Some(at)) => late.tell_with("late", &[("delay", &duration(at * 1e9))]),
            _ => late,
        }
    } else {
        match seen.worst? {
            small if small < SMALL => small_warp(machine),
            large if large >= FIRMWARE && !machine.is_virtual => {
                Finding::new(Label::TscWarpFirmware)
                    .fix(&[Fix::BiosUpdate, Fix::Keep, Fix::PreBootSynchroniser])
                    .tell("programs")
            }
            _ => return None,
        }
    };
    Some(finding.seen_all(seen.lines.iter().copied()))
}

fn small_warp(machine: &Machine) -> Finding {
    let finding = Finding::new(Label::TscWarpSmall).fix(&[Fix::Measure]);
    if machine.is_physical {
        return finding.fix(&[Fix::BiosUpdate]).tell("physical");
    }
    trust_after_measuring(finding, machine).tell_if(machine.is_virtual, "rounded")
}

/// Suggests `tsc=reliable`, after measuring, if the kernel applies it to the comparison of the CPUs.
fn trust_after_measuring(finding: Finding, machine: &Machine) -> Finding {
    match machine.since(3, 3) {
        Some(true) => finding.fix(&[Fix::Measure, Fix::TscReliable]),
        Some(false) => finding
            .fix(&[Fix::NewerKernel, Fix::Measure])
            .forbid(&[Fix::TscReliable])
            .tell_with("before-3.3", &[("kernel", &machine.kernel_in_words())]),
        None => finding.fix(&[Fix::Measure, Fix::TscReliable]).tell("since-3.3"),
    }
}

/// Advice on an ordinary warp, by platform.
fn advise(warp: Finding, machine: &Machine) -> Finding {
    let on = |name: &str| machine.verdict.platforms.contains(&name);
    if machine.is_virtual {
        let host: &[Fix] = if on("virtualbox") {
            &[Fix::ParavirtproviderKvm, Fix::FewerVcpus]
        } else if on("hyperv") || on("azure") {
            &[Fix::NewerKernel]
        } else if on("vmware") {
            &[Fix::GuestSupport]
        } else if on("xen") {
            &[Fix::HostTsc]
        } else {
            &[Fix::HostTsc, Fix::Invtsc]
        };
        return trust_after_measuring(warp.fix(host), machine);
    }
    if machine.is_physical {
        return warp
            .fix(&[Fix::BiosUpdate, Fix::Keep])
            .forbid(&[Fix::TscReliable, Fix::SwitchToTsc])
            .tell("physical");
    }
    // It is unknown whether this is a guest: both kinds of advice, each with its condition. Trusting such a counter is
    // harmful on hardware, so that advice is left out.
    let warp = if machine.since(3, 3) == Some(false) {
        trust_after_measuring(warp, machine)
    } else {
        warp.fix(&[Fix::Measure]).forbid(&[Fix::TscReliable])
    };
    warp.fix(&[Fix::BiosUpdate]).fix(&[Fix::ParavirtproviderKvm, Fix::FewerVcpus]).tell("unknown")
}

fn in_words(mut warp: Finding, seen: &Seen, facts: &Facts, machine: &Machine) -> Finding {
    if let Some(cycles) = seen.worst {
        let rates = Rates::of(facts);
        let time = rates.tsc("tsc").map(|rate| cycles as f64 / rate.hz * 1e9);
        let time = time.map(|ns| format!(", {} at this TSC's rate", duration(ns)));
        let time = time.unwrap_or_default();
        warp = warp.tell_with("ticks", &[("ticks", &count(cycles)), ("time", &time)]);
    }
    warp.tell_if(seen.is_random, "random").tell_if(machine.is_amd && !machine.is_virtual, "amd")
}
