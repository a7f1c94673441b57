//! The kernel's age from the wording of its messages, if its version is unknown.

use super::{Count, Event, EventKind, Evidence, Facts, Kernel, Mark, UnstableReason};

/// Bounds for the kernel's version.
pub(in crate::rules) struct Age {
    /// The lowest possible version.
    pub(in crate::rules) at_least: (u32, u32),
    /// The highest possible version.
    pub(in crate::rules) at_most: (u32, u32),
    /// The line that gives the upper bound.
    pub(in crate::rules) evidence: Option<Evidence>,
}

/// The oldest kernel that doctor knows; every log may be of this one.
const OLDEST: (u32, u32) = (2, 6);
const UNBOUNDED: (u32, u32) = (u32::MAX, 0);

impl Age {
    /// Whether the kernel is that version or a later one; `None` if unknown.
    pub(in crate::rules) fn since(&self, major: u32, minor: u32) -> Option<bool> {
        let wanted = (major, minor);
        match (self.at_least >= wanted, self.at_most < wanted) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        }
    }

    /// The range of versions that a log's wording permits, as a noun.
    pub(in crate::rules) fn in_words(&self) -> String {
        let (from, to) = (self.at_least, self.at_most);
        let bounds = match (from > OLDEST, to < UNBOUNDED) {
            (true, false) => format!("{}.{} or later", from.0, from.1),
            (false, true) => format!("{}.{} or earlier", to.0, to.1),
            (true, true) if from <= to => format!("{}.{} to {}.{}", from.0, from.1, to.0, to.1),
            _ => return "a kernel of unknown version".to_owned(),
        };
        format!("a kernel of {bounds}, by its log's words")
    }
}

/// Whether the kernel is that version, a later one, or `el` of Red Hat; `None` if unknown. Without a version, the wording
/// of the log bounds the kernel's version.
pub(in crate::rules) fn kernel_since(
    facts: &Facts,
    (major, minor): (u32, u32),
    el: Option<u32>,
) -> Option<bool> {
    let has_it = |kernel: &Kernel| el.is_some() && kernel.el() >= el;
    if facts.kernel().is_some_and(has_it) { Some(true) } else { age(facts).since(major, minor) }
}

/// Bounds the kernel's version by its release, or by messages that only some versions print.
pub(in crate::rules) fn age(facts: &Facts) -> Age {
    if let Some(kernel) = &facts.kernel {
        let (version, evidence) = (kernel.value.version, Some(kernel.evidence.clone()));
        return Age { at_least: version, at_most: version, evidence };
    }
    let mut age = Age { at_least: OLDEST, at_most: UNBOUNDED, evidence: None };
    let may_lack_words = facts.log.as_ref().is_some_and(|log| log.may_lack_words);
    for event in facts.events() {
        if let Some(version) = not_before(event) {
            age.at_least = age.at_least.max(version);
        }
        let is_whole = event.at.is_some() || !may_lack_words;
        let version = not_after(event).filter(|version| is_whole && *version < age.at_most);
        if let Some(version) = version {
            age.at_most = version;
            age.evidence = Some(event.evidence.clone());
        }
    }
    if age.at_least > age.at_most {
        // A newer kernel prints its words completely, so a line that looked old has lost its beginning.
        (age.at_most, age.evidence) = (UNBOUNDED, None);
    }
    age
}

/// The text without the stamp.
fn message(event: &Event) -> &str {
    let text = event.evidence.text.as_str();
    let behind = text.strip_prefix('[').and_then(|rest| rest.split_once("] "));
    behind.filter(|_| event.at.is_some()).map_or(text, |(_, words)| words)
}

