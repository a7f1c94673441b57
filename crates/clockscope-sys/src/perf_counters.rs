//! The CPU's own counters of instructions and cycles, by `perf_event_open(2)`.

use std::array;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, RawFd};

use aya_obj::generated::perf_hw_id::{self, PERF_COUNT_HW_CPU_CYCLES, PERF_COUNT_HW_INSTRUCTIONS};
use aya_obj::generated::perf_type_id::PERF_TYPE_HARDWARE;

use super::perf_samples::{attributes, open_with};

/// `PERF_FORMAT_TOTAL_TIME_ENABLED`, `_RUNNING` and `_GROUP`, include/uapi/linux/perf_event.h (Linux 6.18).
const TIMES_AND_GROUP: u64 = 1 | 2 | 8;

/// The words that a group of two counters reads as: their number, time enabled, time running, two values.
type Reading = [u64; 5];

/// Instructions and cycles of the calling thread, in user mode and in the kernel.
#[derive(Debug)]
pub struct PerfCounters {
    /// Instructions (the group's leader) and cycles.
    group: [File; 2],
}

impl PerfCounters {
    /// Opens both counters as one group, which is scheduled together.
    ///
    /// # Errors
    ///
    /// `ENOENT` or `EOPNOTSUPP` without hardware counters, such as in most virtual machines; `EACCES` or `EPERM` if the
    /// caller may not count the kernel (`perf_event_paranoid`); `ENOSYS` if a filter forbids the call or the kernel was
    /// built without it.
    pub fn open() -> io::Result<Self> {
        let instructions = event(PERF_COUNT_HW_INSTRUCTIONS, -1)?;
        let cycles = event(PERF_COUNT_HW_CPU_CYCLES, instructions.as_raw_fd())?;
        Ok(Self { group: [instructions, cycles] })
    }

    /// Runs `work`, and gives the instructions and the cycles that it took.
    ///
    /// # Errors
    ///
    /// If the counters cannot be read, stand still, or counted for a part of the time only.
    pub fn count(&self, work: impl FnOnce()) -> io::Result<[u64; 2]> {
        let before = self.read()?;
        work();
        passed(before, self.read()?)
            .ok_or_else(|| io::Error::other("they did not count all the time"))
    }

    fn read(&self) -> io::Result<Reading> {
        let mut bytes = [0; size_of::<Reading>()];
        (&self.group[0]).read_exact(&mut bytes)?;
        let (words, _) = bytes.as_chunks();
        Ok(array::from_fn(|place| u64::from_ne_bytes(words[place])))
    }
}

/// The counts between two readings, if the counters ran all the time.
fn passed(before: Reading, after: Reading) -> Option<[u64; 2]> {
    let [_number, enabled, running, instructions, cycles] =
        array::from_fn(|place| after[place].wrapping_sub(before[place]));
    let is_complete = enabled == running && instructions > 0 && cycles > 0;
    is_complete.then_some([instructions, cycles])
}

fn event(what: perf_hw_id, group: RawFd) -> io::Result<File> {
    let mut wanted = attributes(PERF_TYPE_HARDWARE, what as u64);
    wanted.read_format = TIMES_AND_GROUP;
    wanted.set_exclude_hv(1);
    open_with(&wanted, 0, -1, group).map(File::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_that_stand_still_or_are_shared_have_counted_nothing() {
        let before = [2, 500, 500, 100, 60];
        assert_eq!(passed(before, [2, 900, 900, 1105, 660]), Some([1005, 600]));
        assert_eq!(passed(before, [2, 900, 700, 600, 360]), None, "shared");
        assert_eq!(passed(before, [2, 900, 900, 100, 60]), None, "they stand still");
        assert_eq!(passed(before, before), None);
    }

    /// Hardware counters, if there are any, count a loop of known length; without them the error is one of the
    /// documented ones.
    #[test]
    fn counters_count_or_say_why_not() {
        let error = match PerfCounters::open() {
            Ok(counters) => {
                let calling = crate::loops::Loop::around(|| ());
                let few = counters.count(|| calling.run(1000));
                let many = counters.count(|| calling.run(1_001_000));
                if let (Ok(few), Ok(many)) = (few, many) {
                    assert!(many[0] - few[0] >= 1_000_000, "{few:?} {many:?}");
                }
                return;
            }
            Err(error) => error.raw_os_error().unwrap_or_default(),
        };
        let known = [libc::ENOENT, libc::EOPNOTSUPP, libc::EACCES, libc::EPERM, libc::ENOSYS];
        assert!(known.contains(&error), "{error}");
    }
}
