//! Checks a process before it is changed.

use std::fmt::Display;
use std::ops::Range;

use super::threads::Threads;
use crate::attach::{Asker, Refusal, command_name};
use crate::proc_stat::ProcStat;
use clockscope_sys::access::{self, threads_of};
use clockscope_sys::{memory, proc_text, signals};
use vdso_reader::maps::{self, Mapping};

/// `PF_KTHREAD`, include/linux/sched.h (Linux 6.18).
const PF_KTHREAD: u64 = 0x0020_0000;
/// `PF_EXITING`, include/linux/sched.h (Linux 6.18).
const PF_EXITING: u64 = 0x4;
/// Maximum number of parents, or tracers of tracers, to follow: they may change meanwhile, even into a ring.
const DEEPEST: usize = 1000;

/// The relevant fields of `/proc/PID/status`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known {
    /// Process id, also if the given number was that of another thread.
    pub(crate) pid: i32,
    tracer: i32,
    /// Id of the process's parent, or of its reaper by now.
    pub(crate) parent: i32,
    user: u32,
    is_zombie: bool,
}

/// Other processes that share a process's memory, as far as this process may know: vfork children that have not
/// executed a program yet, and processes made with `CLONE_VM`. Kernel threads do not count: they use a program's memory
/// (vhost and io_uring of older kernels), but execute nothing of it.
pub(super) fn sharers_of(pid: i32) -> Vec<i32> {
    let Ok(all) = std::fs::read_dir("/proc") else { return Vec::new() };
    let numbers = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let shares = |other: &i32| memory::is_shared_with(pid, *other) && !is_of_kernel(*other);
    numbers.filter(|other| *other != pid).filter(shares).collect()
}

/// Reads `/proc/PID/status`.
pub(crate) fn status_of(number: i32) -> Option<Known> {
    parse(&proc_text::read(format!("/proc/{number}/status")).ok()?)
}

/// Whether `tracer` traces process `own` or an ancestor of it, directly or through other tracers. Pure: `status_of`
/// reads.
///
/// Only its tracer resumes a stopped process, so two processes that stop each other never continue.
fn is_traced_by(own: i32, tracer: i32, status_of: impl Fn(i32) -> Option<Known>) -> bool {
    let status_of = &status_of;
    let up = |from: i32, next: fn(&Known) -> i32| {
        std::iter::successors(status_of(from), move |known| status_of(next(known))).take(DEEPEST)
    };
    up(own, |known| known.parent)
        .any(|known| up(known.tracer, |known| known.tracer).any(|above| above.pid == tracer))
}

/// Looks a process up and refuses it if there is a reason.
pub(super) fn known(number: i32) -> Result<Known, Refusal> {
    let known = status_of(number).ok_or(Refusal::Gone)?;
    if u32::try_from(known.pid) == Ok(std::process::id()) {
        return Err(Refusal::Own);
    }
    if is_of_kernel(known.pid) {
        return Err(Refusal::Kernel);
    }
    if known.tracer != 0 {
        return Err(Refusal::Traced(command_name(known.tracer), known.tracer));
    }
    if is_traced_by(std::process::id().cast_signed(), known.pid, status_of) {
        return Err(Refusal::TracesOwn);
    }
    if known.is_zombie && threads_of(known.pid).len() < 2 {
        return Err(Refusal::Zombie);
    }
    Ok(known)
}

/// Checks whether a process can be attached to, as far as this is visible without changing it.
///
/// # Errors
///
/// The reason against attaching.
pub fn look(number: i32) -> Result<(), Refusal> {
    let known = known(number)?;
    not_frozen(known.pid)?;
    // Opening this file needs the rights of a tracer.
    match std::fs::File::open(format!("/proc/{}/mem", known.pid)) {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            Err(known.not_allowed())
        }
        _ => Ok(()),
    }
}

impl Known {
    /// Becomes the tracer of all threads of this process.
    pub(super) fn seize(&self) -> Result<Threads, Refusal> {
        Threads::seize(self.pid).map_err(|error| match error.raw_os_error() {
            Some(libc::ESRCH) => Refusal::Gone,
            _ => self.not_allowed(),
        })
    }

    /// The reason why the kernel does not allow tracing this process.
    fn not_allowed(&self) -> Refusal {
        let own = access::effective_uid();
        match known(self.pid) {
            Err(refusal) => refusal,
            Ok(_) if own == 0 => Refusal::NotAllowed(self.user, Asker::Root),
            Ok(_) if own != self.user => Refusal::NotAllowed(self.user, Asker::Another),
            Ok(_) => Refusal::NotAllowed(self.user, Asker::Same),
        }
    }
}

fn parse(status: &str) -> Option<Known> {
    let field = |name| proc_text::field(status, name);
    Some(Known {
        pid: field("Tgid:")?.parse().ok()?,
        tracer: field("TracerPid:")?.parse().ok()?,
        parent: field("PPid:")?.parse().ok()?,
        user: field("Uid:")?.split_whitespace().next()?.parse().ok()?,
        is_zombie: field("State:").is_some_and(|state| state.starts_with(['Z', 'X'])),
    })
}

