//! Signal frames.

use super::registers::{FP, GENERAL, SP};
use crate::sample::Registers;
use crate::unwind_cfi::Stack;

/// Whether unwind tables may give the interrupted registers.
pub(crate) const IN_TABLES: bool = true;
/// Whether a signal frame can be recognised by its content.
pub(crate) const IS_MARKED: bool = false;
/// First bytes of the code that a signal handler returns to: `rt_sigreturn` by `mov $15,%rax` or
/// `mov $15,%eax`, and `syscall`.
pub(crate) const RETURNS: [&[u8]; 2] =
    [&[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05], &[0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05]];
/// Offset of the general registers in the signal frame: `uc_mcontext` in `struct ucontext`; then
/// their DWARF numbers in order, from `r8` to `rsp`, followed by `rip` (Linux 6.1,
/// `arch/x86/include/uapi/asm/sigcontext.h`).
const REGISTERS: u64 = 40;
const ORDER: [usize; 16] = [8, 9, 10, 11, 12, 13, 14, 15, 5, 4, FP, 3, 1, 0, 2, SP];

/// The interrupted registers, from the frame of a handler's return to the kernel.
pub(crate) fn interrupted(registers: &Registers, stack: Stack<'_>) -> Option<Registers> {
    let saved = registers.general[SP]?.checked_add(REGISTERS)?;
    let word = |index: usize| stack.word(saved.checked_add(8 * index as u64)?);
    let mut before = Registers { ip: word(ORDER.len())?, general: [None; GENERAL] };
    for (index, number) in ORDER.into_iter().enumerate() {
        before.general[number] = Some(word(index)?);
    }
    Some(before)
}
