//! The frame of a signal.

use super::registers::{FP, GENERAL, SP};
use crate::sample::Registers;
use crate::unwind_cfi::Stack;

/// Whether the tables may say what a signal has interrupted.
pub(crate) const IN_TABLES: bool = true;
/// Whether the frame itself shows that it is one.
pub(crate) const IS_MARKED: bool = false;
/// What a handler returns to begins so: `rt_sigreturn` by `mov $15,%rax` or `mov $15,%eax`, and `syscall`.
pub(crate) const RETURNS: [&[u8]; 2] =
    [&[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05], &[0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05]];
/// Where the kernel keeps the general registers in the frame of a signal: `uc_mcontext` in `struct ucontext`,
/// and the numbers that DWARF has for `r8` and so on up to `rsp`, then `rip` (Linux 6.1,
/// `arch/x86/include/uapi/asm/sigcontext.h`).
const REGISTERS: u64 = 40;
const ORDER: [usize; 16] = [8, 9, 10, 11, 12, 13, 14, 15, 5, 4, FP, 3, 1, 0, 2, SP];

/// The registers of what a signal has interrupted, where its handler returns to the kernel.
pub(crate) fn interrupted(registers: &Registers, stack: Stack<'_>) -> Option<Registers> {
    let saved = registers.general[SP]?.checked_add(REGISTERS)?;
    let word = |index: usize| stack.word(saved.checked_add(8 * index as u64)?);
    let mut before = Registers { ip: word(ORDER.len())?, general: [None; GENERAL] };
    for (index, number) in ORDER.into_iter().enumerate() {
        before.general[number] = Some(word(index)?);
    }
    Some(before)
}
