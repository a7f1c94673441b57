//! The functions of `--clock slow`.

use core::arch::naked_asm;

use crate::layout::Function;
use crate::slow_reads::{ASKS_CLOCKSOURCE, READ_TICKS, kernel};

/// Calls a function of the kernel's with the program's own arguments, and returns its result when the read has taken
/// long enough. The `isb` keeps the first counter reading behind the last one of the previous call, so reads in a row
/// do not overlap in time.
macro_rules! answer_slowly {
    () => {
        concat!(
            "stp x29, x30, [sp, #-32]!\n .cfi_adjust_cfa_offset 32\n",
            ".cfi_offset 29, -32\n .cfi_offset 30, -24\n",
            "mov x29, sp\n",
            "isb\n mrs x9, cntvct_el0\n str x9, [sp, #16]\n",
            "ldr x16, __ehdr_start + {kernel}\n blr x16\n",
            "ldr x9, [sp, #16]\n",
            "ldp x29, x30, [sp], #32\n .cfi_adjust_cfa_offset -32\n",
            ".cfi_restore 29\n .cfi_restore 30\n",
            "cbz x9, 5f\n",
            "ldr x10, __ehdr_start + {ticks}\n",
            "4:\n mrs x11, cntvct_el0\n cbz x11, 5f\n",
            "sub x11, x11, x9\n",
            // A counter that is behind, on another CPU, ends the wait too, because the difference is unsigned.
            "cmp x11, x10\n b.lo 4b\n",
            "5:\n ret"
        )
    };
}

/// `clock_gettime`.
#[unsafe(no_mangle)]
#[unsafe(naked)]
extern "C" fn slow_clock_gettime() {
    naked_asm!(
        ".cfi_startproc",
        "hint #34",
        "cmp w0, #31",
        "b.hi 3f",
        "mov w9, #{asks}",
        "lsr w9, w9, w0",
        "tbz w9, #0, 3f",
        answer_slowly!(),
        "3:",
        "ldr x16, __ehdr_start + {kernel}",
        "br x16",
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
        "hint #34",
        "cbz x0, 3f",
        answer_slowly!(),
        "3:",
        "ldr x16, __ehdr_start + {kernel}",
        "br x16",
        ".cfi_endproc",
        kernel = const kernel(Function::Gettimeofday),
        ticks = const READ_TICKS,
    )
}
