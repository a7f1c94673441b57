//! The properties that decide which advice fits: a virtual machine or not, and which kernel.

use crate::facts::{Facts, Kernel};
use crate::log::event::EventKind;
use crate::rules::age::{Age, age};
use crate::rules::finding::Verdict;
use crate::rules::platform;

/// A machine, as far as advice depends on it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Machine {
    /// Something says that it is a virtual machine.
    pub is_virtual: bool,
    /// Something says that it is none.
    pub is_physical: bool,
    /// Its platforms, as in [`Verdict::platforms`].
    pub platforms: Vec<&'static str>,
    /// The current clocksource, if known.
    pub source: Option<String>,
    /// The CPU is one of AMD's (or Hygon's): no `TSC_ADJUST`, so no repair and always watched.
    pub is_amd: bool,
    /// The kernel states its release.
    kernel: Option<Kernel>,
    /// Its version, or between which ones it lies by the words of its log.
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
            kernel: facts.kernel().cloned(),
            age: age(facts),
        }
    }

    /// Whether the kernel is that version or a later one; `None` if it cannot be told.
    pub(crate) fn since(&self, major: u32, minor: u32) -> Option<bool> {
        self.age.since(major, minor)
    }

    /// Whether the kernel understands `tsc=nowatchdog`: 5.2 and later, and Red Hat's from 8 on;
    /// `None` if it cannot be told.
    pub(crate) fn has_nowatchdog(&self) -> Option<bool> {
        let el = self.kernel.as_ref().and_then(Kernel::el);
        if el.is_some_and(|release| release >= 8) { Some(true) } else { self.since(5, 2) }
    }

    /// The kernel in words: its release, or between which versions its log's words lie.
    pub(crate) fn kernel_in_words(&self) -> String {
        let stated = self.kernel.as_ref().map(|kernel| format!("kernel {}", kernel.release));
        stated.unwrap_or_else(|| self.age.in_words())
    }
}
