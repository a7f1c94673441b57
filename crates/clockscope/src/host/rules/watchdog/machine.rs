//! What decides which advice fits: a virtual machine or not, and which kernel.

use crate::host::facts::{Facts, Kernel};
use crate::host::log::event::{Kind, Mark};
use crate::host::rules::finding::Verdict;
use crate::host::rules::platform;

/// A machine, as far as advice depends on it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Machine {
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
    /// No older than this, by the words of its log.
    oldest: Option<(u32, u32)>,
    /// No newer than this, by the words of its log.
    newest: Option<(u32, u32)>,
}

impl Machine {
    /// Reads what advice depends on from the facts.
    #[must_use]
    pub fn of(facts: &Facts, verdict: &Verdict) -> Machine {
        let has = |name: &str| verdict.platforms.contains(&name);
        let is_physical = has("bare-metal");
        let is_virtual =
            platform::has_hypervisor(facts, &verdict.platforms) || (has("aws") && !is_physical);
        let vendor = facts.cpu.vendor.iter().chain(&facts.cpu.model);
        let is_amd = |name: &str| name.contains("AMD") || name.contains("Hygon");
        let mut machine = Machine {
            is_virtual,
            is_physical,
            platforms: verdict.platforms.clone(),
            source: verdict.source.clone(),
            is_amd: vendor.clone().any(|known| is_amd(&known.value))
                || facts.events().any(|event| match &event.kind {
                    Kind::CpuModel(name) => is_amd(name),
                    _ => false,
                }),
            kernel: facts.kernel().cloned(),
            oldest: None,
            newest: None,
        };
        for event in facts.events() {
            machine.narrow(&event.kind, &event.evidence.text);
        }
        machine
    }

    /// Whether the kernel is that version or a later one; `None` if it cannot be told.
    #[must_use]
    pub fn since(&self, major: u32, minor: u32) -> Option<bool> {
        let wanted = (major, minor);
        if let Some(kernel) = &self.kernel {
            return Some(kernel.version >= wanted);
        }
        match (self.oldest, self.newest) {
            (Some(oldest), _) if oldest >= wanted => Some(true),
            (_, Some(newest)) if newest < wanted => Some(false),
            _ => None,
        }
    }

    /// Whether the kernel understands `tsc=nowatchdog`: 5.2 and later, and Red Hat's from 8 on;
    /// `None` if it cannot be told.
    #[must_use]
    pub fn has_nowatchdog(&self) -> Option<bool> {
        let el = self.kernel.as_ref().and_then(Kernel::el);
        if el.is_some_and(|release| release >= 8) { Some(true) } else { self.since(5, 2) }
    }

    /// The kernel in words: its release, or between which versions its log's words lie.
    #[must_use]
    pub fn kernel_in_words(&self) -> String {
        match (&self.kernel, self.oldest, self.newest) {
            (Some(kernel), ..) => format!("kernel {}", kernel.release),
            (None, Some((major, minor)), None) => {
                format!("a kernel of {major}.{minor} or later, by its log's words")
            }
            (None, None, Some((major, minor))) => {
                format!("a kernel of {major}.{minor} or earlier, by its log's words")
            }
            (None, Some(from), Some(to)) if from <= to => {
                format!(
                    "a kernel of {}.{} to {}.{}, by its log's words",
                    from.0, from.1, to.0, to.1
                )
            }
            _ => "a kernel of unknown version".to_owned(),
        }
    }

    /// Narrows the kernel's version down by what its log says; formats as in
    /// `kernel/time/clocksource.c` and `arch/x86/kernel/tsc.c` of the versions named.
    fn narrow(&mut self, kind: &Kind, text: &str) {
        let (oldest, newest) = match kind {
            Kind::Marked { why: Mark::FrequencySkew | Mark::CpuSkew, .. }
            | Kind::ReferenceInterval { .. }
            | Kind::WatchedInterval { .. } => (Some((7, 1)), None),
            Kind::Marked { .. } if text.contains("watchdog on CPU") => (Some((4, 9)), Some((7, 0))),
            Kind::Marked { .. } if text.contains("watchdog: Marking") => {
                (Some((4, 0)), Some((4, 8)))
            }
            Kind::Reading { nsec: Some(_), .. } => (Some((6, 0)), Some((7, 0))),
            Kind::Skewed { .. } => (Some((6, 2)), Some((7, 0))),
            Kind::OldDelta { .. } => (None, Some((3, 11))),
            Kind::ReadDelay { .. } => (Some((5, 10)), None),
            Kind::Registered { name, .. } if name == "tsc-early" => (Some((4, 16)), None),
            Kind::Registered { .. } => (Some((4, 2)), None),
            Kind::Unstable(reason) if super::episode::says(reason, "clocksource watchdog") => {
                (Some((4, 14)), None)
            }
            Kind::SchedClockUnstable => (Some((4, 14)), None),
            Kind::Unstable(_) if text.contains("tsc: Marking") => (Some((3, 6)), None),
            // Without the prefix, and not cut in front.
            Kind::Unstable(_) if text.starts_with("Marking TSC") => (None, Some((3, 5))),
            Kind::Switched(_) if text.contains("clocksource: Switched") => (Some((4, 2)), None),
            Kind::Switched(_) if text.contains("Switching to") => (None, Some((3, 9))),
            Kind::Switched(_) if text.contains("has been installed") => (None, Some((2, 6))),
            _ => (None, None),
        };
        self.oldest = self.oldest.max(oldest);
        self.newest = match (self.newest, newest) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }
}
