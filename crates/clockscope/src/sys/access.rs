//! What this process may do with files, and who it is.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

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
pub fn has_file_capabilities(path: &Path) -> bool {
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
