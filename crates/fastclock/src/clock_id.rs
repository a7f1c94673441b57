//! The clocks of `clock_gettime(2)` by number and by name.

use core::fmt;

/// A POSIX clock id with a fixed number on Linux.
///
/// Dynamic ids (per-process CPU clocks, file-descriptor clocks) are negative and are not listed.
///
/// # References
///
/// - `clock_gettime(2)`, `include/uapi/linux/time.h` (Linux 6.18)
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[repr(i32)]
pub enum ClockId {
    /// Wall-clock time since the Unix epoch; steps and slews.
    #[doc(alias = "CLOCK_REALTIME")]
    Realtime = 0,
    /// Time since boot without suspend; slews, never steps.
    #[doc(alias = "CLOCK_MONOTONIC")]
    Monotonic = 1,
    /// CPU time of the process.
    #[doc(alias = "CLOCK_PROCESS_CPUTIME_ID")]
    ProcessCputime = 2,
    /// CPU time of the thread.
    #[doc(alias = "CLOCK_THREAD_CPUTIME_ID")]
    ThreadCputime = 3,
    /// The counter at its nominal rate; neither slews nor steps.
    #[doc(alias = "CLOCK_MONOTONIC_RAW")]
    MonotonicRaw = 4,
    /// `CLOCK_REALTIME` as of the last timer tick.
    #[doc(alias = "CLOCK_REALTIME_COARSE")]
    RealtimeCoarse = 5,
    /// `CLOCK_MONOTONIC` as of the last timer tick.
    #[doc(alias = "CLOCK_MONOTONIC_COARSE")]
    MonotonicCoarse = 6,
    /// Time since boot including suspend.
    #[doc(alias = "CLOCK_BOOTTIME")]
    Boottime = 7,
    /// `CLOCK_REALTIME`, for alarms that wake the machine.
    #[doc(alias = "CLOCK_REALTIME_ALARM")]
    RealtimeAlarm = 8,
    /// `CLOCK_BOOTTIME`, for alarms that wake the machine.
    #[doc(alias = "CLOCK_BOOTTIME_ALARM")]
    BoottimeAlarm = 9,
    /// International atomic time since the Unix epoch.
    #[doc(alias = "CLOCK_TAI")]
    Tai = 11,
}

impl ClockId {
    /// Every clock with a fixed number, in the order of the numbers.
    pub const ALL: [Self; 11] = [
        Self::Realtime,
        Self::Monotonic,
        Self::ProcessCputime,
        Self::ThreadCputime,
        Self::MonotonicRaw,
        Self::RealtimeCoarse,
        Self::MonotonicCoarse,
        Self::Boottime,
        Self::RealtimeAlarm,
        Self::BoottimeAlarm,
        Self::Tai,
    ];

    /// The clock with this number, if it is one of the fixed ones.
    pub fn from_raw(raw: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|clock| clock.as_raw() == raw)
    }

    /// The number that `clock_gettime(2)` takes.
    pub const fn as_raw(self) -> i32 {
        self as i32
    }

    /// The name in C, for example `CLOCK_MONOTONIC`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Realtime => "CLOCK_REALTIME",
            Self::Monotonic => "CLOCK_MONOTONIC",
            Self::ProcessCputime => "CLOCK_PROCESS_CPUTIME_ID",
            Self::ThreadCputime => "CLOCK_THREAD_CPUTIME_ID",
            Self::MonotonicRaw => "CLOCK_MONOTONIC_RAW",
            Self::RealtimeCoarse => "CLOCK_REALTIME_COARSE",
            Self::MonotonicCoarse => "CLOCK_MONOTONIC_COARSE",
            Self::Boottime => "CLOCK_BOOTTIME",
            Self::RealtimeAlarm => "CLOCK_REALTIME_ALARM",
            Self::BoottimeAlarm => "CLOCK_BOOTTIME_ALARM",
            Self::Tai => "CLOCK_TAI",
        }
    }

    /// The coarse clock of the same family, read at the last timer tick, if there is one.
    pub const fn coarse(self) -> Option<Self> {
        match self {
            Self::Realtime | Self::RealtimeCoarse => Some(Self::RealtimeCoarse),
            Self::Monotonic | Self::MonotonicCoarse => Some(Self::MonotonicCoarse),
            _ => None,
        }
    }
}

impl fmt::Display for ClockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_finds_its_clock_and_no_other_does() {
        for raw in -2..40 {
            match ClockId::from_raw(raw) {
                Some(clock) => assert_eq!(clock.as_raw(), raw),
                None => assert!(!(0..=9).contains(&raw) && raw != 11, "{raw} has a clock"),
            }
        }
    }

    #[test]
    fn coarse_clocks_are_their_own_coarse_form() {
        for clock in ClockId::ALL {
            if let Some(coarse) = clock.coarse() {
                assert_eq!(coarse.coarse(), Some(coarse));
                assert!(coarse.name().ends_with("_COARSE"));
            }
        }
    }
}
