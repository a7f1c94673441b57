//! The frames that the kernel makes on a thread's stack for signal handlers. Pure.

use crate::attach::stack_scan::word;

/// Code segment of 64-bit programs: `__USER_CS` in arch/x86/include/asm/segment.h (Linux 6.18).
const USER_CS: u64 = 0x33;

/// Where the handlers on a stack return to; the stack is what was read from its pointer `from` on. Pure.
///
/// `sigcontext`: the stack pointer, the instruction pointer, the flags, and the selectors, with that of
/// 64-bit code in the low half-word; before its 15 first words is the alternate stack of the thread,
/// address, flags and size: arch/x86/include/uapi/asm/sigcontext.h, include/uapi/asm-generic/ucontext.h
/// (Linux 6.18). Behind a short stack may be that of another thread, as in Go: a frame on an alternate
/// stack is this thread's only if its stack pointer is on that one too.
pub(crate) fn handlers(from: u64, stack: &[u8]) -> impl Iterator<Item = u64> + '_ {
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
        Some(at(index - 2))
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
        assert_eq!(handlers(0x1000, &frame).collect::<Vec<_>>(), [at]);
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
}
