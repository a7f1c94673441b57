//! vDSO calls and system calls as rows of one table.

use std::cmp::Reverse;

use crate::options::SortBy;
use clockscope_model::names::with_clock;
use clockscope_model::trace::{Latency, SyscallRow, VdsoRow};
use clockscope_text::foreign::printable;

/// A row of the table.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    pub(super) name: String,
    pub(super) via: &'static str,
    pub(super) calls: u64,
    pub(super) errors: u64,
    /// Time of all calls in nanoseconds; `None` if none was timed, or too few.
    pub(super) time_ns: Option<u64>,
    /// Average in picoseconds; `None` if no call was timed, or too few.
    pub(super) average_ps: Option<u64>,
    pub(super) latency: Option<&'a Latency>,
}

/// Calls of one process, one thread, or all.
#[derive(Clone, Copy, Debug)]
pub(super) struct Calls<'a> {
    pub(super) vdso: &'a [VdsoRow],
    pub(super) syscalls: &'a [SyscallRow],
    /// Whether system calls were timed: not with `--counts-only`.
    pub(super) syscalls_timed: bool,
}

/// Whether any system call has a time; none has with `--counts-only`.
pub(super) fn were_timed(rows: &[SyscallRow]) -> bool {
    rows.iter().any(|row| row.time_total_ns > 0)
}

/// `clock_gettime(MONOTONIC)`: the function with its clock, without the prefix that all clocks
/// share and without the `_ID` of the CPU time clocks, so that it fits into its column.
pub(super) fn vdso_name(row: &VdsoRow) -> String {
    with_clock(&row.function, row.clock.as_deref())
}

impl<'a> Calls<'a> {
    /// The rows that have calls, the greatest of the sorted column first; equal ones by time, calls
    /// and name.
    pub(super) fn entries(self, sort: SortBy) -> Vec<Entry<'a>> {
        let vdso = self.vdso.iter().map(|row| Entry {
            name: vdso_name(row),
            via: "vdso",
            calls: row.calls,
            errors: 0,
            time_ns: row.has_time().then_some(row.time_total_ns),
            average_ps: row.has_time().then_some(row.time_avg_ps),
            latency: row.latency_ns.as_ref(),
        });
        let syscalls = self.syscalls.iter().map(|row| Entry {
            name: printable(&row.name),
            via: "syscall",
            calls: row.calls,
            errors: row.errors,
            time_ns: self.syscalls_timed.then_some(row.time_total_ns),
            average_ps: self.syscalls_timed.then_some(row.time_avg_ps),
            latency: row.latency_ns.as_ref(),
        });
        let mut entries: Vec<Entry> = vdso.chain(syscalls).filter(|e| e.calls > 0).collect();
        entries.sort_by(|a, b| a.name.cmp(&b.name).then(a.via.cmp(b.via)));
        // Stable sorts: the last one decides, those before it order its equals.
        if sort != SortBy::Name {
            entries.sort_by_key(|e| Reverse((e.time_ns, e.calls)));
        }
        match sort {
            SortBy::Time | SortBy::Name => {}
            SortBy::Calls => entries.sort_by_key(|e| Reverse(e.calls)),
            SortBy::Errors => entries.sort_by_key(|e| Reverse(e.errors)),
        }
        entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vdso(function: &str, clock: Option<&str>, calls: u64, time_total_ns: u64) -> VdsoRow {
        VdsoRow {
            function: function.into(),
            clock: clock.map(Into::into),
            calls,
            timed: 1,
            time_total_ns,
            ..VdsoRow::default()
        }
    }

    fn syscall(name: &str, calls: u64, errors: u64, time_total_ns: u64) -> SyscallRow {
        SyscallRow { name: name.into(), calls, errors, time_total_ns, ..SyscallRow::default() }
    }

    fn order(sort: SortBy) -> Vec<String> {
        let vdso = [vdso("time", None, 50, 500), vdso("getcpu", None, 0, 0)];
        let syscalls =
            [syscall("read", 9, 1, 900), syscall("openat", 9, 4, 500), syscall("close", 2, 0, 20)];
        let calls = Calls { vdso: &vdso, syscalls: &syscalls, syscalls_timed: true };
        calls.entries(sort).into_iter().map(|e| e.name).collect()
    }

    #[test]
    fn both_kinds_are_sorted_together_and_rows_without_calls_left_out() {
        assert_eq!(order(SortBy::Time), ["read", "time", "openat", "close"]);
        assert_eq!(order(SortBy::Calls), ["time", "read", "openat", "close"]);
        assert_eq!(order(SortBy::Errors), ["openat", "read", "time", "close"]);
        assert_eq!(order(SortBy::Name), ["close", "openat", "read", "time"]);
    }

    #[test]
    fn a_row_that_was_not_timed_has_no_time() {
        let mut row = vdso("clock_gettime", Some("CLOCK_TAI"), 7, 0);
        row.timed = 0;
        let rows = [row];
        let syscalls = [syscall("read", 1, 0, 0)];
        assert!(!were_timed(&syscalls));
        let calls = Calls { vdso: &rows, syscalls: &syscalls, syscalls_timed: false };
        let entries = calls.entries(SortBy::Time);
        assert_eq!(entries[0].name, "clock_gettime(TAI)");
        assert!(entries.iter().all(|e| e.time_ns.is_none() && e.average_ps.is_none()));
    }

    #[test]
    fn clocks_are_named_without_what_they_share() {
        for (clock, name) in [
            ("CLOCK_BOOTTIME", "clock_getres(BOOTTIME)"),
            ("CLOCK_THREAD_CPUTIME_ID", "clock_getres(THREAD_CPUTIME)"),
            ("other", "clock_getres(other)"),
        ] {
            assert_eq!(vdso_name(&vdso("clock_getres", Some(clock), 1, 1)), name);
        }
    }
}
