//! The kernel's comparison of the CPUs' counters after a mark.

use super::machine::Machine;
use super::remedies;
use crate::facts::Facts;
use crate::log::event::EventKind;
use crate::rules::catalogue::Label;
use crate::rules::finding::Finding;

/// The finding `per-cpu-sync-suspicious`, from `CPUs LIST ahead of CPU N`.
pub(crate) fn find(facts: &Facts, machine: &Machine) -> Option<Finding> {
    let mut found: Option<Finding> = None;
    for event in facts.events() {
        let EventKind::CpusApart { cpus, is_ahead } = &event.kind else { continue };
        let finding = found.unwrap_or_else(|| {
            let remedy = remedies::of(Label::PerCpuSyncSuspicious, machine, false);
            let label = Label::PerCpuSyncSuspicious;
            let mut new = Finding::new(label).fix(&remedy.fixes).forbid(&remedy.forbids);
            if machine.platforms.contains(&"xen") {
                new = new.detail("Under nested Xen this comparison gives false alarms.");
            }
            new
        });
        let way = if *is_ahead { "ahead of" } else { "behind" };
        let one = if cpus.contains([',', '-']) { "CPUs" } else { "CPU" };
        found = Some(
            finding
                .seen(&event.evidence)
                .tell_with("apart", &[("one", &one), ("cpus", &cpus), ("way", &way)]),
        );
    }
    found
}
