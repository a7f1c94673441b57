//! The CPU's own counters of instructions and cycles, by `perf_event_open(2)`.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, RawFd};

use super::perf_event::{DISABLED, EXCLUDE_HYPERVISOR, EXCLUDE_KERNEL, Event};

/// `PERF_TYPE_HARDWARE` and its events, include/uapi/linux/perf_event.h (Linux 6.18).
const HARDWARE: u32 = 0;
const CPU_CYCLES: u64 = 0;
const INSTRUCTIONS: u64 = 1;
/// `PERF_FORMAT_TOTAL_TIME_ENABLED`, `_RUNNING` and `_GROUP`.
const TIMES_AND_GROUP: u64 = 1 | 2 | 8;
/// `PERF_EVENT_IOC_ENABLE`, `_DISABLE` and `_RESET`, and the flag for the whole group.
const ENABLE: u64 = 0x2400;
const DISABLE: u64 = 0x2401;
const RESET: u64 = 0x2403;
const WHOLE_GROUP: usize = 1;
/// What the counters say of some work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Instructions in user mode and in the kernel.
    pub instructions: u64,
    /// Instructions in user mode.
    pub instructions_user: u64,
    /// Cycles in user mode and in the kernel.
    pub cycles: u64,
    /// False if the counters were given to somebody else for a part of the time.
    pub is_complete: bool,
}

/// Somebody who counts what work takes.
pub trait Counters {
    /// Does the work and says what the calling thread took for it.
    ///
    /// # Errors
    ///
    /// When the counters cannot be read.
    fn count(&mut self, work: &dyn Fn()) -> io::Result<Counts>;
}

/// The counters of the calling thread.
#[derive(Debug)]
pub struct PerfCounters {
    /// Instructions, instructions in user mode, cycles; the first leads.
    group: [File; 3],
}

impl PerfCounters {
    /// Opens them.
    ///
    /// # Errors
    ///
    /// `ENOENT` or `EOPNOTSUPP` where there are none, such as in most virtual machines; `EACCES` or
    /// `EPERM` where the caller may not count the kernel (`perf_event_paranoid`); `ENOSYS` where
    /// a filter forbids the call or the kernel was built without it.
    pub fn open() -> io::Result<Self> {
        let leader = event(INSTRUCTIONS, 0, None)?;
        let user = event(INSTRUCTIONS, EXCLUDE_KERNEL, Some(leader.as_raw_fd()))?;
        let cycles = event(CPU_CYCLES, 0, Some(leader.as_raw_fd()))?;
        Ok(Self { group: [leader, user, cycles] })
    }

    fn control(&self, request: u64) -> io::Result<()> {
        // SAFETY: the request takes a number.
        let result = unsafe { libc::ioctl(self.group[0].as_raw_fd(), request, WHOLE_GROUP) };
        if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

impl Counters for PerfCounters {
    fn count(&mut self, work: &dyn Fn()) -> io::Result<Counts> {
        self.control(RESET)?;
        self.control(ENABLE)?;
        work();
        self.control(DISABLE)?;
        let mut bytes = [0; 6 * 8];
        self.group[0].read_exact(&mut bytes)?;
        Ok(from_group(&bytes))
    }
}

/// Takes apart what a group reads as: number, time enabled, time running, and a value each.
fn from_group(bytes: &[u8; 48]) -> Counts {
    let mut words =
        bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()));
    let mut next = || words.next().unwrap_or(0);
    let (_number, enabled, running) = (next(), next(), next());
    Counts {
        instructions: next(),
        instructions_user: next(),
        cycles: next(),
        is_complete: running > 0 && enabled == running,
    }
}

fn event(config: u64, flags: u64, group: Option<RawFd>) -> io::Result<File> {
    let leads = if group.is_none() { DISABLED } else { 0 };
    let event = Event {
        kind: HARDWARE,
        config,
        read_format: TIMES_AND_GROUP,
        flags: flags | leads | EXCLUDE_HYPERVISOR,
        group,
    };
    event.open().map(File::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_reads_as_times_and_three_counts() {
        let bytes = |words: [u64; 6]| {
            let mut bytes = [0; 48];
            for (word, place) in words.iter().zip(bytes.chunks_exact_mut(8)) {
                place.copy_from_slice(&word.to_ne_bytes());
            }
            bytes
        };
        let expected =
            Counts { instructions: 1005, instructions_user: 10, cycles: 600, is_complete: true };
        assert_eq!(from_group(&bytes([3, 900, 900, 1005, 10, 600])), expected);
        assert!(!from_group(&bytes([3, 900, 450, 500, 5, 300])).is_complete);
        assert!(!from_group(&bytes([3, 900, 0, 0, 0, 0])).is_complete, "they never ran");
    }

    /// Where there are counters, they count a loop of known length; where there are none, the
    /// error is one of those that are documented.
    #[test]
    fn counters_count_or_say_why_not() {
        match PerfCounters::open() {
            Ok(mut counters) => {
                let calling = crate::loops::Loops::around(|| ());
                let few = counters.count(&|| calling.plain.run(1000)).unwrap();
                let many = counters.count(&|| calling.plain.run(1_001_000)).unwrap();
                if many.is_complete && many.instructions_user > 0 {
                    assert!(many.instructions_user - few.instructions_user >= 1_000_000);
                }
            }
            Err(error) => {
                let known = [libc::ENOENT, libc::EOPNOTSUPP, libc::EACCES, libc::EPERM];
                let number = error.raw_os_error();
                let is_known = number.is_some_and(|n| known.contains(&n) || n == libc::ENOSYS);
                assert!(is_known, "{error}");
            }
        }
    }
}
