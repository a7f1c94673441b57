//! System calls that transfer data and may wait meanwhile, for example for the reader of a full pipe.
//!
//! If a tracer's stop arrives while such a call waits, the kernel ends the call with the bytes transferred so far, and
//! restarts it only if there are none. A program that ignores the result loses the rest. So the tracer stops threads
//! when none of them waits in such a call, if that happens soon.

use std::fmt;
use std::time::{Duration, Instant};

use clockscope_sys::proc_text;

/// Longest wait for transfers before threads are stopped, while the tracer serves all traced processes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// Longest wait while other processes may be stopped and wait for the tracer.
pub(crate) const SHORT_PATIENCE: Duration = Duration::from_millis(20);

/// Time between two checks of the threads.
pub(crate) const INTERVAL: Duration = Duration::from_micros(500);

/// A thread that runs for this much processor time without sleeping is in no transfer.
const RUNS_IN_NONE: Duration = Duration::from_millis(1);

/// Threads that have not yet been seen outside of transfers.
#[derive(Debug)]
pub(crate) struct Transfers {
    deadline: Instant,
    /// Each thread, with its processor time when it was first seen running since it was last seen sleeping.
    left: Vec<(i32, Option<Duration>)>,
    /// Whether no transfer was seen since all threads were last listed.
    is_clean: bool,
    /// Whether to wait also for running threads that were not seen in a transfer.
    is_thorough: bool,
}

impl Transfers {
    /// Starts to wait for transfers, at most for this time.
    pub(crate) fn new(patience: Duration) -> Self {
        let deadline = Instant::now() + patience;
        Self { deadline, left: Vec::new(), is_clean: false, is_thorough: true }
    }

    /// Like [`Self::new`], for threads that have mostly been seen outside of transfers just now.
    pub(crate) fn again(patience: Duration) -> Self {
        Self { is_thorough: false, ..Self::new(patience) }
    }

    /// Checks the threads once. Returns whether to check again: a thread may be in a transfer, and there is time left.
    pub(crate) fn go_on<T: IntoIterator<Item = i32>>(&mut self, all: impl FnOnce() -> T) -> bool {
        if self.left.is_empty() {
            // List all threads again: one may have begun a transfer while another's transfer ended.
            let is_thorough = self.is_thorough;
            let is_looked_at = |thread: &i32| is_thorough || doing(*thread) == Doing::Transfers;
            let all = all().into_iter().filter(is_looked_at);
            self.left = all.map(|thread| (thread, None)).collect();
            self.is_clean = true;
        }
        self.left.retain_mut(|(thread, ran_before)| match doing(*thread) {
            Doing::Transfers => {
                (*ran_before, self.is_clean) = (None, false);
                true
            }
            Doing::Runs => ran(*thread).is_some_and(|now| {
                now.saturating_sub(*ran_before.get_or_insert(now)) < RUNS_IN_NONE
            }),
            Doing::Other => false,
        });
        !(self.left.is_empty() && self.is_clean) && Instant::now() < self.deadline
    }
}

/// Activity of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// The thread waits in a transfer.
    Transfers,
    /// The thread runs or is runnable, perhaps in a transfer.
    Runs,
    /// The thread waits for something else, or is gone.
    Other,
}

/// Activity of a thread that this process may trace.
fn doing(thread: i32) -> Doing {
    parse(&proc_text::read(format!("/proc/{thread}/syscall")).unwrap_or_default())
}

/// Parses `/proc/PID/syscall` (`proc_pid_syscall(5)`): the number of the call, its six arguments, and two addresses.
/// Pure.
fn parse(line: &str) -> Doing {
    let mut words = line.split_whitespace();
    let number = words.next();
    if number == Some("running") {
        return Doing::Runs;
    }
    let argument =
        |word: &str| u64::from_str_radix(word.strip_prefix("0x").unwrap_or_default(), 16).ok();
    let arguments: Vec<u64> = words.map_while(argument).collect();
    match number.and_then(|number| number.parse().ok()) {
        Some(number) if is_transfer(number, &arguments) => Doing::Transfers,
        _ => Doing::Other,
    }
}

/// Whether a stop makes this call return early. Other transfers are safe: `tee`, `vmsplice` and reads without
/// `MSG_WAITALL` do not wait once they have transferred something, and waits for files and disks are not interrupted by
/// a stop.
fn is_transfer(number: i64, arguments: &[u64]) -> bool {
    let waits_for_all = |flags: usize| {
        arguments
            .get(flags)
            .is_some_and(|flags| flags & libc::MSG_WAITALL.unsigned_abs() as u64 != 0)
    };
    match number {
        libc::SYS_write
        | libc::SYS_writev
        | libc::SYS_pwrite64
        | libc::SYS_pwritev
        | libc::SYS_pwritev2
        | libc::SYS_sendto
        | libc::SYS_sendmsg
        | libc::SYS_sendmmsg
        | libc::SYS_sendfile
        | libc::SYS_splice => true,
        libc::SYS_recvfrom | libc::SYS_recvmmsg => waits_for_all(3),
        libc::SYS_recvmsg => waits_for_all(2),
        _ => false,
    }
}

/// Processor time of a thread as far as the kernel has accounted it: for a running thread, up to the last tick.
/// `thread` is a path below `/proc`. `None` if the thread is gone, and on a kernel without `CONFIG_SCHED_INFO`.
pub(crate) fn ran(thread: impl fmt::Display) -> Option<Duration> {
    // Documentation/scheduler/sched-stats.rst (Linux 6.18): nanoseconds on the processor, then two more numbers.
    let text = proc_text::read(format!("/proc/{thread}/schedstat")).ok()?;
    Some(Duration::from_nanos(text.split(' ').next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_thread_does_is_read() {
        let call = |number: i64, flags: &str| {
            let arguments = format!("0x3 0x7ffd10 {flags} {flags} 0x0 0x0 0x7ffd08 0x7f1044");
            parse(&format!("{number} {arguments}\n"))
        };
        assert_eq!(call(libc::SYS_write, "0x10000"), Doing::Transfers);
        assert_eq!(call(libc::SYS_sendfile, "0x0"), Doing::Transfers);
        for number in [libc::SYS_recvfrom, libc::SYS_recvmsg, libc::SYS_recvmmsg] {
            assert_eq!(call(number, "0x100"), Doing::Transfers);
            assert_eq!(call(number, "0x4000"), Doing::Other);
        }
        assert_eq!(call(libc::SYS_read, "0x100"), Doing::Other);
        assert_eq!(parse("running\n"), Doing::Runs);
        for other in ["-1 0x7ffd08 0x7f1044\n", "", "45 0x3\n"] {
            assert_eq!(parse(other), Doing::Other, "{other}");
        }
    }
}
