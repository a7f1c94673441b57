//! The signal frames that the kernel makes on a thread's stack. Pure.

/// The first record behind the registers of a frame: that of the vector registers, with its size. `FPSIMD_MAGIC` and
/// `struct fpsimd_context` in arch/arm64/include/uapi/asm/sigcontext.h, `setup_sigframe_layout` in
/// arch/arm64/kernel/signal.c (Linux 6.18).
const FIRST_RECORD: u64 = 0x210 << 32 | 0x4650_8001;
/// Words of `sigcontext` in front of that record: the address of a fault, 31 registers, the stack pointer, the
/// instruction pointer, the state and a filler.
pub(crate) const BEFORE_MARK: usize = 36;
/// Words from the instruction pointer to the mark.
pub(crate) const PC_TO_MARK: usize = 3;
/// Words from the description of the thread's alternate stack to the mark: address, flags and size are the third to
/// fifth word of the `ucontext`, which begins 22 words before `sigcontext`. include/uapi/asm-generic/ucontext.h (Linux
/// 6.18).
pub(crate) const STACK_TO_MARK: usize = 56;

/// Whether a word is the mark of a frame: the start of the first record.
pub(crate) fn is_mark(word: u64) -> bool {
    word == FIRST_RECORD
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attach::stack_scan::handlers;

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    /// A `ucontext` with these values of `x30`, `sp` and `pc`.
    fn frame(registers: [u64; 3]) -> [u64; 62] {
        let mut words = [0_u64; 62];
        words[58 - 5..58 - 2].copy_from_slice(&registers);
        words[58] = FIRST_RECORD;
        words
    }

    #[test]
    fn only_a_frame_of_a_signal_counts_as_one() {
        // `x30` contains a signed return address.
        let words = frame([0x002a_ffff_a000_0008, 0xffff_c000_1000, 0xffff_a000_0003]);
        assert_eq!(handlers(0x1000, &bytes(&words)).collect::<Vec<_>>(), [0xffff_a000_0003]);
        assert_eq!(handlers(0x1000, &bytes(&words[..58])).count(), 0);
        assert_eq!(handlers(0x1000, &bytes(&words[58..])).count(), 0);
    }

    #[test]
    fn a_frame_on_the_alternate_stack_of_another_thread_is_not_this_ones() {
        let mut words = frame([0, 0xffff_c000_1000, 0xffff_a000_0003]);
        (words[2], words[4]) = (0x1000, 0x2000); // the alternate stack, and its size
        let stack = bytes(&words);
        assert_eq!(handlers(0x1100, &stack).count(), 1, "on it");
        assert_eq!(handlers(0x0ff8, &stack).count(), 0, "below it");
        words[4] = 0; // none
        assert_eq!(handlers(0x0ff8, &bytes(&words)).count(), 1);
    }
}
