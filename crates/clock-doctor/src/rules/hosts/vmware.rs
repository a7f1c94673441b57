//! VMware, and other platforms that guarantee a good TSC.

use super::flag_evidence;
use crate::facts::Facts;
use crate::log::event::{Event, EventKind, UnstableReason};
use crate::rules::catalogue::{Fix, Label};
use crate::rules::finding::{Finding, Verdict};
use crate::rules::state::source::is_tsc;

/// The findings of these rules.
pub(super) fn find(facts: &Facts, verdict: &Verdict) -> Vec<Finding> {
    trusted(facts).into_iter().chain(guest_support_missing(facts, verdict)).collect()
}

fn rate_line(facts: &Facts) -> Option<&Event> {
    facts.logged(|kind| matches!(kind, EventKind::RateFromHypervisor(_)))
}

/// Whether the hypervisor, or the CPU of a confidential guest, guarantees a good TSC.
pub(in crate::rules) fn vouches_for_tsc(facts: &Facts) -> bool {
    trusted(facts).is_some()
}

fn trusted(facts: &Facts) -> Option<Finding> {
    let flag = facts.cpu.flag("tsc_reliable") == Some(true);
    let line = rate_line(facts);
    let keeps =
        |event: &&Event| matches!(event.kind, EventKind::Confidential { keeps_tsc: true, .. });
    let confidential = facts.events().find(keeps);
    let tdx = facts.cpu.flag("tdx_guest") == Some(true);
    if !flag && line.is_none() && confidential.is_none() && !tdx {
        return None;
    }
    let mut found = Finding::new(Label::TscTrustedByHypervisor);
    if let Some(event) = confidential {
        found = found.seen(&event.evidence);
    } else if tdx {
        found = found.seen(&flag_evidence(facts, "tdx_guest"));
    }
    if tdx || confidential.is_some() {
        let by = match confidential.map(|event| &event.kind) {
            Some(EventKind::Confidential { by, .. }) => by,
            _ => "Intel TDX",
        };
        found = found.tell_with("by", &[("by", &by)]);
    }
    if let Some(event) = line {
        found = found.seen(&event.evidence);
        if let EventKind::RateFromHypervisor(mhz) = event.kind {
            found = found.tell_with("states", &[("mhz", &mhz)]);
        }
    }
    if flag {
        found = found.seen(&flag_evidence(facts, "tsc_reliable"));
    }
    let skipped = facts.logged(|kind| *kind == EventKind::SyncSkipped);
    if let Some(event) = skipped {
        found = found
            .seen(&event.evidence)
            .detail("So it did not compare the CPUs' counters at boot either.");
    }
    Some(found)
}

/// A kernel with VMware support does not watch tsc by the watchdog there.
fn guest_support_missing(facts: &Facts, verdict: &Verdict) -> Option<Finding> {
    if !verdict.platforms.contains(&"vmware") || facts.cpu.flag("tsc_reliable") == Some(true) {
        return None;
    }
    let knows = |kind: &EventKind| match kind {
        EventKind::RateFromHypervisor(_) | EventKind::NoRateFromHypervisor => true,
        EventKind::Hypervisor(name) | EventKind::Paravirtualised(name) => name.contains("VMware"),
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
    let found = dmi.iter().fold(found, |found, sign| found.seen(&sign.evidence));
    let found = found.tell("no-support");
    Some(found.fix(&[Fix::GuestSupport, Fix::TscReliable]))
}
