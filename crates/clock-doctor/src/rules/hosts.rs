//! Rules for individual hypervisors, clouds and kinds of machines.

mod hyperv;
mod kvm;
mod vmware;

pub(super) use self::kvm::breaks_kvm_clock;
pub(super) use self::vmware::vouches_for_tsc;

use super::age::age;
use super::{
    EventKind, Evidence, Facts, Finding, Fix, Kernel, Label, Severity, Verdict, arm, platform,
    watchdog,
};

/// A check that is later by more shows a guest that was not run, in nanoseconds.
const STOOD_NS: i64 = 1_000_000_000;

const RULES: [fn(&Facts, &Verdict) -> Option<Finding>; 15] = [
    kvm::clock_present,
    kvm::clock_without_vdso,
    kvm::lacks_invtsc,
    kvm::snapshots,
    hyperv::unstable_on_purpose,
    hyperv::page_needs_kernel,
    hyperv::wsl_rate,
    |facts, _| vmware::trusted(facts),
    vmware::guest_support_missing,
    missing_nonstop,
    nested_or_overloaded,
    migration_risk,
    old_kernel,
    xen_clock,
    emulated_kernel,
];

/// The findings of these rules.
pub(crate) fn find(facts: &Facts, verdict: &Verdict) -> Vec<Finding> {
    RULES.iter().filter_map(|rule| rule(facts, verdict)).collect()
}

/// Evidence for a flag by itself: the line in the file is far too long to show.
fn flag_evidence(facts: &Facts, names: &str) -> Evidence {
    let file = facts.cpu.flags.as_ref().map(|flags| &flags.evidence.file[..]);
    Evidence::of(file.unwrap_or("proc/cpuinfo"), &format!("flags: {names}"))
}

/// `constant_tsc` without `nonstop_tsc`: the counter may stop in deep sleep.
fn missing_nonstop(facts: &Facts, verdict: &Verdict) -> Option<Finding> {
    let has = |name| facts.cpu.flag(name);
    if has("constant_tsc") != Some(true) || has("nonstop_tsc") == Some(true) {
        return None;
    }
    let words = "constant_tsc, no nonstop_tsc";
    let found = Finding::new(Label::MissingNonstopTsc).seen(&flag_evidence(facts, words));
    let found = found.tell_if(has("nonstop_tsc").is_none(), "cut-list");
    if !platform::has_hypervisor(facts, &verdict.platforms) {
        return Some(found);
    }
    Some(found.tell("hidden").fix(&[Fix::Invtsc]))
}

/// A virtual machine with a watchdog that saw a stall rather than a clock that is off.
fn nested_or_overloaded(facts: &Facts, verdict: &Verdict) -> Option<Finding> {
    if !platform::has_hypervisor(facts, &verdict.platforms) {
        return None;
    }
    let told = watchdog::find(facts, verdict);
    const STALLS: [(Label, &str); 3] = [
        (Label::WatchdogCounterWrapped, "did-not-run"),
        (Label::WatchdogReadsTorn, "between-reads"),
        (Label::TscWatchdogReaddelay, "slow-read"),
    ];
    let seen = |label| told.iter().find(|finding| finding.label == label);
    let stall = STALLS.iter().find_map(|(label, key)| Some((seen(*label)?.evidence.clone(), *key)));
    let is_late = |kind: &EventKind| match *kind {
        EventKind::KeptDelta(ns) | EventKind::LongReadout(Some((ns, _))) => ns > STOOD_NS,
        _ => false,
    };
    let late = || facts.logged(is_late).map(|event| (vec![event.evidence.clone()], "stood-still"));
    let (lines, key) = stall.or_else(late)?;
    let found = Finding::new(Label::NestedOrOverloaded).tell(key);
    // Such a check has no consequence for the clock.
    let found = if key == "stood-still" { found.severity(Severity::Note) } else { found };
    Some(found.seen_all(&lines).fix(&[Fix::PinVcpus]))
}

