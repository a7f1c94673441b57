//! Signal frames.

use super::registers::{GENERAL, SP};
use crate::sample::Registers;
use crate::unwind_cfi::Stack;

/// Whether unwind tables may give the interrupted registers. Tables of kernels before Linux 5.13
/// lead to the interrupted function, but not to its registers.
pub(crate) const IN_TABLES: bool = false;
/// Whether a signal frame can be recognised by its content.
pub(crate) const IS_MARKED: bool = true;
/// First bytes of the code that a signal handler returns to: `mov x8, #139` and `svc #0`.
pub(crate) const RETURNS: [&[u8]; 1] = [&[0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4]];
/// Offset of the general registers in the signal frame, `x0` to `x30`, `sp`, and then `pc`:
/// `uc_mcontext.regs` behind `struct siginfo` (Linux 6.18, `struct rt_sigframe` in
/// `arch/arm64/kernel/signal.c`, `arch/arm64/include/uapi/asm/{ucontext,sigcontext}.h`).
const REGISTERS: u64 = 128 + 176 + 8;

/// Offset of the first record of further saved state: `__reserved` in `struct sigcontext`. It
/// begins with `FPSIMD_MAGIC`.
const MARK_AT: u64 = 128 + 176 + 288;
const MARK: u64 = 0x4650_8001;

/// The interrupted registers, from the frame of a handler's return to the kernel.
pub(crate) fn interrupted(registers: &Registers, stack: Stack<'_>) -> Option<Registers> {
    let frame = registers.general[SP]?;
    let mark = stack.word(frame.checked_add(MARK_AT)?)?;
    (mark & u64::from(u32::MAX) == MARK).then_some(())?;
    let saved = frame.checked_add(REGISTERS)?;
    let word = |index: usize| stack.word(saved.checked_add(8 * index as u64)?);
    let mut before = Registers { ip: word(GENERAL)?, general: [None; GENERAL] };
    for (index, register) in before.general.iter_mut().enumerate() {
        *register = Some(word(index)?);
    }
    Some(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handler_returns_to_what_the_signal_interrupted() {
        // The mark lies behind 74 words, followed by the record's size in bytes.
        let word = |number: u64| if number == 74 { 0x210 << 32 | MARK } else { number };
        let stack: Vec<u8> = (0..128).map(word).flat_map(u64::to_le_bytes).collect();
        let mut registers = Registers { ip: 1, general: [None; GENERAL] };
        registers.general[SP] = Some(0x7000);
        let before =
            |length| interrupted(&registers, Stack { start: 0x7000, bytes: &stack[..length] });
        // x0 lies behind 39 words.
        let found = before(stack.len()).expect("all is there");
        assert_eq!([0, 30, SP].map(|n| found.general[n]), [39, 69, 70].map(Some));
        assert_eq!(found.ip, 71);
        assert_eq!(before(74 * 8), None);
        let unmarked = Stack { start: 0x7000, bytes: &[0; 1024] };
        assert_eq!(interrupted(&registers, unmarked), None);
    }
}
