//! The functions of `--clock slow`.

use core::arch::naked_asm;

use crate::layout::Function;
use crate::slow_reads::{ASKS_CLOCKSOURCE, READ_TICKS, kernel};

/// Calls a function of the kernel's with the program's own arguments, and returns its result when the read has taken
/// long enough. The `lfence` keeps the first counter reading behind the last one of the previous call, so reads in a
/// row do not overlap in time.
macro_rules! answer_slowly {
    () => {
        concat!(
            "lfence\n rdtsc\n shl rdx, 32\n or rax, rdx\n",
            "push rax\n .cfi_adjust_cfa_offset 8\n",
            "call qword ptr [rip + __ehdr_start + {kernel}]\n",
            "pop rcx\n .cfi_adjust_cfa_offset -8\n",
            "mov esi, eax\n",
            "test rcx, rcx\n jz 5f\n",
            "4:\n rdtsc\n shl rdx, 32\n or rax, rdx\n jz 5f\n",
            "sub rax, rcx\n",
            // A counter that is behind, on another CPU, ends the wait too, because the difference is unsigned.
            "cmp rax, qword ptr [rip + __ehdr_start + {ticks}]\n jb 4b\n",
            "5:\n mov eax, esi\n ret"
        )
    };
}

/// `clock_gettime`.
#[unsafe(no_mangle)]
#[unsafe(naked)]
extern "C" fn slow_clock_gettime() {
    naked_asm!(
        ".cfi_startproc",
        "cmp edi, 31",
        "ja 3f",
        "mov eax, {asks}",
        "bt eax, edi",
        "jnc 3f",
        answer_slowly!(),
        "3:",
        "jmp qword ptr [rip + __ehdr_start + {kernel}]",
        ".cfi_endproc",
        asks = const ASKS_CLOCKSOURCE,
        kernel = const kernel(Function::ClockGettime),
        ticks = const READ_TICKS,
    )
}

/// `gettimeofday`. A call for the time zone alone reads no clock, so it is not delayed.
#[unsafe(no_mangle)]
#[unsafe(naked)]
extern "C" fn slow_gettimeofday() {
    naked_asm!(
        ".cfi_startproc",
        "test rdi, rdi",
        "jz 3f",
        answer_slowly!(),
        "3:",
        "jmp qword ptr [rip + __ehdr_start + {kernel}]",
        ".cfi_endproc",
        kernel = const kernel(Function::Gettimeofday),
        ticks = const READ_TICKS,
    )
}
