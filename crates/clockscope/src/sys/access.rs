//! What this process may do with files, and who it is.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
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
