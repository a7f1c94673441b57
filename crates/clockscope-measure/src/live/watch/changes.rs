//! What changed between two looks at a machine, in words. Pure.

use std::fmt;

use clock_doctor::log::{Event, Kind, event, reader};

/// A machine at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Snapshot {
    /// The current clocksource, if it can be read.
    pub current: Option<String>,
    /// The available clocksources.
    pub available: Vec<String>,
    /// `STA_UNSYNC` is not set; `None` where `adjtimex(2)` is forbidden.
    pub is_synchronised: Option<bool>,
    /// `CLOCK_REALTIME` less `CLOCK_BOOTTIME`, in nanoseconds: steps when somebody sets the clock.
    pub realtime_ns: i64,
    /// `CLOCK_BOOTTIME` less `CLOCK_MONOTONIC`, in nanoseconds: grows while the machine sleeps.
    pub suspended_ns: i64,
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match &self.current {
            Some(current) => write!(f, "the clocksource is {current}")?,
            None => f.write_str("the clocksource cannot be read")?,
        }
        if !self.available.is_empty() {
            write!(f, " (available: {})", self.available.join(" "))?;
        }
        match self.is_synchronised {
            Some(true) => f.write_str(", the clock is synchronised"),
            Some(false) => f.write_str(", the clock is not synchronised"),
            None => Ok(()),
        }
    }
}

/// Something that changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// A line of the kernel's log.
    Log(String),
    /// Lines of the log went by unread.
    LostLines,
    /// Another clocksource: before and now.
    Current(Option<String>, Option<String>),
    /// Clocksources that are gone, those that are new, and all that are left.
    Available(Vec<String>, Vec<String>, Vec<String>),
    /// `CLOCK_REALTIME` was set forward by so many nanoseconds.
    Set(i64),
    /// The machine slept for so many nanoseconds.
    Slept(i64),
    /// The clock is synchronised now, or no longer.
    Synchronised(bool),
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let name = |name: &Option<String>| match name {
            Some(name) => name.clone(),
            None => "unreadable".to_owned(),
        };
        match self {
            Self::Log(line) => write!(f, "kernel: {line}"),
            Self::LostLines => f.write_str("kernel: lines were overwritten before they were read"),
            Self::Current(before, now) => write!(
                f,
                "the clocksource is {} now, it was {}; `clockscope doctor` says why",
                name(now),
                name(before)
            ),
            Self::Available(gone, new, left) => {
                let clause = |names: &[String], what: &str| match names {
                    [] => None,
                    [one] => Some(format!("{one} is {what}")),
                    more => Some(format!("{} are {what}", more.join(" and "))),
                };
                let clauses = [clause(gone, "gone"), clause(new, "new")];
                let clauses: Vec<String> = clauses.into_iter().flatten().collect();
                let left = if left.is_empty() { "none".to_owned() } else { left.join(" ") };
                write!(f, "available clocksources: {}; there are {left}", clauses.join(", "))
            }
            Self::Set(by) => write!(f, "CLOCK_REALTIME was set, by {:+.6} s", seconds(*by)),
            Self::Slept(by) => write!(f, "the machine slept for {:.1} s", seconds(*by)),
            Self::Synchronised(true) => f.write_str("the clock is synchronised"),
            Self::Synchronised(false) => f.write_str("the clock is no longer synchronised"),
        }
    }
}

fn seconds(nanos: i64) -> f64 {
    nanos as f64 / 1e9
}

/// The kernel counts sleep no finer than this at worst, in nanoseconds; two clocks are read one
/// after the other, which takes less unless the machine is very busy.
const SLEEP_MIN: i64 = 10_000_000;
/// A step of `CLOCK_REALTIME` of which no notice came, in nanoseconds between two looks: more than
/// a clock is ever slewed in a second (chronyd's `maxslewrate` is a twelfth of it).
const STEP_MIN: i64 = 500_000_000;
/// What waking up sets the clock by, beside the time that was slept, in nanoseconds.
const WAKING: i64 = 1_000_000_000;

