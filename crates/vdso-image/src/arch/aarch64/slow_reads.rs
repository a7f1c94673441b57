//! The instructions of `--clock slow` (`slow_reads.rs`).

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

/// Jumps to 3 unless reads of the clock ask the clocksource.
macro_rules! asks_clocksource {
    () => {
        "hint #34\n cmp w0, #31\n b.hi 3f\n mov w9, #{asks}\n lsr w9, w9, w0\n tbz w9, #0, 3f"
    };
}

/// Jumps to 3 if the call is for the time zone alone.
macro_rules! asks_for_time {
    () => {
        "hint #34\n cbz x0, 3f"
    };
}

/// Jumps to the kernel's function.
macro_rules! to_kernel {
    () => {
        "ldr x16, __ehdr_start + {kernel}\n br x16"
    };
}

pub(crate) use {answer_slowly, asks_clocksource, asks_for_time, to_kernel};
