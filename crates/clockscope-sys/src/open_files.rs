//! How many descriptors this process may have.

/// Raises the limit as far as is allowed without asking. Programs started before keep theirs.
///
/// # References
///
/// - `RLIMIT_NOFILE` in `getrlimit(2)`
pub fn raise_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a local of the right type.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return;
    }
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: as above; a refusal leaves the limit as it is.
    let _ = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
}
