//! VMware, and other platforms that guarantee a good TSC.

use super::flag_evidence;
use crate::rules::{EventKind, Facts, Finding, Fix, Label, UnstableReason, Verdict, is_tsc};

/// Whether the hypervisor, or the CPU of a confidential guest, guarantees a good TSC.
pub(in crate::rules) fn vouches_for_tsc(facts: &Facts) -> bool {
    trusted(facts).is_some()
}

pub(super) fn trusted(facts: &Facts) -> Option<Finding> {
    let flag = facts.cpu.flag("tsc_reliable") == Some(true);
    let line = facts.events().find_map(|event| match event.kind {
        EventKind::RateFromHypervisor(mhz) => Some((&event.evidence, mhz)),
        _ => None,
    });
    let confidential = facts.events().find_map(|event| match event.kind {
        EventKind::Confidential(by) => Some((event.evidence.clone(), by)),
        _ => None,
    });
    let tdx = facts.cpu.flag("tdx_guest") == Some(true);
    let confidential =
        confidential.or_else(|| tdx.then(|| (flag_evidence(facts, "tdx_guest"), "Intel TDX")));
    if !flag && line.is_none() && confidential.is_none() {
        return None;
    }
    let mut found = Finding::new(Label::TscTrustedByHypervisor);
    if let Some((evidence, by)) = &confidential {
        found = found.seen(evidence).tell_with("by", &[("by", by)]);
    }
    if let Some((evidence, mhz)) = line {
        found = found.seen(evidence).tell_with("states", &[("mhz", &mhz)]);
    }
    if flag {
        found = found.seen(&flag_evidence(facts, "tsc_reliable"));
    }
    let skipped = facts.logged(|kind| *kind == EventKind::SyncSkipped);
    found = found.seen_all(skipped.map(|event| &event.evidence));
    Some(found.tell_if(skipped.is_some(), "not-compared"))
}

/// A kernel with VMware support does not watch tsc by the watchdog there.
pub(super) fn guest_support_missing(facts: &Facts, verdict: &Verdict) -> Option<Finding> {
    if !verdict.platforms.contains(&"vmware") || facts.cpu.flag("tsc_reliable") == Some(true) {
        return None;
    }
    let knows = |kind: &EventKind| match kind {
        EventKind::RateFromHypervisor(_) | EventKind::NoRateFromHypervisor => true,
        EventKind::Hypervisor(name) => name.contains("VMware"),
        _ => false,
    };
    if facts.logged(knows).is_some() {
        return None;
    }
    let marks = |kind: &EventKind| match kind {
        EventKind::Marked { name, .. } | EventKind::OldDelta { name, .. } => is_tsc(name),
        EventKind::Unstable { reason: UnstableReason::Watchdog, is_whole, .. } => *is_whole,
        _ => false,
    };
    let mark = facts.logged(marks)?;
    let found = Finding::new(Label::VmwareGuestSupportMissing).seen(&mark.evidence);
    let dmi = facts.signs.iter().find(|sign| sign.evidence.text.contains("VMware"));
    let found = found.seen_all(dmi.map(|sign| &sign.evidence)).tell("no-support");
    Some(found.fix(&[Fix::GuestSupport, Fix::TscReliable]))
}
