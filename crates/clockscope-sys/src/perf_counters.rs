//! The CPU's own counters of instructions and cycles, by `perf_event_open(2)`.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, RawFd};

use aya_obj::generated::perf_hw_id::{self, PERF_COUNT_HW_CPU_CYCLES, PERF_COUNT_HW_INSTRUCTIONS};
use aya_obj::generated::perf_type_id::PERF_TYPE_HARDWARE;
use aya_obj::generated::{PERF_EVENT_IOC_DISABLE, PERF_EVENT_IOC_ENABLE, PERF_EVENT_IOC_RESET};

use super::check;
use super::perf_samples::{attributes, open_with};

/// `PERF_FORMAT_TOTAL_TIME_ENABLED`, `_RUNNING` and `_GROUP`, include/uapi/linux/perf_event.h (Linux 6.18).
const TIMES_AND_GROUP: u64 = 1 | 2 | 8;
/// `PERF_IOC_FLAG_GROUP`, include/uapi/linux/perf_event.h (Linux 6.18).
const WHOLE_GROUP: usize = 1;

/// What the counters say of some work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkCounts {
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
    fn count(&mut self, work: &dyn Fn()) -> io::Result<WorkCounts>;
}

/// The counters of the calling thread.
#[derive(Debug)]
pub struct PerfCounters {
    /// Instructions, instructions in user mode, cycles; the first leads.
    group: [File; 3],
}

impl PerfCounters {
    /// Opens the three counters as one group, which is scheduled together.
    ///
    /// # Errors
    ///
    /// `ENOENT` or `EOPNOTSUPP` where there are none, such as in most virtual machines; `EACCES` or
    /// `EPERM` where the caller may not count the kernel (`perf_event_paranoid`); `ENOSYS` where
    /// a filter forbids the call or the kernel was built without it.
    pub fn open() -> io::Result<Self> {
        let leader = event(PERF_COUNT_HW_INSTRUCTIONS, false, None)?;
        let user = event(PERF_COUNT_HW_INSTRUCTIONS, true, Some(leader.as_raw_fd()))?;
        let cycles = event(PERF_COUNT_HW_CPU_CYCLES, false, Some(leader.as_raw_fd()))?;
        Ok(Self { group: [leader, user, cycles] })
    }

    fn control(&self, request: u32) -> io::Result<()> {
        // SAFETY: the request takes a number.
        let result =
            unsafe { libc::ioctl(self.group[0].as_raw_fd(), request as libc::Ioctl, WHOLE_GROUP) };
        check(result).map(drop)
    }
}

impl Counters for PerfCounters {
    fn count(&mut self, work: &dyn Fn()) -> io::Result<WorkCounts> {
        self.control(PERF_EVENT_IOC_RESET)?;
        self.control(PERF_EVENT_IOC_ENABLE)?;
        work();
        self.control(PERF_EVENT_IOC_DISABLE)?;
        let mut bytes = [0; 6 * 8];
        self.group[0].read_exact(&mut bytes)?;
        Ok(from_group(&bytes))
    }
}

/// Takes apart what a group reads as: number, time enabled, time running, and a value each.
fn from_group(bytes: &[u8; 48]) -> WorkCounts {
    let mut words = [0; 6];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_ne_bytes(*bytes);
    }
    let [_number, enabled, running, instructions, instructions_user, cycles] = words;
    let is_complete = running > 0 && enabled == running;
    WorkCounts { instructions, instructions_user, cycles, is_complete }
}

fn event(what: perf_hw_id, is_user_only: bool, group: Option<RawFd>) -> io::Result<File> {
    let mut wanted = attributes(PERF_TYPE_HARDWARE, what as u64);
    wanted.read_format = TIMES_AND_GROUP;
    wanted.set_disabled(group.is_none().into());
    wanted.set_exclude_kernel(is_user_only.into());
    wanted.set_exclude_hv(1);
    open_with(&wanted, 0, -1, group.unwrap_or(-1)).map(File::from)
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
        let expected = WorkCounts {
            instructions: 1005,
            instructions_user: 10,
            cycles: 600,
            is_complete: true,
        };
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
                let calling = crate::loops::Loop::around(|| ());
                let few = counters.count(&|| calling.run(1000)).unwrap();
                let many = counters.count(&|| calling.run(1_001_000)).unwrap();
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
