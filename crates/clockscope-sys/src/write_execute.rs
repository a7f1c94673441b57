//! Whether this process and its children may execute memory that they have written.

/// `PR_GET_MDWE` and `PR_MDWE_REFUSE_EXEC_GAIN`: include/uapi/linux/prctl.h (Linux 6.3 and later).
const PR_GET_MDWE: libc::c_int = 66;
const PR_MDWE_REFUSE_EXEC_GAIN: libc::c_int = 1;

/// True if the kernel denies it (`PR_SET_MDWE`, by which systemd does `MemoryDenyWriteExecute=`):
/// children have that too, and nobody can take it back.
#[must_use]
pub fn is_denied() -> bool {
    // SAFETY: takes numbers. Older kernels give an error, which is negative.
    let flags = unsafe { libc::prctl(PR_GET_MDWE, 0, 0, 0, 0) };
    flags > 0 && flags & PR_MDWE_REFUSE_EXEC_GAIN != 0
}