/// What changed. `was_set`: the kernel gave notice that `CLOCK_REALTIME` was set.
pub(super) fn changes(before: &Snapshot, after: &Snapshot, was_set: bool) -> Vec<Change> {
    let mut found = Vec::new();
    let slept = after.suspended_ns - before.suspended_ns;
    let has_slept = slept >= SLEEP_MIN;
    if has_slept {
        found.push(Change::Slept(slept));
    }
    let step = after.realtime_ns - before.realtime_ns;
    // The kernel sets the clock itself when the machine wakes up, and gives notice of that.
    let is_set = if has_slept { step.abs() >= WAKING } else { was_set || step.abs() >= STEP_MIN };
    if is_set {
        found.push(Change::Set(step));
    }
    if before.current != after.current {
        found.push(Change::Current(before.current.clone(), after.current.clone()));
    }
    let missing = |from: &[String], of: &[String]| -> Vec<String> {
        of.iter().filter(|name| !from.contains(name)).cloned().collect()
    };
    let gone = missing(&after.available, &before.available);
    let new = missing(&before.available, &after.available);
    if !gone.is_empty() || !new.is_empty() {
        found.push(Change::Available(gone, new, after.available.clone()));
    }
    if let (Some(before), Some(after)) = (before.is_synchronised, after.is_synchronised)
        && before != after
    {
        found.push(Change::Synchronised(after));
    }
    found
}

/// Lines of the log that tell of a change, as they stand there.
pub(super) fn weighty(log: &str) -> Vec<String> {
    if log.is_empty() {
        return Vec::new();
    }
    let read = reader::read(&mut log.as_bytes(), "dmesg");
    let events = read.map(|log| log.events).unwrap_or_default();
    events.into_iter().filter(is_weighty).map(|event| event.evidence.text).collect()
}

/// Whether a line tells that a clock or clocksource has become another, was given up, or may be
/// wrong. Machines that run long print few of the others.
fn is_weighty(event: &Event) -> bool {
    match &event.kind {
        Kind::ReadDelay { marks, .. } => *marks,
        Kind::Reading { role, .. } => *role == event::Role::Watched,
        Kind::Switched(_)
        | Kind::Unstable { .. }
        | Kind::Marked { .. }
        | Kind::OldDelta { .. }
        | Kind::Skewed { .. }
        | Kind::WatchedInterval { .. }
        | Kind::CpuCycles { .. }
        | Kind::CpusApart { .. }
        | Kind::Override { .. }
        | Kind::Warp { .. }
        | Kind::WarpRandom
        | Kind::AdjustDiffers { .. }
        | Kind::AdjustCompensated { .. }
        | Kind::HotAdded
        | Kind::HpetPc10
        | Kind::HpetDisabled
        | Kind::PmTimerBad
        | Kind::RateDiffers
        | Kind::LeapSecond
        | Kind::SchedClockUnstable
        | Kind::ArmTrapping
        | Kind::Suspended { .. } => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(realtime_ns: i64, suspended_ns: i64) -> Snapshot {
        Snapshot { realtime_ns, suspended_ns, ..Snapshot::default() }
    }

    #[test]
    fn a_clock_that_is_slewed_is_not_set() {
        assert_eq!(changes(&at(0, 0), &at(83_000_000, 0), false), []);
        assert_eq!(changes(&at(0, 0), &at(-250, 0), true), [Change::Set(-250)]);
        assert_eq!(changes(&at(0, 0), &at(-700_000_000, 0), false), [Change::Set(-700_000_000)]);
    }

    #[test]
    fn waking_up_is_not_a_step_of_the_time() {
        let slept = Change::Slept(9_000_000_000);
        let alone = changes(&at(0, 0), &at(20_000, 9_000_000_000), true);
        assert_eq!(alone, std::slice::from_ref(&slept));
        let both = [slept, Change::Set(3_600_000_000_000)];
        assert_eq!(changes(&at(0, 0), &at(3_600_000_000_000, 9_000_000_000), true), both);
        assert_eq!(changes(&at(0, 0), &at(0, 300_000), false), [], "read while others ran");
    }

    #[test]
    fn what_cannot_be_read_is_no_change_until_it_can() {
        let unknown = Snapshot::default();
        assert_eq!(changes(&unknown, &unknown, false), []);
        let known = Snapshot { is_synchronised: Some(false), ..Snapshot::default() };
        assert_eq!(changes(&unknown, &known, false), []);
        let current = Snapshot { current: Some("tsc".to_owned()), ..Snapshot::default() };
        let change = changes(&current, &unknown, false);
        assert!(
            change[0].to_string().starts_with("the clocksource is unreadable now"),
            "{change:?}"
        );
    }

    #[test]
    fn only_lines_of_weight_are_passed_on() {
        let log = "[  100.000001] usb 1-1: new high-speed USB device\n\
                   [  101.000001] clocksource: timekeeping watchdog on CPU1: hpet retried 2 times before success\n\
                   [  102.000001] clocksource: Switched to clocksource hpet\n\
                   [  103.000001] tsc: Marking TSC unstable due to clocksource watchdog\n";
        let lines = weighty(log);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].contains("Switched to clocksource hpet"));
        assert!(lines[1].contains("Marking TSC unstable"));
        assert_eq!(weighty(""), [""; 0]);
    }
}
