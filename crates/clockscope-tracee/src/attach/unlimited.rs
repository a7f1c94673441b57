//! System calls that wait for an event and that a stop ends with `EINTR`: `epoll_wait` and a few more (signal(7)).
//! Pure.

use crate::arch::attach::restart::general;

/// Whether this is such a call, and has no time limit.
pub(crate) fn waits_without_limit(number: i64, arguments: &[u64; 6]) -> bool {
    /// The fifth argument is a structure, or names a registered one, that may contain a time limit:
    /// `IORING_ENTER_EXT_ARG`, `IORING_ENTER_EXT_ARG_REG`, include/uapi/linux/io_uring.h (Linux 6.18).
    const HAS_ARGUMENTS: u64 = 1 << 3 | 1 << 6;
    match general(number) {
        // A timeout in milliseconds, as an `int`; negative: none.
        libc::SYS_epoll_pwait => arguments[3] & 0x8000_0000 != 0,
        // A pointer to a timeout; null: none.
        libc::SYS_epoll_pwait2 | libc::SYS_semtimedop => arguments[3] == 0,
        libc::SYS_rt_sigtimedwait => arguments[2] == 0,
        libc::SYS_io_getevents => arguments[4] == 0,
        // The call returns an error only if it has submitted nothing, so nothing is submitted twice.
        libc::SYS_io_uring_enter => arguments[3] & HAS_ARGUMENTS == 0,
        libc::SYS_semop => true,
        _ => false,
    }
}
