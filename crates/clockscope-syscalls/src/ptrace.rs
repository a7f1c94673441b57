//! Counts system calls by ptrace: works without privileges, costs two stops per call.

use clockscope_stats::order;
use std::collections::HashMap;
use std::time::Instant;

use super::Breakdown;
use super::tally::{Abi, LAYOUT, SyscallTally};
use crate::arch::abi::AUDIT_ARCH;
use clockscope_sys::ptrace::{self, SyscallStop};

/// A row: process, thread, ABI and number.
type Key = (i32, i32, Abi, u32);

/// A call in progress.
#[derive(Clone, Copy, Debug)]
struct Pending {
    key: Key,
    since: Instant,
}

impl Pending {
    /// Time since the call began, in nanoseconds.
    fn nanos(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_nanos()).expect("no call takes 584 years")
    }
}

/// The counts so far.
#[derive(Debug)]
pub struct PtraceCounter {
    breakdown: Breakdown,
    mark: u64,
    pending: HashMap<i32, Pending>,
    rows: HashMap<Key, SyscallTally>,
}

impl PtraceCounter {
    /// Starts with no counts. Calls with `mark` as sixth argument are clockscope's own.
    pub fn new(breakdown: Breakdown, mark: u64) -> Self {
        Self { breakdown, mark, pending: HashMap::new(), rows: HashMap::new() }
    }

    /// Records the start of a call that has no entry stop: the program's first `execve`.
    pub fn begun(&mut self, process: i32, thread: i32, number: u32) {
        self.enter(process, thread, Abi::Native, number);
    }

    /// Records a stop of a thread before or after a system call.
    pub fn stopped(&mut self, process: i32, thread: i32) {
        match ptrace::syscall_info(thread) {
            Ok(SyscallStop::Entry { arguments, .. }) if arguments[5] == self.mark => {}
            Ok(SyscallStop::Entry { arch, number, .. }) => {
                let abi = if arch == AUDIT_ARCH { Abi::Native } else { Abi::Ia32 };
                let number = u32::try_from(number).unwrap_or(SyscallTally::OTHER);
                self.enter(process, thread, abi, number);
            }
            Ok(SyscallStop::Exit { is_error }) => self.leave(thread, is_error),
            _ => {}
        }
    }

    /// Removes a thread that has ended; its call in progress will not return.
    pub fn gone(&mut self, thread: i32) {
        self.pending.remove(&thread);
    }

    fn enter(&mut self, process: i32, thread: i32, abi: Abi, number: u32) {
        let (process, named) = match self.breakdown {
            Breakdown::Total => (0, 0),
            Breakdown::Process => (process, 0),
            Breakdown::Thread => (process, thread),
        };
        let key = (process, named, abi, number);
        self.row(key).calls += 1;
        self.pending.insert(thread, Pending { key, since: Instant::now() });
    }

    fn leave(&mut self, thread: i32, is_error: bool) {
        let Some(pending) = self.pending.remove(&thread) else { return };
        let nanos = pending.nanos();
        let row = self.row(pending.key);
        row.timed += 1;
        row.errors += u64::from(is_error);
        row.time_ns = row.time_ns.saturating_add(nanos);
        row.max_ns = row.max_ns.max(nanos);
        row.distribute(LAYOUT.bucket_at(LAYOUT.index_of(nanos), 0).lower, 1);
    }

    fn row(&mut self, key: Key) -> &mut SyscallTally {
        let (pid, tid, abi, number) = key;
        self.rows.entry(key).or_insert_with(|| SyscallTally::new(pid, tid, abi, number))
    }

    /// The counts so far, by process, thread, ABI and number. A call in progress is timed until now.
    pub fn read(&self) -> Vec<SyscallTally> {
        let mut rows = self.rows.clone();
        for pending in self.pending.values() {
            if let Some(row) = rows.get_mut(&pending.key) {
                row.timed += 1;
                row.time_ns = row.time_ns.saturating_add(pending.nanos());
            }
        }
        let mut rows: Vec<SyscallTally> = rows.into_values().collect();
        order::by_key(&mut rows, SyscallTally::place);
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_booked_when_they_begin_and_timed_when_they_end() {
        let mut counter = PtraceCounter::new(Breakdown::Process, 1);
        counter.begun(10, 11, 59);
        counter.leave(11, true);
        counter.begun(10, 11, 60);
        counter.gone(11);
        counter.leave(11, false);
        let rows = counter.read();
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[0].pid, rows[0].tid, rows[0].number), (10, 0, 59));
        assert_eq!((rows[0].calls, rows[0].timed, rows[0].errors), (1, 1, 1));
        assert_eq!((rows[1].calls, rows[1].timed, rows[1].errors), (1, 0, 0));
        assert_eq!(rows[0].histogram.iter().map(|(_, count)| count).sum::<u64>(), 1);
    }

    #[test]
    fn a_call_that_has_not_ended_has_the_time_until_now() {
        let mut counter = PtraceCounter::new(Breakdown::Total, 1);
        counter.begun(10, 11, 35);
        counter.leave(11, false);
        counter.begun(10, 12, 35);
        let early = counter.read().remove(0);
        let late = counter.read().remove(0);
        assert_eq!((early.calls, early.timed, late.timed), (2, 2, 2));
        assert!(early.time_ns < late.time_ns, "{early:?} {late:?}");
        counter.leave(12, false);
        assert_eq!(counter.read()[0].timed, 2);
    }
}
