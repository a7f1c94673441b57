//! Where a thread that stands still may go on: at its own instruction, and where the signal handlers
//! that it is in return to.

use std::ops::Range;

use clockscope_sys::memory;

/// How much of a stack is searched for what signal handlers return to.
pub(super) const WHOLE_STACK: usize = 256 * 1024;
/// Code segment of 64-bit programs: `__USER_CS` in arch/x86/include/asm/segment.h (Linux 6.18).
const USER_CS: u64 = 0x33;
/// How far above the stack pointer of a function of the kernel's image its return address may be:
/// several times what the largest that is redirected needs.
const FRAME: usize = 1024;

/// Looks at one thread after another; keeps the memory for that.
pub(super) struct Looking {
    stack: Vec<u8>,
}

impl Looking {
    pub(super) fn new() -> Self {
        Self { stack: vec![0; WHOLE_STACK] }
    }

    /// Whether a thread that executes nothing at present, and goes on with this instruction and stack pointer,
    /// may execute an instruction of ours again, where no call comes in any more: it or a handler of it stands
    /// in ours, or in a function of the kernel's image that ours may have called. Then the address to return
    /// to is on the stack right there.
    pub(super) fn may_come_back(
        &mut self,
        thread: i32,
        (ip, sp): (u64, u64),
        is_ours: &dyn Fn(u64) -> bool,
        vdso: &Range<u64>,
    ) -> bool {
        if is_ours(ip) {
            return true;
        }
        let from = sp & !7;
        let read = memory::read(thread, from, &mut self.stack).unwrap_or(0);
        let stack = &self.stack[..read];
        let called_by_us = |ip: u64, sp: u64| {
            vdso.contains(&ip) && words_at(thread, from, stack, sp).into_iter().any(is_ours)
        };
        called_by_us(ip, sp)
            || handlers(from, stack).any(|(ip, sp)| is_ours(ip) || called_by_us(ip, sp))
    }
}

/// Instruction and stack pointer with which a thread that sleeps in a system call goes on; `None` of one that
/// runs, or wants to.
pub(super) fn sleeps_at(thread: i32) -> Option<(u64, u64)> {
    let line = std::fs::read_to_string(format!("/proc/{thread}/syscall")).ok()?;
    let mut last = line.split_whitespace().rev();
    let mut number = || u64::from_str_radix(last.next()?.strip_prefix("0x")?, 16).ok();
    Some((number()?, number()?))
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
    handlers(from, &stack[..read]).any(|(ip, _)| inside(ip))
}

/// Where the signal handlers of a thread return to, as [`returns_into`] finds them, and others that only look so.
pub(super) fn returns_of(thread: i32, from: u64, stack: &mut [u8]) -> Vec<u64> {
    let from = from & !7;
    let read = memory::read(thread, from, stack).unwrap_or(0);
    handlers(from, &stack[..read]).map(|(ip, _)| ip).collect()
}

fn word(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_ne_bytes)
}

/// Instruction and stack pointers that the handlers on a stack return to; the stack is what was read
/// from its pointer `from` on. Pure.
///
/// `sigcontext`: the stack pointer, the instruction pointer, the flags, and the selectors, with that of
/// 64-bit code in the low half-word; before its 15 first words is the alternate stack of the thread,
/// address, flags and size: arch/x86/include/uapi/asm/sigcontext.h, include/uapi/asm-generic/ucontext.h
/// (Linux 6.18). Behind a short stack may be that of another thread, as in Go: a frame on an alternate
/// stack is this thread's only if its stack pointer is on that one too.
fn handlers(from: u64, stack: &[u8]) -> impl Iterator<Item = (u64, u64)> + '_ {
    stack.chunks_exact(8).enumerate().skip(3).filter_map(move |(index, selectors)| {
        let at = |index: usize| word(&stack[8 * index..8 * index + 8]);
        if word(selectors) & 0xffff != USER_CS {
            return None;
        }
        if index >= 21 {
            let (alternate, size) = (at(index - 21), at(index - 19));
            let is_there = |address: u64| address.wrapping_sub(alternate) < size;
            if is_there(from + 8 * index as u64) && !is_there(from) {
                return None;
            }
        }
        Some((at(index - 2), at(index - 3)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn only_a_frame_of_a_signal_counts_as_one() {
        let at = 0x7f00_0000_0003;
        let frame = bytes(&[1, 0x7ffd_0000_1000, at, 0x246, 0x002b_0000_0000_0033, 9]);
        assert_eq!(handlers(0x1000, &frame).collect::<Vec<_>>(), [(at, 0x7ffd_0000_1000)]);
        assert_eq!(handlers(0x1000, &bytes(&[8, at, 0x246, 0x35])).count(), 0);
        assert_eq!(handlers(0x1000, &frame[..32]).count(), 0);
        assert_eq!(handlers(0x1000, &bytes(&[0x33, 0x33, 0x33])).count(), 0);
    }

    #[test]
    fn a_frame_on_the_alternate_stack_of_another_thread_is_not_this_ones() {
        let mut words = [0_u64; 24];
        (words[1], words[3]) = (0x1000, 0x2000); // the alternate stack, and its size
        (words[19], words[20], words[22]) = (0x7ffd_0000_1000, 0x7f00_0000_0003, 0x33);
        let stack = bytes(&words);
        assert_eq!(handlers(0x1100, &stack).count(), 1, "on it");
        assert_eq!(handlers(0x0ff8, &stack).count(), 0, "below it");
        words[3] = 0; // none
        assert_eq!(handlers(0x0ff8, &bytes(&words)).count(), 1);
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
