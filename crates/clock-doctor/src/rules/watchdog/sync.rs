//! The kernel's comparison of the CPUs' counters after a mark.

use super::machine::Machine;
use super::remedies;
use crate::rules::{EventKind, Facts, Finding, Label};

/// The finding `per-cpu-sync-suspicious`, from `CPUs LIST ahead of CPU N`.
pub(crate) fn find(facts: &Facts, machine: &Machine) -> Option<Finding> {
    let apart = facts.events().filter_map(|event| match &event.kind {
        EventKind::CpusApart { cpus, is_ahead } => Some((&event.evidence, cpus, is_ahead)),
        _ => None,
    });
    let mut apart = apart.peekable();
    apart.peek()?;
    let new = remedies::add(Finding::new(Label::PerCpuSyncSuspicious), machine, false);
    let new = new.tell_if(machine.platforms.contains(&"xen"), "xen");
    Some(apart.fold(new, |finding, (line, cpus, is_ahead)| {
        let way = if *is_ahead { "ahead of" } else { "behind" };
        let one = if cpus.contains([',', '-']) { "CPUs" } else { "CPU" };
        finding.seen(line).tell_with("apart", &[("one", &one), ("cpus", cpus), ("way", &way)])
    }))
}
