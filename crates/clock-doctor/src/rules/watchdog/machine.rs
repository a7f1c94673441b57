//! The properties that decide which advice fits: virtual or physical machine, and the kernel.

use crate::rules::age::{Age, age, kernel_since};
use crate::rules::{EventKind, Facts, Kernel, Verdict, platform};

/// The properties of a machine that advice depends on.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Machine {
    /// A fact shows that it is a virtual machine.
    pub is_virtual: bool,
    /// A fact shows that it is not a virtual machine.
    pub is_physical: bool,
    /// Its platforms, as in [`Verdict::platforms`].
    pub platforms: Vec<&'static str>,
    /// The current clocksource, if known.
    pub source: Option<String>,
    /// The CPU is AMD's (or Hygon's): without `TSC_ADJUST`, so the kernel cannot repair it and always watches it.
    pub is_amd: bool,
    /// Whether the kernel supports `tsc=nowatchdog`: 5.2 and later, and Red Hat's from 8 on; `None` if unknown.
    pub has_nowatchdog: Option<bool>,
    /// The kernel's release, if stated.
    kernel: Option<Kernel>,
    /// The kernel's version, or the range of versions that the wording of its log permits.
    age: Age,
}

impl Machine {
    /// Reads these properties from the facts.
    pub(crate) fn of(facts: &Facts, verdict: &Verdict) -> Machine {
        let is_physical = verdict.platforms.contains(&"bare-metal");
        let is_virtual = platform::is_guest(facts, &verdict.platforms);
        let vendor = facts.cpu.vendor.iter().chain(&facts.cpu.model);
        let is_amd = |name: &str| name.contains("AMD") || name.contains("Hygon");
        Machine {
            is_virtual,
            is_physical,
            platforms: verdict.platforms.clone(),
            source: verdict.source.clone(),
            is_amd: vendor.clone().any(|known| is_amd(&known.value))
                || facts.events().any(|event| match &event.kind {
                    EventKind::CpuModel { name, .. } => is_amd(name),
                    _ => false,
                }),
            has_nowatchdog: kernel_since(facts, (5, 2), Some(8)),
            kernel: facts.kernel().cloned(),
            age: age(facts),
        }
    }

    /// Whether the kernel is that version or a later one; `None` if unknown.
    pub(crate) fn since(&self, major: u32, minor: u32) -> Option<bool> {
        self.age.since(major, minor)
    }

    /// The kernel in words: its release, or the range of versions that its log's wording permits.
    pub(crate) fn kernel_in_words(&self) -> String {
        let stated = self.kernel.as_ref().map(|kernel| format!("kernel {}", kernel.release));
        stated.unwrap_or_else(|| self.age.in_words())
    }
}
