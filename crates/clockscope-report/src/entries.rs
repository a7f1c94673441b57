//! vDSO calls and system calls as rows of one table.

use clockscope_stats::order;
use std::cmp::Reverse;

use crate::costs::total;
use crate::options::SortBy;
use clockscope_model::names::with_clock;
use clockscope_model::reads;
use clockscope_model::trace::{Latency, SyscallRow, VdsoRow, Via};
use clockscope_text::foreign::printable;

/// A row of the table.
#[derive(Clone, Debug)]
pub(super) struct Entry<'a> {
    pub(super) name: String,
    /// `None` if the row stands for several calls.
    pub(super) via: Option<Via>,
    pub(super) calls: u64,
    /// Errors; `None` if unknown.
    pub(super) errors: Option<u64>,
    /// Time of all calls in nanoseconds; `None` if no call or too few were timed.
    pub(super) time_ns: Option<u64>,
    /// Number of calls that `time_ns` covers: all, or some if the row stands for several calls.
    pub(super) timed_calls: u64,
    /// Average in picoseconds; `None` if no call or too few were timed.
    pub(super) average_ps: Option<u64>,
    pub(super) latency: Option<&'a Latency>,
    pub(super) kind: Kind,
}

impl Entry<'_> {
    /// The rank among other rows: the time. For a system call of unknown time, `mean_ns` for each call is
    /// assumed, so many such calls do not end up at the bottom.
    fn rank(&self, mean_ns: Option<u128>) -> Option<u128> {
        let guess =
            || Some(mean_ns.filter(|_| self.via == Some(Via::Syscall))? * u128::from(self.calls));
        self.time_ns.map(u128::from).or_else(guess)
    }
}

/// The kind of call of a row, in the order of display.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// The call reads a clock.
    Clock,
    /// Any other call.
    Other,
    /// The purpose of the call is to wait: its time is no cost.
    Waiting,
}

impl Kind {
    /// Rows of this kind in a short table.
    fn shown(self) -> usize {
        match self {
            Self::Clock => 8,
            Self::Other => 10,
            Self::Waiting => 4,
        }
    }
}

/// Calls of one process, one thread, or all.
#[derive(Clone, Copy, Debug)]
pub(super) struct Calls<'a> {
    pub(super) vdso: &'a [VdsoRow],
    pub(super) syscalls: &'a [SyscallRow],
    /// Whether system calls were timed; false with `--counts-only`.
    pub(super) syscalls_timed: bool,
}

/// Whether any system call has a time; false with `--counts-only`.
pub(super) fn were_timed(rows: &[SyscallRow]) -> bool {
    rows.iter().any(|row| row.time_total_ns > 0)
}

/// `clock_gettime(MONOTONIC)`: the function with its clock, without `CLOCK_` and `_ID`, so the name fits into
/// its column.
pub(super) fn vdso_name(row: &VdsoRow) -> String {
    with_clock(&row.function, row.clock.as_deref())
}

impl<'a> Calls<'a> {
    /// The rows with calls, in descending order of the sorted column, then by time, calls and name. Sorted by
    /// time, reads of clocks come first and calls that wait last.
    pub(super) fn entries(self, sort: SortBy) -> Vec<Entry<'a>> {
        let vdso = self.vdso.iter().map(|row| Entry {
            name: vdso_name(row),
            via: Some(Via::Vdso),
            calls: row.calls,
            errors: Some(0),
            time_ns: row.has_time().then_some(row.time_total_ns),
            timed_calls: if row.has_time() { row.calls } else { 0 },
            average_ps: row.has_time().then_some(row.time_avg_ps),
            latency: row.latency_ns.as_ref(),
            kind: match reads::source(&row.function, row.clock.as_deref()) {
                Some(_) => Kind::Clock,
                None => Kind::Other,
            },
        });
        let is_timed = |row: &SyscallRow| self.syscalls_timed && row.has_time();
        let syscalls = self.syscalls.iter().map(|row| Entry {
            name: printable(&row.name),
            via: Some(Via::Syscall),
            calls: row.calls,
            errors: row.errors,
            time_ns: is_timed(row).then_some(row.time_total_ns),
            timed_calls: if is_timed(row) { row.calls } else { 0 },
            average_ps: is_timed(row).then_some(row.time_avg_ps),
            latency: row.latency_ns.as_ref(),
            kind: match reads::source(&row.name, None) {
                Some(_) => Kind::Clock,
                None if row.waits => Kind::Waiting,
                None => Kind::Other,
            },
        });
        let mut entries: Vec<Entry> = vdso.chain(syscalls).filter(|e| e.calls > 0).collect();
        order::by(&mut entries, |a, b| a.name.cmp(&b.name).then(a.via.cmp(&b.via)));
        // The sorts are stable: the last one decides, earlier ones order its equals.
        if sort != SortBy::Name {
            let mean_ns = mean_of_timed(&entries);
            order::by_key(&mut entries, |e| Reverse((e.rank(mean_ns), e.calls)));
        }
        match sort {
            SortBy::Time => order::by_key(&mut entries, |e| e.kind),
            SortBy::Name => {}
            SortBy::Calls => order::by_key(&mut entries, |e| Reverse(e.calls)),
            SortBy::Errors => order::by_key(&mut entries, |e| Reverse(e.errors)),
        }
        entries
    }
}

