//! CPU affinity of the calling thread, and its involuntary context switches.

use std::io;

use super::check;

/// More CPUs than Linux supports (`NR_CPUS` is at most 8,192).
const CPUS_MAX: usize = 8192;
const WORD_BITS: usize = u64::BITS as usize;

/// A set of CPUs as the kernel takes it.
type Mask = [u64; CPUS_MAX / WORD_BITS];

/// The CPUs that the calling thread may run on, in ascending order.
///
/// # Errors
///
/// Those of `sched_getaffinity(2)`; none are known for the calling thread.
pub fn allowed() -> io::Result<Vec<u32>> {
    let mut mask: Mask = [0; CPUS_MAX / WORD_BITS];
    // SAFETY: the pointer and the size are those of a local.
    let written = unsafe {
        libc::syscall(libc::SYS_sched_getaffinity, 0, size_of::<Mask>(), mask.as_mut_ptr())
    };
    check(written)?;
    let is_set = |(_, cpu): &(u32, usize)| mask[cpu / WORD_BITS] >> (cpu % WORD_BITS) & 1 == 1;
    Ok((0..).zip(0..CPUS_MAX).filter(is_set).map(|(number, _)| number).collect())
}

/// Lets the calling thread run on these CPUs only.
///
/// # Errors
///
/// `EINVAL` if none of them is online and allowed by the cgroup; `EPERM` where a filter forbids it.
pub fn restrict_to(cpus: &[u32]) -> io::Result<()> {
    let mut mask: Mask = [0; CPUS_MAX / WORD_BITS];
    for cpu in cpus {
        let cpu = *cpu as usize;
        let word = mask.get_mut(cpu / WORD_BITS).ok_or(io::ErrorKind::InvalidInput)?;
        *word |= 1 << (cpu % WORD_BITS);
    }
    // SAFETY: as above; the kernel only reads.
    let result =
        unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, size_of::<Mask>(), mask.as_ptr()) };
    check(result).map(drop)
}

/// The CPU that the calling thread is on now, 0 if the kernel does not report it.
pub fn current() -> u32 {
    // SAFETY: takes nothing.
    unsafe { libc::sched_getcpu() }.max(0).cast_unsigned()
}

/// How often the calling thread was taken off its CPU although it could have run on.
pub fn involuntary_switches() -> u64 {
    // SAFETY: all-zero is a value of this plain struct; the kernel fills it in.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage
    };
    usage.ru_nivcsw.max(0).cast_unsigned()
}

/// The CPUs that a file of `/sys` lists.
pub(super) fn listed(file: &str) -> io::Result<Vec<i32>> {
    let text = std::fs::read_to_string(file)?;
    cpus(&text).ok_or_else(|| io::Error::other(format!("cannot read {file}")))
}

/// The numbers in a list such as `0-3,7`.
fn cpus(list: &str) -> Option<Vec<i32>> {
    let mut all = Vec::new();
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (i32, i32) = (first.parse().ok()?, last.parse().ok()?);
        (first <= last && last - first < 1 << 16).then(|| all.extend(first..=last))?;
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_read_or_refused() {
        assert_eq!(cpus("0-1\n"), Some(vec![0, 1]));
        assert_eq!(cpus("0,2-3,7"), Some(vec![0, 2, 3, 7]));
        for wrong in ["", "3-1", "0-x", "0-2000000000"] {
            assert_eq!(cpus(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_thread_runs_where_it_is_told_to() {
        std::thread::spawn(|| {
            let cpus = allowed().unwrap();
            assert!(!cpus.is_empty());
            for cpu in cpus {
                restrict_to(&[cpu]).unwrap();
                assert_eq!((allowed().unwrap(), current()), (vec![cpu], cpu));
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn cpus_that_do_not_exist_are_refused() {
        assert!(restrict_to(&[8191]).is_err());
        assert!(restrict_to(&[u32::MAX]).is_err());
        assert!(restrict_to(&[]).is_err());
    }
}
