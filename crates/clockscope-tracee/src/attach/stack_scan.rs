//! Where a thread that stands still may go on: at its own instruction, and where the signal handlers
//! that it is in return to.

use std::ops::Range;

use crate::arch::attach::frames::{address, asleep, handlers};
use clockscope_sys::memory;

/// How much of a stack is searched for what signal handlers return to.
pub(super) const WHOLE_STACK: usize = 256 * 1024;
/// How far above the stack pointer of a function of the kernel's image its return address may be:
/// several times what the largest that is redirected needs.
const FRAME: usize = 1024;

/// Where a thread goes on, or returns to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The instruction.
    pub pc: u64,
    /// The stack pointer.
    pub sp: u64,
    /// Where the function there returns to.
    pub link: Link,
}

/// Where the address is that a function returns to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "each architecture has some of them")]
pub(crate) enum Link {
    /// On its stack.
    OnStack,
    /// It is this one, if the function has not stored it on its stack.
    Register(u64),
    /// There, or in a register that is not known.
    Unknown,
}

/// Looks at one thread after another; keeps the memory for that.
pub(super) struct Looking {
    stack: Vec<u8>,
}

impl Looking {
    pub(super) fn new() -> Self {
        Self { stack: vec![0; WHOLE_STACK] }
    }

    /// Whether a thread that executes nothing at present, and goes on at this place,
    /// may execute an instruction of ours again, where no call comes in any more: it or a handler of it stands
    /// in ours, or in a function of the kernel's image that ours may have called. Then the address to return
    /// to is right there.
    pub(super) fn may_come_back(
        &mut self,
        thread: i32,
        place: Place,
        is_ours: &dyn Fn(u64) -> bool,
        vdso: &Range<u64>,
    ) -> bool {
        if is_ours(place.pc) {
            return true;
        }
        let from = place.sp & !7;
        let read = memory::read(thread, from, &mut self.stack).unwrap_or(0);
        let stack = &self.stack[..read];
        let called_by_us = |place: Place| {
            let is_linked = match place.link {
                Link::OnStack => false,
                Link::Register(link) => is_ours(link),
                Link::Unknown => true,
            };
            let on_stack =
                || words_at(thread, from, stack, place.sp).into_iter().map(address).any(is_ours);
            vdso.contains(&place.pc) && (is_linked || on_stack())
        };
        called_by_us(place)
            || handlers(from, stack).any(|place| is_ours(place.pc) || called_by_us(place))
    }
}

/// Where a thread that sleeps in a system call goes on; `None` of one that
/// runs, or wants to.
pub(super) fn sleeps_at(thread: i32) -> Option<Place> {
    let line = std::fs::read_to_string(format!("/proc/{thread}/syscall")).ok()?;
    let mut last = line.split_whitespace().rev();
    let mut number = || u64::from_str_radix(last.next()?.strip_prefix("0x")?, 16).ok();
    let (pc, sp) = (number()?, number()?);
    Some(asleep(pc, sp))
}

/// The words of a function's frame, from what has been read of the stack or from another one.
fn words_at(thread: i32, from: u64, stack: &[u8], sp: u64) -> Vec<u64> {
    let sp = sp & !7;
    let mut other = [0; FRAME];
    let bytes = match usize::try_from(sp.wrapping_sub(from)).ok().and_then(|at| stack.get(at..)) {
        Some(rest) if !rest.is_empty() => &rest[..rest.len().min(FRAME)],
        _ => {
            let read = memory::read(thread, sp, &mut other).unwrap_or(0);
            &other[..read]
        }
    };
    bytes.chunks_exact(8).map(word).collect()
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
    handlers(from, &stack[..read]).any(|place| inside(place.pc))
}

/// Where the signal handlers of a thread return to, as [`returns_into`] finds them, and others that only look so.
pub(super) fn returns_of(thread: i32, from: u64, stack: &mut [u8]) -> Vec<u64> {
    let from = from & !7;
    let read = memory::read(thread, from, stack).unwrap_or(0);
    handlers(from, &stack[..read]).map(|place| place.pc).collect()
}

/// A word of memory.
pub(crate) fn word(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn the_frame_of_a_function_is_what_is_above_its_stack_pointer() {
        let stack = bytes(&(0..300).collect::<Vec<u64>>());
        let me = i32::try_from(std::process::id()).unwrap();
        let words = words_at(me, 0x1000, &stack, 0x1000 + 8 * 5 + 3);
        assert_eq!((words[0], words.len()), (5, FRAME / 8));
        assert_eq!(words_at(me, 0x1000, &stack, 0x1000 + 8 * 298), [298, 299]);
        // A handler may have a stack of its own: what it returns to is on another one.
        let other = vec![7_u64; FRAME / 8];
        assert_eq!(words_at(me, 0x1000, &stack, other.as_ptr().addr() as u64), other);
        assert!(words_at(me, 0x1000, &stack, 8).is_empty());
    }
}
