//! Where a stopped thread may continue: at its own instruction, and at the return addresses of its signal handlers.

use crate::arch::attach::frames;
use clockscope_sys::memory;

/// The instruction at which a thread that sleeps in a system call continues; `None` for a thread that runs or is
/// runnable.
pub(super) fn sleeps_at(thread: i32) -> Option<u64> {
    let line = std::fs::read_to_string(format!("/proc/{thread}/syscall")).ok()?;
    let (_, last) = line.trim_end().rsplit_once(' ')?;
    u64::from_str_radix(last.strip_prefix("0x")?, 16).ok()
}

/// Return addresses of a thread's signal handlers, from the signal frames that the kernel made on the stack; other data
/// that look like such a frame are included. Searches as much of the stack as fits into `stack`.
pub(super) fn returns_of(thread: i32, from: u64, stack: &mut [u8]) -> Vec<u64> {
    let from = from & !7;
    let read = memory::read(thread, from, stack).unwrap_or(0);
    handlers(from, &stack[..read]).collect()
}

/// Return addresses of the signal handlers on a stack; `stack` was read from the stack pointer `from` on. Pure.
///
/// `frames.rs` describes the frames. Behind a short stack may be the stack of another thread, as in Go: a frame on an
/// alternate stack belongs to this thread only if its stack pointer is on that alternate stack, too.
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

/// Converts eight bytes to a word.
fn word(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_ne_bytes)
}
