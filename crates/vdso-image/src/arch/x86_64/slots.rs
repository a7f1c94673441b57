//! What giving a thread a slot, and counting in it, needs of the CPU.

use core::arch::{asm, naked_asm};

use crate::layout::Slot;

/// The address where the image begins.
#[inline(always)]
pub(crate) fn image_base() -> usize {
    let base;
    // SAFETY: computes an address; reads and writes nothing.
    unsafe {
        asm!("lea {}, [rip + __ehdr_start]", out(reg) base, options(nomem, nostack, preserves_flags));
    }
    base
}

/// The thread's key: its FS base plus one.
pub(crate) fn thread_key() -> Option<u64> {
    let key: u64;
    // SAFETY: reads the FS base; the command lets the image count by thread only where the kernel
    // says that the instruction is allowed (AT_HWCAP2 bit 1).
    unsafe { asm!("rdfsbase {}", out(reg) key, options(nomem, nostack, preserves_flags)) };
    Some(key.wrapping_add(1))
}

/// What spreads threads over the slots of CPUs: the number of the CPU, from the limit of the segment that Linux sets up for this purpose.
///
/// Only a hint: the thread may be moved at once, which is why the slot is added to with a lock.
/// Source: `__getcpu` in arch/x86/include/asm/segment.h (Linux 6.18).
pub(crate) fn spread() -> usize {
    let limit: usize;
    // SAFETY: `lsl` reads a descriptor's limit; on an unusable selector it only clears a flag,
    // and the register keeps its zero.
    unsafe {
        asm!("lsl {limit:e}, {selector:e}", limit = inout(reg) 0_usize => limit,
            selector = in(reg) 0x7b_u32, options(nomem, nostack));
    }
    limit & 0xfff
}

/// Counts a call in the thread's slot; true if it is to be timed.
pub(crate) fn count_in(slot: &Slot, counter: usize) -> bool {
    let (calls, countdown) =
        (slot.calls[counter & 31].as_ptr(), slot.countdown[counter & 31].as_ptr());
    let due: u8;
    // SAFETY: both are aligned words of the shared pages; the slot is this thread's own,
    // and single instructions keep its signal handlers from losing a count.
    unsafe {
        asm!(
            "inc qword ptr [{calls}]", "dec dword ptr [{countdown}]", "setz {due}",
            calls = in(reg) calls, countdown = in(reg) countdown, due = out(reg_byte) due,
            options(nostack)
        );
    }
    due != 0
}

/// Called by the entries when the thread's key is not in its first two places: counts the call
/// with counter number `eax`, and returns in `r11` the slot if the call is to be timed, or 0.
///
/// Keeps every register but `r10`, `r11` and the flags.
#[unsafe(naked)]
pub(crate) extern "C" fn slow() {
    naked_asm!(
        ".cfi_startproc",
        "push rax", ".cfi_adjust_cfa_offset 8",
        "push rdi", ".cfi_adjust_cfa_offset 8",
        "push rsi", ".cfi_adjust_cfa_offset 8",
        "push rdx", ".cfi_adjust_cfa_offset 8",
        "push rcx", ".cfi_adjust_cfa_offset 8",
        "push r8", ".cfi_adjust_cfa_offset 8",
        "push r9", ".cfi_adjust_cfa_offset 8",
        "mov edi, eax",
        "call {count}",
        "mov r11, rax",
        "pop r9", ".cfi_adjust_cfa_offset -8",
        "pop r8", ".cfi_adjust_cfa_offset -8",
        "pop rcx", ".cfi_adjust_cfa_offset -8",
        "pop rdx", ".cfi_adjust_cfa_offset -8",
        "pop rsi", ".cfi_adjust_cfa_offset -8",
        "pop rdi", ".cfi_adjust_cfa_offset -8",
        "pop rax", ".cfi_adjust_cfa_offset -8",
        "ret",
        ".cfi_endproc",
        count = sym crate::slots::count,
    )
}
