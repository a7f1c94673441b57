//! System calls that wait until something happens, and that a stop ends with `EINTR`: `epoll_wait` and a few more (signal(7)).
//! Pure.

use crate::arch::attach::restart::general;

/// Whether it is such a call, and waits without limit.
pub(crate) fn waits_without_limit(number: i64, arguments: &[u64; 6]) -> bool {
    /// The fifth argument is a structure, or names one that was registered, in which there may be a limit:
    /// `IORING_ENTER_EXT_ARG`, `IORING_ENTER_EXT_ARG_REG`, include/uapi/linux/io_uring.h (Linux 6.18).
    const HAS_ARGUMENTS: u64 = 1 << 3 | 1 << 6;
    match general(number) {
        // Milliseconds, an `int`.
        libc::SYS_epoll_pwait => arguments[3] & 0x8000_0000 != 0,
        // A time, or none.
        libc::SYS_epoll_pwait2 | libc::SYS_semtimedop => arguments[3] == 0,
        libc::SYS_rt_sigtimedwait => arguments[2] == 0,
        libc::SYS_io_getevents => arguments[4] == 0,
        // It returns an error only if nothing was submitted, so nothing is submitted twice.
        libc::SYS_io_uring_enter => arguments[3] & HAS_ARGUMENTS == 0,
        libc::SYS_semop => true,
        _ => false,
    }
}
