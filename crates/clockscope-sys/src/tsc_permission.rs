//! Whether this thread may read the CPU's counter by an instruction.

/// What `prctl(PR_GET_TSC)` answers: true if `rdtsc` works, false if it raises `SIGSEGV`; `None`
/// where the kernel has no such switch.
///
/// The vDSO reads the counter too: without permission most of its clock reads die by the signal.
///
/// # References
///
/// - `PR_GET_TSC(2const)`; `arch/x86/kernel/process.c` (Linux 6.18), arm64 since 6.12
#[must_use]
pub fn is_given() -> Option<bool> {
    let mut mode: libc::c_int = 0;
    // SAFETY: the pointer is to a local int, which the kernel writes.
    let known = unsafe { libc::prctl(libc::PR_GET_TSC, &raw mut mode) } == 0;
    known.then_some(mode != libc::PR_TSC_SIGSEGV)
}

/// Gives this thread, and those that it starts from now on, the permission; false if the kernel
/// refuses.
///
/// # References
///
/// - `PR_SET_TSC(2const)`: asks for no privilege; a seccomp filter may forbid it
#[must_use]
pub fn give() -> bool {
    // SAFETY: takes numbers and concerns this thread only.
    unsafe { libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_ENABLE) == 0 }
}

/// Takes the permission from this thread, which must not read a clock or the counter until it is
/// given back; says whether that worked.
#[must_use]
pub fn take() -> bool {
    // SAFETY: takes numbers and concerns this thread only; a reading ends the process, which is
    // no breach of memory safety.
    unsafe { libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV) == 0 }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_can_be_given_back() {
        let thread = std::thread::spawn(|| {
            let before = is_given();
            assert!(take());
            let taken = is_given();
            let given = give();
            (before, taken, given, is_given())
        });
        assert_eq!(thread.join().unwrap(), (Some(true), Some(false), true, Some(true)));
    }
}
