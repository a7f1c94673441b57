//! The functions of `--clock tsc` and `tsc-fast` (`tsc.rs`): what differs on x86-64, and those with `rdtscp` for CPUs
//! that have it.

use core::arch::{asm, naked_asm};

use fastclock::arch::CpuCounterP;
use fastclock::page::{Order, PageClock};

use crate::layout::Function;
use crate::routes::{Timespec, Timeval};
use crate::slow_reads::kernel;
use crate::tsc::{
    BOOTTIME, MONOTONIC, REALTIME, TAI, answer, by_clock, gettimeofday, one_clock, reader, slow,
};

/// A zero that the compiler cannot know to be zero.
#[inline(always)]
pub(crate) fn zero() -> i32 {
    let result;
    // SAFETY: sets a register to zero.
    unsafe { asm!("xor {0:e}, {0:e}", out(reg) result, options(pure, nomem, nostack)) };
    result
}

/// Jumps to the function of the clock in `edi`.
macro_rules! by_clock_code {
    () => {
        "cmp edi, {monotonic_id}\n je {monotonic}
         test edi, edi\n jz {realtime}
         cmp edi, {boottime_id}\n je {boottime}
         cmp edi, {tai_id}\n je {tai}
         jmp qword ptr [rip + __ehdr_start + {kernel}]"
    };
}

pub(crate) use by_clock_code;

one_clock! {
    ordered_p_monotonic => MONOTONIC, reader(CpuCounterP).try_timespec(PageClock::Monotonic, Order::Ordered);
    ordered_p_realtime => REALTIME, reader(CpuCounterP).try_timespec(PageClock::Realtime, Order::Ordered);
    ordered_p_boottime => BOOTTIME, reader(CpuCounterP).try_timespec(PageClock::Boottime, Order::Ordered);
    ordered_p_tai => TAI, reader(CpuCounterP).try_timespec(PageClock::Tai, Order::Ordered);
}

by_clock! {
    tscp_clock_gettime => ordered_p_monotonic, ordered_p_realtime, ordered_p_boottime, ordered_p_tai;
}

/// `gettimeofday`, ordered, by `rdtscp`.
#[unsafe(no_mangle)]
extern "C" fn tscp_gettimeofday(time: *mut Timeval, zone: *mut u8) -> i32 {
    gettimeofday(time, zone, CpuCounterP, Order::Ordered)
}
