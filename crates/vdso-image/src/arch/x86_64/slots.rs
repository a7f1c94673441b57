//! The CPU-specific part of `slots.rs`.

use core::arch::{asm, naked_asm};

use crate::layout::Slot;

/// The image's base address.
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
    // SAFETY: reads the FS base. The command lets the image count by thread only if the kernel says that the
    // instruction is allowed (AT_HWCAP2 bit 1).
    unsafe { asm!("rdfsbase {}", out(reg) key, options(nomem, nostack, preserves_flags)) };
    Some(key.wrapping_add(1))
}

/// Spreads threads over the slots of CPUs: returns the CPU's number, from the limit of the segment that Linux sets up
/// for this purpose.
///
/// The number is only a hint: the kernel may move the thread at once. So threads add to these slots with a lock.
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

/// Counts a call in the thread's slot. Returns true if the call must be timed.
pub(crate) fn count_in(slot: &Slot, counter: usize) -> bool {
    let (calls, countdown) =
        (slot.calls[counter & 31].as_ptr(), slot.countdown[counter & 31].as_ptr());
    let due: u8;
    // SAFETY: both are aligned words of the shared pages. The slot is this thread's own, and single instructions keep
    // the thread's signal handlers from losing a count.
    unsafe {
        asm!(
            "inc qword ptr [{calls}]", "dec dword ptr [{countdown}]", "setz {due}",
            calls = in(reg) calls, countdown = in(reg) countdown, due = out(reg_byte) due,
            options(nostack)
        );
    }
    due != 0
}

/// Called by the entries if neither of the first two thread entries has the thread's key. Counts the call with counter
/// number `eax`. Returns in `r11` the slot if the call must be timed, otherwise 0.
///
/// Preserves every register but `r10`, `r11` and the flags.
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
