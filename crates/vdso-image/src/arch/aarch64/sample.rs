//! Makes a call and times it.

use core::arch::{asm, naked_asm};

use crate::layout::Slot;

/// Makes a call and times it, and passes the sample probe if the call is drawn. Works for any function with up to eight
/// arguments. `x9` is the address of the slot plus the number of the counter (slots are aligned to 128 bytes).
///
/// At the sample probe the stack pointer and every callee-saved register have the caller's values, and `x30` is the
/// return address. `w1` is the weight of this call (0: the call is there only as the second of a pair). The upper half
/// of `x1` is the ticks since the first of the pair (0: the call is no second). `x9` has the same value as at the
/// entry, `x10` holds the ticks that the slot's last passage took, `x11` the number of the wait that follows (0: none;
/// `Threads::held`).
#[unsafe(naked)]
pub(crate) extern "C" fn sample() {
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
        "str x9, [sp, #80]",
        "mov x0, x9",
        "bl {before}",
        "mov x16, x1",
        "mov x10, x0",
        "ldp x6, x7, [sp, #64]",
        "ldp x4, x5, [sp, #48]",
        "ldp x2, x3, [sp, #32]",
        "ldp x0, x1, [sp, #16]",
        "cbz x10, 4f",
        "str x10, [sp, #88]",
        // Reads the counter before the call, after all earlier instructions are done.
        "isb",
        "mrs x9, cntvct_el0",
        "str x9, [sp, #96]",
        "blr x16",
        // Reads the counter after the call is done.
        "isb",
        "mrs x2, cntvct_el0",
        "str x0, [sp, #16]",
        "ldr x9, [sp, #96]",
        "sub x2, x2, x9",
        "ldp x0, x1, [sp, #80]",
        "bl {after}",
        "mov x12, x0",
        "mov x11, x1",
        "ldr x9, [sp, #80]",
        "ldr x0, [sp, #16]",
        "ldp x29, x30, [sp], #112",
        ".cfi_remember_state",
        ".cfi_adjust_cfa_offset -112",
        ".cfi_restore 29",
        ".cfi_restore 30",
        "cbz x12, 3f",
        "mov x1, x12",
        "and x10, x9, #{align}",
        "ldr x10, [x10, #{probe_ticks}]",
        ".globl clockscope_sample_probe",
        "clockscope_sample_probe:",
        "nop",
        "mov x2, x11",
        "mov x1, x0",
        "mov x0, x9",
        "b {passed}",
        "3:",
        "ret",
        "4:", // not to be timed
        ".cfi_restore_state",
        "ldp x29, x30, [sp], #112",
        ".cfi_adjust_cfa_offset -112",
        ".cfi_restore 29",
        ".cfi_restore 30",
        "br x16",
        ".cfi_endproc",
        align = const -(align_of::<Slot>() as i64),
        probe_ticks = const core::mem::offset_of!(Slot, probe_ticks),
        before = sym crate::sample::before,
        after = sym crate::sample::after,
        passed = sym crate::sample::passed,
    )
}

/// Ticks between two counter readings as `sample` makes them, with nothing in between.
#[inline(always)]
pub(crate) fn empty_ticks() -> u64 {
    let ticks: u64;
    // SAFETY: reads the counter as `sample` does; changes only these registers.
    unsafe {
        asm!(
            "isb",
            "mrs {first}, cntvct_el0",
            "isb",
            "mrs {ticks}, cntvct_el0",
            "sub {ticks}, {ticks}, {first}",
            first = out(reg) _,
            ticks = out(reg) ticks,
            options(nomem, nostack, preserves_flags),
        );
    }
    ticks
}
