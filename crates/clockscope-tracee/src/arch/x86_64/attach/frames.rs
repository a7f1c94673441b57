//! The signal frames that the kernel makes on a thread's stack. Pure.

/// Code segment of 64-bit programs: `__USER_CS` in arch/x86/include/asm/segment.h (Linux 6.18).
const USER_CS: u64 = 0x33;

/// Words of `sigcontext` in front of the mark that are read: the stack pointer, the instruction pointer and the flags.
/// arch/x86/include/uapi/asm/sigcontext.h (Linux 6.18).
pub(crate) const BEFORE_MARK: usize = 3;
/// Words from the instruction pointer to the mark.
pub(crate) const PC_TO_MARK: usize = 2;
/// Words from the description of the thread's alternate stack to the mark: address, flags and size precede the first 15
/// words of `sigcontext`. include/uapi/asm-generic/ucontext.h (Linux 6.18).
pub(crate) const STACK_TO_MARK: usize = 21;

/// Whether a word is the mark of a frame: the segment selectors, with the selector of 64-bit code in the low half-word.
pub(crate) fn is_mark(word: u64) -> bool {
    word & 0xffff == USER_CS
}

#[cfg(test)]
mod tests {
    use crate::attach::stack_scan::handlers;

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
