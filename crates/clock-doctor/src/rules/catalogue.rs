//! Every label and every fix that doctor knows, as data.

mod fix;
mod fixes;
mod hardware;
mod harmless;
mod label;
mod measured;
mod platform;
mod refused;
mod selection;
mod states;
mod watchdog;

#[cfg(test)]
mod completeness_tests;

pub use fix::Fix;
pub use fixes::FIXES;
pub use label::Label;

use super::finding::Severity;

/// Defines an enum whose values print as the name that stands behind each.
macro_rules! named {
    ($(#[$doc:meta])* pub enum $all:ident { $($one:ident = $name:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $all {
            $(#[doc = concat!("Prints as `", $name, "`; its row says what it is.")] $one,)+
        }

        impl $all {
            /// Each once, in the order of docs/labels.md.
            pub const ALL: [$all; [$($name),+].len()] = [$($all::$one),+];

            /// The name that it prints as.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $($all::$one => $name,)+
                }
            }

            /// The one of that name.
            #[must_use]
            pub fn named(name: &str) -> Option<$all> {
                $all::ALL.into_iter().find(|one| one.name() == name)
            }
        }

        impl std::fmt::Display for $all {
            fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl serde::Serialize for $all {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(self.name())
            }
        }

        impl<'de> serde::Deserialize<'de> for $all {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<$all, D::Error> {
                let name = String::deserialize(from)?;
                let unknown = || serde::de::Error::custom(format!("`{name}` is not known"));
                $all::named(&name).ok_or_else(unknown)
            }
        }
    };
}
use named;

/// All that is known of a label, whatever the machine.
#[derive(Clone, Copy, Debug)]
pub struct LabelRow {
    /// Whose row it is.
    pub label: Label,
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
    /// What is concluded where it was found.
    pub(crate) bearing: Bearing,
}

/// What a label means to the other findings and to the advice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bearing {
    /// Rather a cause (high) or a consequence (low).
    pub(crate) weight: u8,
    /// What it follows from if its rule does not say: the first of these that was found.
    pub(crate) follows: &'static [Label],
    /// Why something is done, as a clause, where the title is none or could be said better.
    pub(crate) clause: &'static str,
    /// What must never be advised after it, and is told so.
    pub(crate) forbids: &'static [Fix],
    /// What must not be advised either, though only some of its rules tell so.
    pub(crate) also_forbids: &'static [Fix],
    /// Why the TSC must not be forced after it.
    pub(crate) never: Option<Never>,
    /// What is decided by it.
    pub(crate) says: &'static [Says],
}

/// The bearing of a label that decides nothing.
pub(crate) const PLAIN: Bearing = Bearing {
    weight: 50,
    follows: &[],
    clause: "",
    forbids: &[],
    also_forbids: &[],
    never: None,
    says: &[],
};

/// Everything that makes the kernel trust the TSC, or use it.
pub(crate) const TRUST: &[Fix] =
    &[Fix::TscReliable, Fix::TscNowatchdog, Fix::ClocksourceTsc, Fix::SwitchToTsc];

/// Why the TSC must not be forced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Never {
    /// Of several that were found, the one with the least counts.
    pub(crate) place: u8,
    /// What is told.
    pub(crate) order: Order,
}

/// An order that reads on after `Never:`, and ends with the reason.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order {
    /// Goes on after `add`, or `keep` where tsc=reliable is set.
    Add(&'static str),
    /// Whole as it stands.
    Do(&'static str),
}

/// What a label says that something else is decided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Says {
    /// The TSC's time is wrong, or is likely to be.
    TscIsWrong,
    /// The TSC's time may be wrong until the CPUs have been compared.
    OffsetsAreOpen,
    /// The TSC's time may be wrong until its rate has been measured.
    RateIsOpen,
    /// A rate that the watchdog's reference shows is not to be believed as it stands.
    RateIsDoubtful,
    /// The watchdog's own numbers speak for the TSC.
    TscIsAcquitted,
    /// The kernel compared the CPUs' counters, which tsc=nowatchdog leaves in place.
    CpusWereCompared,
    /// Why the kernel gave the TSC up.
    WhyTscIsGone,
    /// Writing tsc to `current_clocksource` changes nothing until the next boot.
    TscIsGoneUntilBoot,
    /// That something happened rather than why.
    EffectOnly,
    /// No cause of slowness, however slow it is.
    NoCauseOfSlowness,
    /// There is no vDSO, or none that clockscope could stand in for.
    NoVdso,
    /// Only a measurement on the machine shows whether the vDSO reads the clock.
    VdsoIsOpen,
    /// The kernel's log would tell more.
    LogIsWanted,
}

/// A fix: what can be advised.
#[derive(Clone, Copy, Debug)]
pub struct FixRow {
    /// Whose row it is.
    pub fix: Fix,
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
    pub labels: &'static [LabelRow],
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

/// The row of each label, at the label's place: a label without a row, or with two, does not compile.
static ROWS: [&LabelRow; Label::ALL.len()] = {
    let mut rows = [&GROUPS[0].labels[0]; Label::ALL.len()];
    let mut count = 0;
    let mut group = 0;
    while group < GROUPS.len() {
        let labels = GROUPS[group].labels;
        let mut at = 0;
        while at < labels.len() {
            rows[labels[at].label as usize] = &labels[at];
            at += 1;
        }
        count += at;
        group += 1;
    }
    assert!(count == rows.len(), "a label has no row, or two");
    while count > 0 {
        count -= 1;
        assert!(rows[count].label as usize == count, "a label has no row");
    }
    rows
};

impl Label {
    /// What is known of it.
    #[must_use]
    pub fn row(self) -> &'static LabelRow {
        ROWS[self as usize]
    }
}

/// Each fix's row stands at its place, or this does not compile.
const _: () = {
    assert!(FIXES.len() == Fix::ALL.len(), "a fix has no row, or two");
    let mut at = 0;
    while at < FIXES.len() {
        assert!(FIXES[at].fix as usize == at, "a fix's row is not at its place");
        at += 1;
    }
};

impl Fix {
    /// What is known of it.
    #[must_use]
    pub fn row(self) -> &'static FixRow {
        &FIXES[self as usize]
    }
}