/// tsc=reliable without a paravirtual clock that would follow a change of rate.
fn migration_risk(facts: &Facts, verdict: &Verdict) -> Option<Finding> {
    let line = facts.line_with("tsc=reliable")?;
    // These platforms scale the counter when they migrate a guest, or do not migrate it to another rate.
    const SCALES: [&str; 7] = ["vmware", "hyperv", "aws", "gce", "bare-metal", "arm64", "arm32"];
    let is = |names: &[&str]| verdict.platforms.iter().any(|name| names.contains(name));
    if kvm::clock_evidence(facts).is_some() || is(&SCALES) {
        return None;
    }
    let found = Finding::new(Label::MigrationRisk).seen(&line.evidence);
    // Red Hat's kernels 5 and 6 divide the tick for guests only.
    let guest = line.value.value("divider").is_some();
    if guest || platform::has_hypervisor(facts, &verdict.platforms) {
        let found = found.tell("unseen");
        return Some(found.fix(&[Fix::KvmClock, Fix::RemoveParameter]).forbid(&[Fix::TscReliable]));
    }
    // Firmware that a kernel complains of is that of a machine of its own.
    let is_machine = facts.logged(|kind| matches!(kind, EventKind::AdjustDiffers(_))).is_some();
    (!is_machine).then(|| found.severity(Severity::Note).tell("if-guest"))
}

/// Rules for kernels before 4.0, which differ from today's.
fn old_kernel(facts: &Facts, _: &Verdict) -> Option<Finding> {
    let age = age(facts);
    if age.at_most >= (4, 0) {
        return None;
    }
    let found = Finding::new(Label::OldKernel).seen_all(&age.evidence);
    let (major, minor) = age.at_most;
    let mut found = match facts.kernel() {
        Some(kernel) => found.tell_with("older", &[("release", &kernel.release)]),
        None => found.tell_with("words", &[("major", &major), ("minor", &minor)]),
    };
    if facts.kernel().and_then(Kernel::el).is_some() {
        found = found.tell("red-hat");
    } else if age.at_most < (3, 3) {
        found = found.tell("before-3.3");
    } else if age.at_least >= (3, 3) {
        found = found.tell("since-3.3");
    }
    Some(found.fix(&[Fix::NewerKernel]))
}

/// Xen's clock: the vDSO reads it only from 4.16 on, and only if Xen permits it.
fn xen_clock(facts: &Facts, verdict: &Verdict) -> Option<Finding> {
    let measured = facts.falls_back();
    if verdict.source.as_deref() != Some("xen") || measured == Some(false) {
        return None;
    }
    let found = Finding::new(Label::VdsoSupportDependsOnKernel).seen_all(&verdict.source_evidence);
    let found = match facts.kernel.as_ref() {
        Some(kernel) if !kernel.value.at_least(4, 16) => found
            .seen(&kernel.evidence)
            .tell_with("before-4.16", &[("release", &kernel.value.release)]),
        Some(kernel) => found.tell_with("since-4.16", &[("release", &kernel.value.release)]),
        None => found.tell("no-version"),
    };
    let unstable = facts.logged(|kind| *kind == EventKind::PvclockUnstable);
    let found = found.seen_all(unstable.map(|event| &event.evidence));
    let slept = facts.logged(|kind| matches!(kind, EventKind::Suspended(_)));
    if let Some(event) = slept {
        let found = found.seen(&event.evidence).tell("sleeps");
        let trust = [Fix::SwitchToTsc, Fix::ClocksourceTsc, Fix::TscReliable];
        return Some(found.fix(&[Fix::Measure]).forbid(&trust));
    }
    if facts.lists("tsc") == Some(false) {
        return Some(found.fix(&[Fix::Measure, Fix::NewerKernel]));
    }
    let found = found.fix(&[Fix::Measure, Fix::SwitchToTsc, Fix::ClocksourceTsc]);
    // EC2 guests do not move to other hosts, and AWS itself advises this for them.
    let aws = verdict.platforms.contains(&"aws");
    Some(if aws { found.fix(&[Fix::TscReliable]) } else { found })
}

/// An emulated kernel, or one that runs as a process: its sysfs says nothing about the real clock.
fn emulated_kernel(facts: &Facts, verdict: &Verdict) -> Option<Finding> {
    let user_mode = facts.measured.as_ref().and_then(|it| it.host.virtualisation.as_deref())
        == Some("uml")
        || facts.cpu.vendor.as_ref().is_some_and(|vendor| vendor.value.contains("User Mode Linux"));
    if !user_mode && !verdict.platforms.contains(&"gvisor") || arm::is_arm(facts) {
        return None;
    }
    let found = Finding::new(Label::EmulatedKernel);
    let found = found.seen_all(facts.kernel.as_ref().map(|kernel| &kernel.evidence));
    Some(found.tell(if user_mode { "user-mode" } else { "gvisor" }))
}
