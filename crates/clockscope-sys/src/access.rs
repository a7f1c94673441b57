//! Access rights, user ids and CPU time of this and other processes.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{Access, AtFlags, CWD};
use rustix::process::{getegid, geteuid, getgid, getuid};

/// True if this process may execute the file.
pub fn is_executable(path: &Path) -> bool {
    rustix::fs::accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS).is_ok()
}

/// True if a process that executes the file gets capabilities.
fn has_file_capabilities(path: &Path) -> bool {
    // The longest version of `struct vfs_ns_cap_data` has 24 bytes.
    let mut value = [0_u8; 64];
    rustix::fs::getxattr(path, c"security.capability", &mut value).is_ok_and(|size| size > 0)
}

/// The folder of a file, as it is named.
pub fn folder(target: &Path) -> &Path {
    target.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."))
}

/// The effective user id, which decides what this process may do.
pub fn effective_uid() -> u32 {
    geteuid().as_raw()
}

/// The real user and group id, by which the kernel decides what this process may trace.
pub fn real_ids() -> (u32, u32) {
    (getuid().as_raw(), getgid().as_raw())
}

/// The limit on the address space of a process in bytes (`RLIMIT_AS`); `None` if there is none or
/// it is not known.
pub fn address_space_limit(pid: i32) -> Option<u64> {
    let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: asks only; the pointer is to a local of the right type.
    let result = unsafe { libc::prlimit64(pid, libc::RLIMIT_AS, std::ptr::null(), &raw mut limit) };
    (result == 0 && limit.rlim_cur != libc::RLIM64_INFINITY).then_some(limit.rlim_cur)
}

/// User plus system time of a process so far, in nanosecond resolution. Ended threads are included, other processes are
/// not. The time of an ended process can be read until its parent has waited for it.
///
/// # References
///
/// `clock_getcpuclockid(3)`; `MAKE_PROCESS_CPUCLOCK` and `CPUCLOCK_SCHED` in
/// `include/linux/posix-timers_types.h` (Linux 6.18)
pub fn cpu_time(pid: i32) -> Option<Duration> {
    if pid <= 0 {
        return None; // it would be that of this process
    }
    let time = fastclock::sys::gettime(!pid << 3 | 2).ok()?;
    let (seconds, nanos) = (u64::try_from(time.sec).ok()?, u32::try_from(time.nsec).ok()?);
    Some(Duration::new(seconds, nanos))
}

/// Time that a thread has spent on run queues, waiting for a CPU; zero if the kernel does not tell
/// (`CONFIG_SCHED_INFO`) or the thread is gone. The time of an ended thread can be read until it has been waited for.
///
/// # References
///
/// `proc_pid_schedstat` in `fs/proc/base.c` (Linux 6.18); `Documentation/scheduler/sched-stats.rst`
pub fn queued(thread: i32) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{thread}/schedstat")).unwrap_or_default();
    text.split(' ')
        .nth(1)
        .and_then(|ns| ns.parse().ok())
        .map_or(Duration::ZERO, Duration::from_nanos)
}

/// The threads of a process; none if it is gone.
pub fn threads_of(pid: i32) -> Vec<i32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks.filter_map(|task| task.file_name().to_str()?.parse().ok()).collect()
}

/// True if executing the file gives more privileges, which a traced process does not get.
pub fn gives_privileges(path: &Path) -> bool {
    let bits = path.metadata().is_ok_and(|file| {
        let mode = file.permissions().mode();
        (mode & 0o4000 != 0 && file.uid() != effective_uid())
            || (mode & 0o2010 == 0o2010 && file.gid() != getegid().as_raw())
    });
    bits || has_file_capabilities(path)
}

/// True if a process has just executed a file that gives privileges, without getting them.
pub fn lacks_privileges(pid: i32) -> bool {
    gives_privileges(Path::new(&format!("/proc/{pid}/exe")))
}

/// True if the kernel denies this process and its children to execute memory that they have written (`PR_SET_MDWE`, by
/// which systemd does `MemoryDenyWriteExecute=`). The flag cannot be cleared.
pub fn denies_written_code() -> bool {
    // SAFETY: takes numbers. Kernels before Linux 6.3 give an error, which is negative.
    let flags = unsafe { libc::prctl(libc::PR_GET_MDWE, 0, 0, 0, 0) };
    u32::try_from(flags).is_ok_and(|flags| flags & libc::PR_MDWE_REFUSE_EXEC_GAIN != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_time_of_this_process_is_read() {
        let own = i32::try_from(std::process::id()).unwrap();
        let before = cpu_time(own).unwrap();
        let mut sum = 0_u64;
        while cpu_time(own).unwrap() == before {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(cpu_time(own).unwrap() > before);
        assert_eq!(cpu_time(0), None);
    }
}
