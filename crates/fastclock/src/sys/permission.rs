//! Whether this thread may read the counter.

/// False if the counter raises `SIGSEGV` in this thread, which `prctl(PR_SET_TSC)` has asked for;
/// true where the kernel has no such switch. The kernel's vDSO reads the counter too, so that
/// `clock_gettime(2)` then needs to be a system call.
///
/// # References
///
/// - `PR_GET_TSC(2const)`; `get_tsc_mode` in arch/x86/kernel/process.c (Linux 6.18)
#[must_use]
pub fn may_read_counter() -> bool {
    let mut mode: libc::c_int = 0;
    // SAFETY: the pointer is to a local int, which the kernel writes.
    let known = unsafe { libc::prctl(libc::PR_GET_TSC, &raw mut mode) } == 0;
    !known || mode != libc::PR_TSC_SIGSEGV
}
