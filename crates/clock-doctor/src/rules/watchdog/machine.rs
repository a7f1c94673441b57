//! The properties that decide which advice fits: virtual or physical machine, and the kernel.

use crate::rules::age::{Age, age};
use crate::rules::{EventKind, Facts, Verdict, platform};

/// The properties of a machine that advice depends on.
pub(crate) struct Machine<'a> {
    /// Its facts.
    pub facts: &'a Facts,
    /// How its clock is read.
    pub verdict: &'a Verdict,
    /// A fact shows that it is a virtual machine.
    pub is_virtual: bool,
    /// A fact shows that it is not a virtual machine.
    pub is_physical: bool,
    /// The CPU is AMD's (or Hygon's): without `TSC_ADJUST`, so the kernel cannot repair it and always watches it.
    pub is_amd: bool,
    /// The kernel's version, or the range of versions that the wording of its log permits.
    age: Age,
}

impl Machine<'_> {
    /// Reads these properties from the facts.
    pub(crate) fn of<'a>(facts: &'a Facts, verdict: &'a Verdict) -> Machine<'a> {
        let vendor = facts.cpu.vendor.iter().chain(&facts.cpu.model);
        let is_amd = |name: &str| name.contains("AMD") || name.contains("Hygon");
        Machine {
            facts,
            verdict,
            is_virtual: platform::is_guest(facts, &verdict.platforms),
            is_physical: verdict.platforms.contains(&"bare-metal"),
            is_amd: vendor.clone().any(|known| is_amd(&known.value))
                || facts.events().any(|event| match &event.kind {
                    EventKind::CpuModel { name, .. } => is_amd(name),
                    _ => false,
                }),
            age: age(facts),
        }
    }

    /// Whether the kernel is that version or a later one; `None` if unknown.
    pub(crate) fn since(&self, major: u32, minor: u32) -> Option<bool> {
        self.age.since(major, minor)
    }

    /// The kernel in words: its release, or the range of versions that its log's wording permits.
    pub(crate) fn kernel_in_words(&self) -> String {
        let stated = self.facts.kernel().map(|kernel| format!("kernel {}", kernel.release));
        stated.unwrap_or_else(|| self.age.in_words())
    }
}
