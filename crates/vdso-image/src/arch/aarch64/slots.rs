//! The CPU-specific part of `slots.rs`.

use core::arch::{asm, naked_asm};
use core::sync::atomic::Ordering::Relaxed;

use crate::layout::Slot;

/// The image's base address.
#[inline(always)]
pub(crate) fn image_base() -> usize {
    let base;
    // SAFETY: computes an address; reads and writes nothing.
    unsafe {
        asm!("adr {}, __ehdr_start", out(reg) base, options(nomem, nostack, preserves_flags));
    }
    base
}

/// The thread's key: `TPIDR_EL0` plus one; `None` if the register is zero, as in all threads of a Go program without
/// cgo.
pub(crate) fn thread_key() -> Option<u64> {
    let pointer: u64;
    // SAFETY: reads a register that every program may read.
    unsafe {
        asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nomem, nostack, preserves_flags))
    };
    (pointer != 0).then(|| pointer.wrapping_add(1))
}

/// Spreads threads over the slots of CPUs by the address of the stack, because no instruction tells a program its CPU.
pub(crate) fn spread() -> usize {
    let stack: usize;
    // SAFETY: reads the stack pointer.
    unsafe { asm!("mov {}, sp", out(reg) stack, options(nomem, nostack, preserves_flags)) };
    // Stacks of goroutines may be 8 KiB apart.
    stack >> 13 ^ stack >> 17 ^ stack >> 23
}

/// Counts a call in the thread's slot. Returns true if the call must be timed.
pub(crate) fn count_in(slot: &Slot, counter: usize) -> bool {
    slot.calls[counter & 31].fetch_add(1, Relaxed);
    slot.countdown[counter & 31].fetch_sub(1, Relaxed) == 1
}

/// The entries jump here if neither of the first two thread entries has the thread's key, with the address to continue
/// at in `x17`. Counts the call with counter number `w9`. Returns in `x12` the slot if the call must be timed,
/// otherwise 0.
///
/// Preserves all argument registers, `x9` and `x17`.
#[unsafe(naked)]
pub(crate) extern "C" fn slow() {
    naked_asm!(
        ".cfi_startproc",
        "stp x29, x30, [sp, #-112]!",
        ".cfi_adjust_cfa_offset 112",
        ".cfi_offset 29, -112",
        ".cfi_offset 30, -104",
        "stp x0, x1, [sp, #16]",
        "stp x2, x3, [sp, #32]",
        "stp x4, x5, [sp, #48]",
        "stp x6, x7, [sp, #64]",
        "stp x8, x9, [sp, #80]",
        "str x17, [sp, #96]",
        "mov w0, w9",
        "bl {count}",
        "mov x12, x0",
        "ldr x17, [sp, #96]",
        "ldp x8, x9, [sp, #80]",
        "ldp x6, x7, [sp, #64]",
        "ldp x4, x5, [sp, #48]",
        "ldp x2, x3, [sp, #32]",
        "ldp x0, x1, [sp, #16]",
        "ldp x29, x30, [sp], #112",
        ".cfi_adjust_cfa_offset -112",
        ".cfi_restore 29",
        ".cfi_restore 30",
        "br x17",
        ".cfi_endproc",
        count = sym crate::slots::count,
    )
}
