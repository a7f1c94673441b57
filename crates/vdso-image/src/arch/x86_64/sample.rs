//! Makes a call and times it.

use core::arch::{asm, naked_asm};

use crate::layout::Slot;

/// Makes a call and times it, and passes the sample probe if the call is drawn. Works for any function with up to five
/// arguments, whatever the other registers hold. The last argument, in `r9`, is the address of the slot plus the number
/// of the counter (slots are aligned to 128 bytes).
///
/// During the call only three words of ours are on the stack, because the caller may not have much room there.
///
/// At the sample probe the stack pointer points to the return address and every callee-saved register has the caller's
/// value. `edx` is the weight of this call (0: the call is there only as the second of a pair). The upper half of `rdx`
/// is the ticks since the first of the pair (0: the call is no second). `r9` has the same value as at the entry, `r10`
/// holds the ticks that the slot's last passage took, `r11` the number of the wait that follows (0: none;
/// `Threads::held`).
#[unsafe(naked)]
pub(crate) extern "C" fn sample() {
    naked_asm!(
        ".cfi_startproc",
        "push r9", ".cfi_adjust_cfa_offset 8",
        "push rdi", ".cfi_adjust_cfa_offset 8",
        "push rsi", ".cfi_adjust_cfa_offset 8",
        "push rdx", ".cfi_adjust_cfa_offset 8",
        "push rcx", ".cfi_adjust_cfa_offset 8",
        "push r8", ".cfi_adjust_cfa_offset 8",
        "mov rdi, r9",
        "call {before}",
        "mov r11, rdx",
        "pop r8", ".cfi_adjust_cfa_offset -8",
        "pop rcx", ".cfi_adjust_cfa_offset -8",
        "pop rdx", ".cfi_adjust_cfa_offset -8",
        "pop rsi", ".cfi_adjust_cfa_offset -8",
        "pop rdi", ".cfi_adjust_cfa_offset -8",
        "test rax, rax",
        "jz 4f",
        "push rax", ".cfi_adjust_cfa_offset 8",
        // Reads the counter before the call, after all earlier instructions are done.
        "mov r10, rdx",
        "lfence",
        "rdtsc",
        "shl rdx, 32",
        "or rax, rdx",
        "mov rdx, r10",
        "push rax", ".cfi_adjust_cfa_offset 8",
        "call r11",
        // Reads the counter after the call is done.
        "mov r10, rax",
        "rdtscp",
        "shl rdx, 32",
        "or rdx, rax",
        "pop rax", ".cfi_adjust_cfa_offset -8",
        "sub rdx, rax",
        "pop rsi", ".cfi_adjust_cfa_offset -8",
        "mov rdi, qword ptr [rsp]",
        "push r10", ".cfi_adjust_cfa_offset 8",
        "call {after}",
        "mov r11, rdx",
        "mov rdx, rax",
        "pop rax", ".cfi_adjust_cfa_offset -8",
        "pop r9", ".cfi_adjust_cfa_offset -8",
        "test rdx, rdx",
        "jz 3f",
        "mov r10, r9",
        "and r10, {align}",
        "mov r10, qword ptr [r10 + {probe_ticks}]",
        ".globl clockscope_sample_probe",
        "clockscope_sample_probe:",
        "nop",
        "mov rdi, r9",
        "mov rsi, rax",
        "mov rdx, r11",
        "jmp {passed}",
        "3:",
        "ret",
        "4:", ".cfi_adjust_cfa_offset 8",
        "pop r9", ".cfi_adjust_cfa_offset -8",
        "jmp r11",
        ".cfi_endproc",
        align = const -(align_of::<Slot>() as i32),
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
    // SAFETY: reads the counter as `sample` does; changes only these registers and the flags.
    unsafe {
        asm!(
            "lfence",
            "rdtsc",
            "shl rdx, 32",
            "or rax, rdx",
            "mov {first}, rax",
            "rdtscp",
            "shl rdx, 32",
            "or rax, rdx",
            "sub rax, {first}",
            first = out(reg) _,
            out("rax") ticks,
            out("rdx") _,
            out("rcx") _,
            options(nomem, nostack),
        );
    }
    ticks
}