fn is_of_kernel(pid: i32) -> bool {
    flags(pid).is_some_and(|flags| flags & PF_KTHREAD != 0)
}

/// The kernel's flags of a task: field 9 of `proc_pid_stat(5)`; `None` if it is gone.
fn flags(task: impl Display) -> Option<u64> {
    ProcStat::of(task)?.fields([9]).map(|[flags]| flags)
}

/// Refuses a process whose control group is frozen, as far as the kernel shows it: by `cgroup.freeze`, or by the
/// freezer of cgroup version 1, which leaves threads where they sleep.
pub(super) fn not_frozen(pid: i32) -> Result<(), Refusal> {
    // kernel/signal.c (Linux 5.2)
    let waits_in_trap = |thread: i32| {
        proc_text::read(format!("/proc/{pid}/task/{thread}/wchan"))
            .is_ok_and(|place| place.trim_end() == "do_freezer_trap")
    };
    let in_group_of_first_version = || {
        let groups = proc_text::read(format!("/proc/{pid}/cgroup")).ok()?;
        let group = groups.lines().find_map(|line| line.split_once(":freezer:"))?.1;
        proc_text::read(format!("/sys/fs/cgroup/freezer{group}/freezer.state")).ok()
    };
    let is_frozen = threads_of(pid).into_iter().any(waits_in_trap)
        || in_group_of_first_version().is_some_and(|state| state.trim_end() == "FROZEN");
    if is_frozen { Err(Refusal::Frozen) } else { Ok(()) }
}

/// Whether a process has ended, or all its threads are ending.
pub(super) fn is_ending(pid: i32) -> bool {
    let is_exiting = |thread: i32| {
        let place = format!("{pid}/task/{thread}");
        let status = proc_text::read(format!("/proc/{place}/status")).unwrap_or_default();
        flags(place).is_none_or(|flags| flags & PF_EXITING != 0) || is_being_killed(&status)
    };
    threads_of(pid).into_iter().all(is_exiting)
}

/// Whether `SIGKILL` is pending for a thread, for example because another thread has ended the process. Pure.
fn is_being_killed(status: &str) -> bool {
    const KILL: u64 = 1 << (libc::SIGKILL - 1);
    ["SigPnd:", "ShdPnd:"].iter().any(|name| signals::signal_set(status, name) & KILL != 0)
}

/// The mappings of a process.
pub(super) fn mappings(pid: i32) -> Result<Vec<Mapping>, Refusal> {
    proc_text::read(format!("/proc/{pid}/maps"))
        .map(|text| maps::parse(&text))
        .map_err(Refusal::at("reading its mappings"))
}

/// Whether a process has private executable memory without a file in exactly this range.
pub(super) fn has_mapped(pid: i32, range: Range<u64>) -> bool {
    mappings(pid).is_ok_and(|maps| {
        maps.iter().any(|mapping| {
            (mapping.start..mapping.end) == range
                && mapping.perms == "r-xp"
                && mapping.name.is_empty()
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_of_a_process_is_read() {
        let status = "Name:\tredis-server\nState:\tS (sleeping)\nTgid:\t12\nPid:\t13\n\
                      PPid:\t7\nTracerPid:\t99\nUid:\t105\t105\t105\t105\n";
        let known = parse(status).unwrap();
        assert_eq!((known.pid, known.parent, known.tracer, known.user), (12, 7, 99, 105));
        assert!(!known.is_zombie);
        assert!(parse("").is_none());
    }

    #[test]
    fn who_traces_this_process_or_one_above_it_is_known() {
        // 20 is a descendant of 10, which 30 traces, which 40 traces; 50 and 51 trace each other.
        let status_of = |pid: i32| {
            let (parent, tracer) = match pid {
                20 => (10, 0),
                10 => (1, 30),
                30 => (1, 40),
                40 => (1, 0),
                50 => (1, 51),
                51 => (1, 50),
                1 => (0, 0),
                _ => return None,
            };
            Some(Known { pid, parent, tracer, ..Known::default() })
        };
        for (own, tracer) in [(20, 30), (10, 40), (20, 40), (50, 50)] {
            assert!(is_traced_by(own, tracer, status_of), "{own} {tracer}");
        }
        for (own, tracer) in [(20, 10), (20, 1), (30, 30), (50, 30), (20, 50)] {
            assert!(!is_traced_by(own, tracer, status_of), "{own} {tracer}");
        }
    }

    #[test]
    fn who_is_about_to_end_is_known() {
        assert!(!is_ending(std::process::id().cast_signed()));
        assert!(is_ending(i32::MAX));
        assert!(is_being_killed("SigPnd:\t0000000000000100\nShdPnd:\t0000000000000000\n"));
        assert!(is_being_killed("SigPnd:\t0000000000000000\nShdPnd:\t0000000000000101\n"));
        assert!(!is_being_killed("SigPnd:\t0000000000000000\nShdPnd:\t0000000000000001\n"));
    }

    #[test]
    fn a_thread_of_the_kernel_and_this_process_are_told() {
        assert_eq!(known(std::process::id().cast_signed()), Err(Refusal::Own));
        assert!(!is_of_kernel(1));
        assert_eq!(known(i32::MAX), Err(Refusal::Gone));
    }
}
