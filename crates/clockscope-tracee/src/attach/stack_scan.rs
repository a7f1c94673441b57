//! Where a thread that stands still may go on: at its own instruction, and where the signal handlers
//! that it is in return to.

use crate::arch::attach::frames;
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

/// Where the signal handlers of a thread return to, found by the frames that the kernel made for them, and others that only
/// look so. As much of the stack is searched as fits into `stack`.
pub(super) fn returns_of(thread: i32, from: u64, stack: &mut [u8]) -> Vec<u64> {
    let from = from & !7;
    let read = memory::read(thread, from, stack).unwrap_or(0);
    handlers(from, &stack[..read]).collect()
}

/// Where the handlers on a stack return to; the stack is what was read from its pointer `from` on. Pure.
///
/// What is in a frame stands in `frames.rs`. Behind a short stack may be that of another thread, as in Go: a frame on an
/// alternate stack is this thread's only if its stack pointer is on that one too.
pub(crate) fn handlers(from: u64, stack: &[u8]) -> impl Iterator<Item = u64> + '_ {
    let words = stack.chunks_exact(8).enumerate().skip(frames::BEFORE_MARK);
    words.filter_map(move |(index, mark)| {
        let at = |index: usize| word(&stack[8 * index..8 * index + 8]);
        if !frames::is_mark(word(mark)) {
            return None;
        }
        if let Some(first) = index.checked_sub(frames::STACK_TO_MARK) {
            let (alternate, size) = (at(first), at(first + 2));
            let is_there = |address: u64| address.wrapping_sub(alternate) < size;
            if is_there(from + 8 * index as u64) && !is_there(from) {
                return None;
            }
        }
        Some(at(index - frames::PC_TO_MARK))
    })
}

/// A word of memory.
fn word(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_ne_bytes)
}
