//! The clocks of `clock_gettime(2)` by number and by name.

use crate::numbered::numbered;

numbered! {
    /// A POSIX clock id with a fixed number on Linux.
    ///
    /// Dynamic ids (per-process CPU clocks, file-descriptor clocks) are negative and are not listed.
    ///
    /// # References
    ///
    /// - `clock_gettime(2)`, `include/uapi/linux/time.h` (Linux 6.18)
    #[repr(i32)]
    pub enum ClockId;
    /// Every clock with a fixed number, in the order of the numbers.
    pub const ALL;
    /// The name in C, for example `CLOCK_MONOTONIC`.
    pub const fn name;

    /// Wall-clock time since the Unix epoch; steps and slews.
    Realtime = 0, alias = "CLOCK_REALTIME",
    /// Time since boot without suspend; slews, never steps.
    Monotonic = 1, alias = "CLOCK_MONOTONIC",
    /// CPU time of the process.
    ProcessCputime = 2, alias = "CLOCK_PROCESS_CPUTIME_ID",
    /// CPU time of the thread.
    ThreadCputime = 3, alias = "CLOCK_THREAD_CPUTIME_ID",
    /// The counter at its nominal rate; neither slews nor steps.
    MonotonicRaw = 4, alias = "CLOCK_MONOTONIC_RAW",
    /// `CLOCK_REALTIME` as of the last timer tick.
    RealtimeCoarse = 5, alias = "CLOCK_REALTIME_COARSE",
    /// `CLOCK_MONOTONIC` as of the last timer tick.
    MonotonicCoarse = 6, alias = "CLOCK_MONOTONIC_COARSE",
    /// Time since boot including suspend.
    Boottime = 7, alias = "CLOCK_BOOTTIME",
    /// `CLOCK_REALTIME`, for alarms that wake the machine.
    RealtimeAlarm = 8, alias = "CLOCK_REALTIME_ALARM",
    /// `CLOCK_BOOTTIME`, for alarms that wake the machine.
    BoottimeAlarm = 9, alias = "CLOCK_BOOTTIME_ALARM",
    /// International atomic time since the Unix epoch.
    Tai = 11, alias = "CLOCK_TAI",
}

impl ClockId {
    /// The clock with this number, if it is one of the fixed ones.
    pub fn from_raw(raw: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|clock| clock.as_raw() == raw)
    }

    /// The number that `clock_gettime(2)` takes.
    pub const fn as_raw(self) -> i32 {
        self as i32
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
