//! The registers of a frame, by their numbers in the System V ABI, AMD64 supplement 1.0, 3.6.2.

use gimli::{Register, Vendor, X86_64};
use object::elf::{EM_X86_64, Machine};

use crate::sample::Registers;
use crate::unwind_cfi::Stack;

/// The ELF machine of files for this architecture.
pub(crate) const MACHINE: Machine = EM_X86_64;
/// Vendor of the DWARF extensions that compilers use.
pub(crate) const VENDOR: Vendor = Vendor::Default;

/// A kernel's image with unwind tables.
#[cfg(test)]
pub(crate) const KERNEL: &[u8] = include_bytes!("../../../../../fixtures/vdso/x86_64-6.18.so");

/// Number of general registers, as DWARF counts them.
pub const GENERAL: usize = 16;
/// The frame pointer, `rbp`.
pub const FP: usize = 6;
/// The stack pointer, `rsp`.
pub const SP: usize = 7;
/// The register that holds the return address until the function makes a call: none.
pub(crate) const LINK: Option<usize> = None;
/// Callee-saved registers: `rbx`, `rbp`, `r12` to `r15`.
pub(crate) const PRESERVED: [usize; 6] = [3, FP, 12, 13, 14, 15];
/// The column of unwind tables for the return address.
pub(crate) const RETURN: Register = X86_64::RA;

/// The return address in a word of the stack.
pub(crate) fn return_address(word: u64) -> u64 {
    word
}

/// The registers of the caller, from the registers at a function's first instruction.
pub(crate) fn caller(at: &Registers, stack: Stack<'_>) -> Option<Registers> {
    let sp = at.general[SP]?;
    let mut caller = Registers { ip: stack.word(sp)?, ..*at };
    caller.general[SP] = Some(sp.checked_add(8)?);
    Some(caller)
}
