//! Every label and every fix that doctor knows, as data.

mod fixes;
mod hardware;
mod harmless;
mod measured;
mod platform;
mod refused;
mod selection;
mod states;
mod watchdog;

#[cfg(test)]
mod completeness_tests;

pub use fixes::FIXES;

use super::finding::Severity;

/// A label: what it means, whatever the machine.
#[derive(Clone, Copy, Debug)]
pub struct Label {
    /// Its name, as in the list `labels`.
    pub name: &'static str,
    /// Its usual severity.
    pub severity: Severity,
    /// One line.
    pub title: &'static str,
    /// What it means and why it happens: whole sentences.
    pub explanation: &'static str,
    /// What helps, in words; the machine's own advice has commands.
    pub fix: &'static str,
    /// When not, and what it risks; may be empty.
    pub caveat: &'static str,
    /// Kernel files with version, man pages, threads.
    pub references: &'static [&'static str],
}

/// A fix: what can be advised.
#[derive(Clone, Copy, Debug)]
pub struct Fix {
    /// Its name, as in `fix:NAME`.
    pub name: &'static str,
    /// What it is, in a few words, as an order: `boot with tsc=nowatchdog`.
    pub title: &'static str,
    /// What it does and why that helps: whole sentences.
    pub what: &'static str,
    /// Which kernel or hypervisor has it, as a clause; empty if every one does.
    pub since: &'static str,
    /// What it risks, and when not to: whole sentences; empty if nothing.
    pub risk: &'static str,
    /// The machine or guest has to boot again before it helps.
    pub reboots: bool,
    /// Kernel files with version, documents, threads.
    pub references: &'static [&'static str],
}

/// Labels of one kind.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// Its heading.
    pub title: &'static str,
    /// Its labels, in the order of the page.
    pub labels: &'static [Label],
}

/// All labels.
pub static GROUPS: [Group; 8] = [
    Group { title: "The TSC was refused", labels: refused::LABELS },
    Group { title: "The watchdog", labels: watchdog::LABELS },
    Group { title: "Selection and parameters", labels: selection::LABELS },
    Group { title: "Platforms", labels: platform::LABELS },
    Group { title: "ARM, firmware, other timers", labels: hardware::LABELS },
    Group { title: "This machine, measured", labels: measured::LABELS },
    Group { title: "Harmless", labels: harmless::LABELS },
    Group { title: "States and clocksources", labels: states::LABELS },
];

/// All labels, in the order of the page.
pub fn labels() -> impl Iterator<Item = &'static Label> {
    GROUPS.iter().flat_map(|group| group.labels)
}

/// The label of that name.
#[must_use]
pub fn label(name: &str) -> Option<&'static Label> {
    labels().find(|label| label.name == name)
}

/// The fix of that name.
#[must_use]
pub fn fix(name: &str) -> Option<&'static Fix> {
    FIXES.iter().find(|fix| fix.name == name)
}
