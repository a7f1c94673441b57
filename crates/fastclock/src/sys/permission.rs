//! Whether this thread may read the counter.

/// False if `prctl(PR_SET_TSC)` makes the counter raise `SIGSEGV` in this thread; true where the
/// kernel has no such switch. The kernel's vDSO reads the counter too, so `clock_gettime(2)` must
/// then be a system call.
///
/// # References
///
/// - `PR_GET_TSC(2const)`; `get_tsc_mode` in arch/x86/kernel/process.c (Linux 6.18)
pub fn may_read_counter() -> bool {
    let mut mode: libc::c_int = 0;
    // SAFETY: the pointer is to a local int, which the kernel writes.
    let known = unsafe { libc::prctl(libc::PR_GET_TSC, &raw mut mode) } == 0;
    !known || mode != libc::PR_TSC_SIGSEGV
}