/// Formats of `kernel/time/clocksource.c` and `arch/x86/kernel/tsc.c`: the first version read that has them, or the
/// version after the last one read without them. Stable releases of 5.10 have the read-back check of 5.14.
fn not_before(event: &Event) -> Option<(u32, u32)> {
    use EventKind::*;
    let text = message(event);
    match &event.kind {
        Marked { why: Mark::FrequencySkew | Mark::CpuSkew, .. } => Some((7, 1)),
        Interval(..) => Some(if text.contains(" interval:") { (7, 1) } else { (5, 11) }),
        // `Watchdog remote CPU 3 read timed out`, `Watchdog hpet read timed out`.
        WatchdogNoise if text.contains("read timed out") => Some((7, 1)),
        Marked { .. } if text.contains("watchdog on CPU") => Some((4, 5)),
        Marked { .. } if text.contains("watchdog: Marking") => Some((4, 0)),
        Skewed { .. } => Some((6, 2)),
        Reading(_, Count { nsec: Some(_), .. }) => Some((5, 11)),
        ReadDelay { .. } | CpusApart { .. } => Some((5, 10)),
        Registered { name, .. } | Switched(name) if name == "tsc-early" => Some((4, 16)),
        SchedClockUnstable => Some((4, 10)),
        Unstable { reason: UnstableReason::Watchdog, .. } => Some((4, 10)),
        Registered { .. } => Some((4, 2)),
        Switched(_) if text.contains("clocksource: Switched") => Some((4, 2)),
        Unstable { .. } if text.contains("tsc: Marking") => Some((3, 6)),
        _ => None,
    }
}

fn not_after(event: &Event) -> Option<(u32, u32)> {
    use EventKind::*;
    let text = message(event);
    match &event.kind {
        Marked { why: Mark::FrequencySkew | Mark::CpuSkew, .. } => None,
        Marked { .. } if text.contains("watchdog on CPU") => Some((7, 0)),
        Marked { .. } if text.contains("watchdog: Marking") => Some((4, 8)),
        Reading(_, Count { nsec: Some(_), .. }) | Skewed { .. } => Some((7, 0)),
        OldDelta { .. } => Some((3, 11)),
        // Red Hat's 2.6.32.
        KeptDelta(_) => Some((2, 6)),
        Switched(_) if text.contains("has been installed") => Some((2, 6)),
        Switched(_) if text.contains("Switching to clocksource") => Some((3, 11)),
        // 3.6 added the prefix `tsc: `.
        Unstable { is_whole: true, .. } if text.starts_with("Marking TSC unstable") => Some((3, 5)),
        Refined(_) if text.starts_with("Refined TSC") => Some((3, 5)),
        DetectedProcessor(_) if text.starts_with("time.c: ") => Some((2, 6)),
        DetectedProcessor(_) if text.starts_with("Detected ") => Some((3, 5)),
        CalibrationNote if text.starts_with("TSC: ") => Some((3, 5)),
        CalibrationNote if text.starts_with("Fast TSC") => Some((3, 5)),
        SyncSkipped => Some((4, 9)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::reader;

    fn versions(log: &str) -> ((u32, u32), (u32, u32)) {
        let log = Some(reader::read(&mut log.as_bytes(), "dmesg").unwrap());
        let age = age(&Facts { log, ..Facts::default() });
        (age.at_least, age.at_most)
    }

    #[test]
    fn words_that_a_kernel_no_longer_prints_bound_its_age() {
        for line in [
            "Detected 2400.126 MHz processor.",
            "TSC: Unable to calibrate against PIT",
            "Fast TSC calibration failed",
            "Marking TSC unstable due to TSC halts in idle",
        ] {
            assert_eq!(versions(&format!("{line}\n")), (OLDEST, (3, 5)), "{line}");
            assert_eq!(versions(&format!("[    0.000000] {line}\n")).1, (3, 5), "{line}");
        }
        assert_eq!(versions("time.c: Detected 2400.126 MHz processor.\n").1, (2, 6));
        assert_eq!(versions("tsc: Fast TSC calibration failed\n").1, UNBOUNDED);
    }

    #[test]
    fn a_line_that_lost_its_beginning_is_not_taken_for_an_old_one() {
        for log in [
            "[    0.000000] Console: colour dummy device 80x25\nDetected 1808.905 MHz processor\n",
            "[    0.000000] tsc: Fast TSC calibration failed\n\
             Marking TSC unstable due to TSC halts in idle\n",
            " Marking TSC unstable due to TSC halts in idle\n",
        ] {
            assert_eq!(versions(log).1, UNBOUNDED, "{log}");
        }
        let watchdog = "Marking TSC unstable due to clocksource watchdog\n";
        assert_eq!(versions(watchdog), ((4, 10), UNBOUNDED));
    }
}
