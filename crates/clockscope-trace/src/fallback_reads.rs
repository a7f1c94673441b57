//! Reads that this host's vDSO passes on to the kernel.
//!
//! Such a read is counted twice, as a vDSO call and as a system call, but is one read. If user space cannot
//! read the clocksource, the vDSO passes on every precise read.

use clockscope_model::reads;
use clockscope_model::trace::VdsoRow;
use clockscope_sys::vdso_call::{self, Call, Path};

/// Whether the function reads a clock.
pub(crate) fn is_read(function: &str) -> bool {
    reads::source(function, None).is_some()
}

/// The tested calls, and the path of each: user space or a system call.
#[derive(Clone, Debug, Default)]
pub(crate) struct FallbackReads(Vec<(Call, Path)>);

impl FallbackReads {
    /// Tests the vDSO of this process; takes less than a millisecond.
    ///
    /// If the test is not possible, only reads that no vDSO answers count as passed on.
    pub(crate) fn here() -> Self {
        Self(vdso_call::paths(|call| is_read(call.name())).unwrap_or_default())
    }

    /// Whether calls of this row become system calls.
    pub(crate) fn has(&self, row: &VdsoRow) -> bool {
        let is_same = |call: Call| match call {
            Call::ClockGettime(clock) => row.clock.as_deref() == Some(clock.name()),
            _ => row.clock.is_none(),
        };
        let of_row = |(call, _): &&(Call, Path)| call.name() == row.function && is_same(*call);
        match self.0.iter().find(of_row) {
            Some((_, path)) => *path == Path::Syscall,
            None => reads::source(&row.function, row.clock.as_deref())
                .is_some_and(|source| !source.stays_in_user_space()),
        }
    }
}

#[cfg(test)]
mod tests {
    use fastclock::ClockId;

    use super::*;
    use crate::rows_for_tests::row;

    #[test]
    fn the_tried_path_decides_for_each_clock() {
        let tried = FallbackReads(vec![
            (Call::ClockGettime(ClockId::Monotonic), Path::Syscall),
            (Call::ClockGettime(ClockId::MonotonicCoarse), Path::Fast),
            (Call::Gettimeofday, Path::Syscall),
            (Call::Time, Path::Fast),
        ]);
        for (function, clock, expected) in [
            ("clock_gettime", Some("CLOCK_MONOTONIC"), true),
            ("clock_gettime", Some("CLOCK_MONOTONIC_COARSE"), false),
            ("clock_gettime", Some("other"), true),
            ("gettimeofday", None, true),
            ("time", None, false),
        ] {
            assert_eq!(tried.has(&row(function, clock, 0)), expected, "{function} {clock:?}");
        }
    }

    #[test]
    fn untried_clocks_are_passed_on_only_where_no_vdso_has_them() {
        for (function, clock, expected) in [
            ("clock_gettime", Some("CLOCK_REALTIME"), false),
            ("clock_gettime", Some("CLOCK_PROCESS_CPUTIME_ID"), true),
            ("clock_gettime", Some("CLOCK_BOOTTIME_ALARM"), true),
            ("gettimeofday", None, false),
        ] {
            let untried = FallbackReads::default();
            assert_eq!(untried.has(&row(function, clock, 0)), expected, "{function} {clock:?}");
        }
    }

    #[test]
    fn this_hosts_coarse_clocks_are_answered_in_user_space() {
        let here = FallbackReads::here();
        assert!(!here.0.is_empty());
        assert!(!here.has(&row("clock_gettime", Some("CLOCK_MONOTONIC_COARSE"), 0)));
        assert!(here.has(&row("clock_gettime", Some("CLOCK_THREAD_CPUTIME_ID"), 0)));
    }
}
