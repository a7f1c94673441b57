//! Files of tracefs, also where it is mounted nowhere.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;

use super::descriptor;

/// `FSOPEN_CLOEXEC` and `FSMOUNT_CLOEXEC`, include/uapi/linux/mount.h (Linux 6.18).
const CLOEXEC: u64 = 1;
/// `FSCONFIG_CMD_CREATE`.
const CREATE: u64 = 6;

/// Reads a file of tracefs, by its path below the mount point. Where it is not mounted, it is
/// mounted for this call, where nobody else sees it.
///
/// # Errors
///
/// `EACCES` and `EPERM` for all but root; `ENOENT` if there is no such file; `ENODEV` if the kernel
/// has no tracefs.
///
/// # References
///
/// - `fsopen(2)`, `fsmount(2)`: Linux 5.2 and later
pub fn read(path: &str) -> io::Result<String> {
    let roots = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
    match roots.iter().find(|root| Path::new(root).join("events").exists()) {
        Some(root) => std::fs::read_to_string(Path::new(root).join(path)),
        None => read_unmounted(path),
    }
}

fn read_unmounted(path: &str) -> io::Result<String> {
    let file_system = call(libc::SYS_fsopen, [c"tracefs".as_ptr() as u64, CLOEXEC, 0, 0, 0])?;
    let number: u64 = file_system.as_raw_fd().cast_unsigned().into();
    // SAFETY: numbers only; the command takes no pointers.
    let created = unsafe { libc::syscall(libc::SYS_fsconfig, number, CREATE, 0_u64, 0_u64, 0_u64) };
    if created != 0 {
        return Err(io::Error::last_os_error());
    }
    let mount = call(libc::SYS_fsmount, [number, CLOEXEC, 0, 0, 0])?;
    let path = std::ffi::CString::new(path)?;
    let (directory, flags) = (mount.as_raw_fd().cast_unsigned().into(), libc::O_CLOEXEC as u64);
    let file = call(libc::SYS_openat, [directory, path.as_ptr() as u64, flags, 0, 0])?;
    let mut text = String::new();
    File::from(file).read_to_string(&mut text)?;
    Ok(text)
}

/// A system call that gives a descriptor.
fn call(number: libc::c_long, [a, b, c, d, e]: [u64; 5]) -> io::Result<OwnedFd> {
    // SAFETY: the callers pass numbers, and addresses of strings that outlive the call and that the
    // kernel only reads.
    let result = unsafe { libc::syscall(number, a, b, c, d, e) };
    // SAFETY: the calls here give new descriptors.
    unsafe { descriptor::of_call(result) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tracepoint_has_a_number_for_those_who_may_read_it() {
        match read("events/raw_syscalls/sys_enter/id") {
            Ok(text) => assert!(text.trim().parse::<u64>().is_ok_and(|id| id > 0), "{text}"),
            Err(error) => assert_ne!(error.raw_os_error(), Some(libc::EFAULT), "{error}"),
        }
        assert!(read("events/there_is_no_such/id").is_err());
    }
}
