//! The thread's error number, which belongs to the program.

/// Does `work` and restores the program's `errno`: a clock may be read in a signal handler, between
/// a call of the program and its check of `errno`.
pub(crate) fn preserving_errno<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: the C library gives the address of this thread's variable, which lives as long as the
    // thread; no other thread accesses it.
    let before = unsafe { *libc::__errno_location() };
    let outcome = work();
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = before };
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_call_leaves_no_trace() {
        let number = || std::io::Error::last_os_error().raw_os_error();
        // SAFETY: closes nothing: there is no such file descriptor.
        let fail = || unsafe { libc::close(-1) };
        fail();
        assert_eq!(number(), Some(libc::EBADF));
        preserving_errno(|| {
            // SAFETY: the path is a string with a zero at its end.
            unsafe { libc::access(c"/does/not/exist".as_ptr(), 0) };
            assert_eq!(number(), Some(libc::ENOENT));
        });
        assert_eq!(number(), Some(libc::EBADF));
    }
}
