//! What this process may do with files, and who it is.

use std::ffi::CString;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

/// True if this process may execute the file.
#[must_use]
pub fn is_executable(path: &Path) -> bool {
    CString::new(path.as_os_str().as_bytes()).is_ok_and(|path| {
        // SAFETY: the pointer is to a null-terminated string.
        unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), libc::X_OK, libc::AT_EACCESS) == 0 }
    })
}

/// True if the file gives capabilities to who executes it.
#[must_use]
pub(crate) fn has_file_capabilities(path: &Path) -> bool {
    CString::new(path.as_os_str().as_bytes()).is_ok_and(|path| {
        // SAFETY: both pointers are to null-terminated strings; no value is asked for.
        unsafe {
            libc::getxattr(path.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0)
                > 0
        }
    })
}

/// The effective user id.
#[must_use]
pub fn effective_uid() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// The limit on the address space of a process in bytes (`RLIMIT_AS`); `None` if there is none or
/// it is not known.
#[must_use]
pub fn address_space_limit(pid: i32) -> Option<u64> {
    let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: asks only; the pointer is to a local of the right type.
    let result = unsafe { libc::prlimit64(pid, libc::RLIMIT_AS, std::ptr::null(), &raw mut limit) };
    (result == 0 && limit.rlim_cur != libc::RLIM64_INFINITY).then_some(limit.rlim_cur)
}

/// Goes to the IPC namespace of a process, if this is in another one: shared memory made from now on can
/// be attached there.
///
/// # Errors
///
/// `EPERM` without the right (`CAP_SYS_ADMIN` in both); `ENOENT` when the process is gone.
///
/// # References
///
/// `setns(2)`, `ipc_namespaces(7)`
pub fn join_ipc_namespace(pid: i32) -> std::io::Result<()> {
    let namespace = |pid: &str| {
        std::fs::metadata(format!("/proc/{pid}/ns/ipc")).map(|file| (file.dev(), file.ino()))
    };
    if namespace(&pid.to_string())? == namespace("self")? {
        return Ok(());
    }
    let file = std::fs::File::open(format!("/proc/{pid}/ns/ipc"))?;
    // SAFETY: takes numbers; the descriptor is open.
    let result = unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWIPC) };
    if result == -1 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

/// User and system time of a process so far, to the nanosecond, its ended threads included and no
/// other process. One that has ended has it until it is waited for.
///
/// # References
///
/// `clock_getcpuclockid(3)`; `MAKE_PROCESS_CPUCLOCK` and `CPUCLOCK_SCHED` in
/// `include/linux/posix-timers_types.h` (Linux 6.18)
#[must_use]
pub fn cpu_time(pid: i32) -> Option<Duration> {
    if pid <= 0 {
        return None; // it would be that of this process
    }
    let clock = !pid << 3 | 2;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a local of the right type.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return None;
    }
    let (seconds, nanos) = (u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?);
    Some(Duration::new(seconds, nanos))
}

/// True if executing the file gives more privileges, which a traced process does not get.
#[must_use]
pub fn gives_privileges(path: &Path) -> bool {
    let bits = path.metadata().is_ok_and(|file| {
        let mode = file.permissions().mode();
        (mode & 0o4000 != 0 && file.uid() != effective_uid())
            || (mode & 0o2010 == 0o2010 && file.gid() != effective_gid())
    });
    bits || has_file_capabilities(path)
}

/// True if a process has just executed a file that gives privileges, without getting them.
#[must_use]
pub fn lacks_privileges(pid: i32) -> bool {
    gives_privileges(Path::new(&format!("/proc/{pid}/exe")))
}

/// The effective group id.
fn effective_gid() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::getegid() }
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
