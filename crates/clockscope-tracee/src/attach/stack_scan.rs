//! Where a thread that stands still may go on: at its own instruction, and where the signal handlers
//! that it is in return to.

use crate::arch::attach::frames::handlers;
use clockscope_sys::memory;

/// How much of a stack is searched for what signal handlers return to.
pub(super) const WHOLE_STACK: usize = 256 * 1024;

/// The instruction at which a thread that sleeps in a system call goes on; `None` of one that
/// runs, or wants to.
pub(super) fn sleeps_at(thread: i32) -> Option<u64> {
    let line = std::fs::read_to_string(format!("/proc/{thread}/syscall")).ok()?;
    let (_, last) = line.trim_end().rsplit_once(' ')?;
    u64::from_str_radix(last.strip_prefix("0x")?, 16).ok()
}

/// Whether a signal handler of the thread, found by the frame that the kernel made for it, returns to
/// an address of this kind. As much of the stack is searched as fits into `stack`.
pub(super) fn returns_into(
    thread: i32,
    from: u64,
    stack: &mut [u8],
    inside: &dyn Fn(u64) -> bool,
) -> bool {
    let from = from & !7;
    let read = memory::read(thread, from, stack).unwrap_or(0);
    handlers(from, &stack[..read]).any(inside)
}

/// Where the signal handlers of a thread return to, as [`returns_into`] finds them, and others that only look so.
pub(super) fn returns_of(thread: i32, from: u64, stack: &mut [u8]) -> Vec<u64> {
    let from = from & !7;
    let read = memory::read(thread, from, stack).unwrap_or(0);
    handlers(from, &stack[..read]).collect()
}

/// A word of memory.
pub(crate) fn word(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_ne_bytes)
}