/// The average time of a system call in nanoseconds, over those of known time that do not wait.
fn mean_of_timed(entries: &[Entry]) -> Option<u128> {
    let known =
        || entries.iter().filter(|e| e.via == Some(Via::Syscall) && e.kind != Kind::Waiting);
    let calls: u128 = known().map(|e| u128::from(e.timed_calls)).sum();
    let time: u128 = known().filter_map(|e| e.time_ns).map(u128::from).sum();
    time.checked_div(calls)
}

/// Rows in a short table that is not sorted by time.
const SHOWN: usize = 20;

/// The first rows (of each kind, if sorted by time), and one row for the rest.
pub(super) fn shortened<'a>(entries: &[Entry<'a>], sort: SortBy) -> Vec<Entry<'a>> {
    let by_kind = sort == SortBy::Time;
    let groups = entries.chunk_by(|a, b| !by_kind || a.kind == b.kind);
    let short = |rows: &[Entry<'a>]| {
        let shown = rows.first().filter(|_| by_kind).map_or(SHOWN, |row| row.kind.shown());
        match rows.split_at_checked(shown) {
            // One or two further rows are no longer than a row that stands for them.
            Some((first, others)) if others.len() > 2 => [first, &[sum(others)]].concat(),
            _ => rows.to_vec(),
        }
    };
    groups.flat_map(short).collect()
}

/// One row that stands for several.
fn sum<'a>(rows: &[Entry<'a>]) -> Entry<'a> {
    let add = |of: fn(&Entry) -> u64| total(rows.iter().map(of));
    let is_timed = rows.iter().any(|row| row.time_ns.is_some());
    Entry {
        name: format!("{} others, see --all", rows.len()),
        via: None,
        calls: add(|row| row.calls),
        errors: sum_of_known(rows),
        time_ns: is_timed.then(|| add(|row| row.time_ns.unwrap_or_default())),
        timed_calls: add(|row| row.timed_calls),
        average_ps: None,
        latency: None,
        kind: rows.first().map_or(Kind::Other, |row| row.kind),
    }
}

/// Errors of all rows; `None` if those of one row are unknown.
pub(super) fn sum_of_known(rows: &[Entry]) -> Option<u64> {
    rows.iter().try_fold(0_u64, |sum, row| Some(sum.saturating_add(row.errors?)))
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
        SyscallRow {
            name: name.into(),
            calls,
            errors: Some(errors),
            time_total_ns,
            ..SyscallRow::default()
        }
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
        assert_eq!(order(SortBy::Time), ["time", "read", "openat", "close"], "clocks first");
        assert_eq!(order(SortBy::Calls), ["time", "read", "openat", "close"]);
        assert_eq!(order(SortBy::Errors), ["openat", "read", "time", "close"]);
        assert_eq!(order(SortBy::Name), ["close", "openat", "read", "time"]);
    }

    #[test]
    fn calls_that_wait_come_last_and_many_rows_are_one() {
        let mut syscalls: Vec<SyscallRow> =
            (1..=13).map(|n| syscall(&format!("call{n:02}"), n, 1, 100 - n)).collect();
        syscalls.push(SyscallRow { waits: true, ..syscall("futex", 5, 0, 1_000_000) });
        let calls = Calls { vdso: &[], syscalls: &syscalls, syscalls_timed: true };
        let entries = calls.entries(SortBy::Time);
        let short = shortened(&entries, SortBy::Time);
        assert_eq!(short.len(), 12);
        let rest = &short[10];
        assert_eq!(rest.name, "3 others, see --all");
        assert_eq!((rest.calls, rest.errors, rest.time_ns), (36, Some(3), Some(89 + 88 + 87)));
        assert_eq!((short[11].name.as_str(), short[11].kind), ("futex", Kind::Waiting));
        // A row that stands for two would not be shorter.
        assert_eq!(shortened(&entries[1..], SortBy::Time).len(), 13);
        let calls = |rows: &[Entry]| rows.iter().map(|row| row.calls).sum::<u64>();
        for sort in [SortBy::Time, SortBy::Calls, SortBy::Errors, SortBy::Name] {
            assert_eq!(calls(&shortened(&entries, sort)), calls(&entries), "{sort:?}");
        }
    }

    #[test]
    fn many_calls_whose_time_is_not_known_are_shown_and_make_no_other_cheaper() {
        let unknown = SyscallRow { timed: Some(40), ..syscall("getppid", 3_000_000, 0, 0) };
        let mut syscalls: Vec<SyscallRow> =
            (0..20_u64).map(|n| syscall(&format!("call{n}"), 10, 0, 50_000 + n)).collect();
        syscalls.push(unknown);
        let calls = Calls { vdso: &[], syscalls: &syscalls, syscalls_timed: true };
        let entries = shortened(&calls.entries(SortBy::Time), SortBy::Time);
        assert_eq!((entries[0].name.as_str(), entries[0].time_ns), ("getppid", None));
        let table = crate::table::render(&entries, 80, false);
        let total = table.lines().last().expect("a total");
        // 200 calls of 5 us, and not 3,000,200 of nothing.
        assert!(total.contains(" 5.001 "), "{table}");
        // A row of unknown time and few calls comes last.
        syscalls.last_mut().expect("a row").calls = 3;
        let calls = Calls { vdso: &[], syscalls: &syscalls, syscalls_timed: true };
        assert_eq!(calls.entries(SortBy::Time).last().map(|e| e.name.as_str()), Some("getppid"));
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
