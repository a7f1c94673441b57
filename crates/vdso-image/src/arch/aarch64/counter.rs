//! The functions of `--clock tsc` and `tsc-fast` (`tsc.rs`): what differs on arm64.

use core::arch::asm;

/// A zero that the compiler cannot know to be zero.
#[inline(always)]
pub(crate) fn zero() -> i32 {
    let result;
    // SAFETY: sets a register to zero.
    unsafe { asm!("mov {0:w}, wzr", out(reg) result, options(pure, nomem, nostack)) };
    result
}

/// Jumps to the function of the clock in `w0`.
macro_rules! by_clock_code {
    () => {
        "hint #34
         cmp w0, #{monotonic_id}
         b.eq {monotonic}
         cbz w0, {realtime}
         cmp w0, #{boottime_id}
         b.eq {boottime}
         cmp w0, #{tai_id}
         b.eq {tai}
         ldr x16, __ehdr_start + {kernel}
         br x16"
    };
}

pub(crate) use by_clock_code;
