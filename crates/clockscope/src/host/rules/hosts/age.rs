//! The kernel's age by the words of its messages, where nothing tells its version.

use crate::host::facts::{Evidence, Facts};
use crate::host::log::event::{Event, Kind, Mark};

/// Versions between which the kernel lies.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::host::rules) struct Age {
    /// Not before this one.
    pub(in crate::host::rules) at_least: (u32, u32),
    /// Not after this one.
    pub(in crate::host::rules) at_most: (u32, u32),
    /// The line that bounds it from above.
    pub(in crate::host::rules) evidence: Option<Evidence>,
}

const UNBOUNDED: (u32, u32) = (u32::MAX, 0);

/// Brackets the kernel by its version, or by the messages that only some versions print.
#[must_use]
pub(in crate::host::rules) fn age(facts: &Facts) -> Age {
    if let Some(kernel) = &facts.kernel {
        let version = kernel.value.version;
        return Age {
            at_least: version,
            at_most: version,
            evidence: Some(kernel.evidence.clone()),
        };
    }
    let mut age = Age { at_least: (2, 6), at_most: UNBOUNDED, evidence: None };
    for event in facts.events() {
        if let Some(version) = not_before(event) {
            age.at_least = age.at_least.max(version);
        }
        if let Some(version) = not_after(event).filter(|version| *version < age.at_most) {
            age.at_most = version;
            age.evidence = Some(event.evidence.clone());
        }
    }
    age
}

/// Formats of `kernel/time/clocksource.c`, `arch/x86/kernel/tsc.c`: the first version that was read
/// and has them, or the one after the last that was read and has not.
fn not_before(event: &Event) -> Option<(u32, u32)> {
    match &event.kind {
        Kind::Marked { why: Mark::FrequencySkew | Mark::CpuSkew, .. } => Some((7, 1)),
        Kind::Skewed { .. } => Some((6, 1)),
        Kind::Reading { nsec: Some(_), .. } => Some((5, 11)),
        Kind::ReadDelay { .. } | Kind::CpusApart { .. } => Some((5, 13)),
        Kind::Registered { name, .. } | Kind::Switched(name) if name == "tsc-early" => {
            Some((4, 16))
        }
        Kind::SchedClockUnstable => Some((4, 10)),
        Kind::Unstable(why) if why.contains("clocksource watchdog") => Some((4, 10)),
        Kind::Registered { .. } => Some((4, 2)),
        Kind::Switched(_) if event.evidence.text.contains("clocksource: Switched") => Some((4, 2)),
        _ => None,
    }
}

fn not_after(event: &Event) -> Option<(u32, u32)> {
    let text = &event.evidence.text;
    match &event.kind {
        Kind::OldDelta { .. } => Some((3, 11)),
        Kind::Switched(_) if text.contains("has been installed") => Some((2, 6)),
        Kind::Switched(_) if text.contains("Switching to clocksource") => Some((3, 11)),
        // 3.6 put `tsc: ` in front.
        Kind::Unstable(_) if text.starts_with("Marking TSC unstable") => Some((3, 5)),
        Kind::Refined { .. } if text.starts_with("Refined TSC") => Some((3, 5)),
        Kind::SyncSkipped => Some((4, 9)),
        _ => None,
    }
}
