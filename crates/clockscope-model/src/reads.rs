//! Where each read of a clock gets its time from, which decides its cost on any host. The only such table.

use fastclock::ClockId;

/// Where the answer to a read comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The clocksource, read by the vDSO in user space where the clocksource allows that.
    Clocksource,
    /// The clocksource, by a system call on every host.
    ClocksourceByKernel,
    /// The time of the last timer tick, in memory: no clocksource.
    Tick,
    /// The scheduler's account of processor time, by a system call on every host: no clocksource.
    CpuTime,
    /// Unknown, by a system call on every host. Clock ids without a fixed number stand for the processor time
    /// of other processes, and for devices.
    Unknown,
}

/// The source of a call of `function` on `clock` (its name, if the function takes one); `None` if the call
/// reads no clock.
///
/// # References
///
/// `lib/vdso/gettimeofday.c`: `VDSO_HRES`, `VDSO_RAW` and `VDSO_COARSE`, and `__cvdso_time`, which reads
/// the seconds of the last tick; `kernel/time/posix-cpu-timers.c` and `kernel/time/alarmtimer.c` (Linux
/// 6.18)
pub fn source(function: &str, clock: Option<&str>) -> Option<Source> {
    match (function, clock) {
        ("gettimeofday", _) => Some(Source::Clocksource),
        ("time", _) => Some(Source::Tick),
        ("clock_gettime", Some(clock)) => {
            let known = ClockId::ALL.into_iter().find(|id| id.name() == clock);
            Some(known.map_or(Source::Unknown, of_clock))
        }
        ("clock_gettime", None) => Some(Source::Unknown),
        _ => None,
    }
}

fn of_clock(clock: ClockId) -> Source {
    match clock {
        ClockId::Realtime
        | ClockId::Monotonic
        | ClockId::MonotonicRaw
        | ClockId::Boottime
        | ClockId::Tai => Source::Clocksource,
        ClockId::RealtimeAlarm | ClockId::BoottimeAlarm => Source::ClocksourceByKernel,
        ClockId::RealtimeCoarse | ClockId::MonotonicCoarse => Source::Tick,
        ClockId::ProcessCputime | ClockId::ThreadCputime => Source::CpuTime,
        _ => Source::Unknown,
    }
}

impl Source {
    /// Whether such a read costs more where the kernel fell back to a slow clocksource.
    pub const fn is_clocksource(self) -> bool {
        matches!(self, Self::Clocksource | Self::ClocksourceByKernel)
    }

    /// Whether the kernel's vDSO can answer by itself, on a host with a good clocksource.
    pub const fn stays_in_user_space(self) -> bool {
        matches!(self, Self::Clocksource | Self::Tick)
    }
}

/// Whether a coarse clock could answer this read instead: `run --clock coarse` gives these reads the time of
/// the last tick, and leaves all other reads alone.
pub fn has_coarse_form(function: &str, clock: Option<&str>) -> bool {
    let clock = match function {
        "gettimeofday" => Some(ClockId::Realtime),
        "clock_gettime" => ClockId::ALL.into_iter().find(|id| Some(id.name()) == clock),
        _ => None,
    };
    clock.is_some_and(|clock| clock.coarse().is_some_and(|coarse| coarse != clock))
}

/// The name of a clock; `other` for ids without a fixed number.
pub fn clock_name(clock: Option<i32>) -> String {
    match clock {
        None => "other".to_owned(),
        Some(raw) => {
            ClockId::from_raw(raw).map_or_else(|| format!("clock_{raw}"), |id| id.name().to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_clock_has_its_source() {
        let table = [
            ("CLOCK_REALTIME", Source::Clocksource, true),
            ("CLOCK_MONOTONIC", Source::Clocksource, true),
            ("CLOCK_MONOTONIC_RAW", Source::Clocksource, false),
            ("CLOCK_BOOTTIME", Source::Clocksource, false),
            ("CLOCK_TAI", Source::Clocksource, false),
            ("CLOCK_REALTIME_COARSE", Source::Tick, false),
            ("CLOCK_MONOTONIC_COARSE", Source::Tick, false),
            ("CLOCK_PROCESS_CPUTIME_ID", Source::CpuTime, false),
            ("CLOCK_THREAD_CPUTIME_ID", Source::CpuTime, false),
            ("CLOCK_REALTIME_ALARM", Source::ClocksourceByKernel, false),
            ("CLOCK_BOOTTIME_ALARM", Source::ClocksourceByKernel, false),
            ("other", Source::Unknown, false),
        ];
        for (clock, expected, coarse) in table {
            assert_eq!(source("clock_gettime", Some(clock)), Some(expected), "{clock}");
            assert_eq!(has_coarse_form("clock_gettime", Some(clock)), coarse, "{clock}");
            assert_eq!(source("clock_getres", Some(clock)), None, "{clock}");
        }
        assert_eq!(ClockId::ALL.len() + 1, table.len(), "and none is forgotten");
        assert_eq!(source("gettimeofday", None), Some(Source::Clocksource));
        assert_eq!(source("time", None), Some(Source::Tick));
        assert!(has_coarse_form("gettimeofday", None) && !has_coarse_form("time", None));
        assert_eq!(source("getcpu", None), None);
    }
}
