//! The functions of `--clock tsc` and `tsc-fast`.

use core::arch::{asm, naked_asm};

use fastclock::arch::CpuCounter;
use fastclock::page::{Order, PageClock};

use crate::layout::Function;
use crate::routes::{Timespec, Timeval};
use crate::slow_reads::kernel;
use crate::tsc::{
    BOOTTIME, MONOTONIC, REALTIME, TAI, answer, gettimeofday, one_clock, reader, slow,
};

/// A zero that the compiler cannot know to be zero.
#[inline(always)]
pub(crate) fn zero() -> i32 {
    let result;
    // SAFETY: sets a register to zero.
    unsafe { asm!("mov {0:w}, wzr", out(reg) result, options(pure, nomem, nostack)) };
    result
}

one_clock! {
    ordered_monotonic => MONOTONIC, reader(CpuCounter).try_timespec(PageClock::Monotonic, Order::Ordered);
    ordered_realtime => REALTIME, reader(CpuCounter).try_timespec(PageClock::Realtime, Order::Ordered);
    ordered_boottime => BOOTTIME, reader(CpuCounter).try_timespec(PageClock::Boottime, Order::Ordered);
    ordered_tai => TAI, reader(CpuCounter).try_timespec(PageClock::Tai, Order::Ordered);
    fast_monotonic => MONOTONIC, reader(CpuCounter).try_timespec(PageClock::Monotonic, Order::Unordered);
    fast_realtime => REALTIME, reader(CpuCounter).try_timespec(PageClock::Realtime, Order::Unordered);
    fast_boottime => BOOTTIME, reader(CpuCounter).try_timespec(PageClock::Boottime, Order::Unordered);
    fast_tai => TAI, reader(CpuCounter).try_timespec(PageClock::Tai, Order::Unordered);
}

/// `clock_gettime`: jumps to the function of the clock.
macro_rules! by_clock {
    ($($name:ident => $monotonic:ident, $realtime:ident, $boottime:ident, $tai:ident;)*) => {$(
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        extern "C" fn $name() {
            naked_asm!(
                ".cfi_startproc",
                "hint #34",
                "cmp w0, #{monotonic_id}",
                "b.eq {monotonic}",
                "cbz w0, {realtime}",
                "cmp w0, #{boottime_id}",
                "b.eq {boottime}",
                "cmp w0, #{tai_id}",
                "b.eq {tai}",
                "ldr x16, __ehdr_start + {kernel}",
                "br x16",
                ".cfi_endproc",
                monotonic_id = const MONOTONIC,
                boottime_id = const BOOTTIME,
                tai_id = const TAI,
                monotonic = sym $monotonic,
                realtime = sym $realtime,
                boottime = sym $boottime,
                tai = sym $tai,
                kernel = const kernel(Function::ClockGettime),
            )
        }
    )*};
}

by_clock! {
    tsc_clock_gettime => ordered_monotonic, ordered_realtime, ordered_boottime, ordered_tai;
    fast_clock_gettime => fast_monotonic, fast_realtime, fast_boottime, fast_tai;
}

/// `gettimeofday`, ordered.
#[unsafe(no_mangle)]
extern "C" fn tsc_gettimeofday(time: *mut Timeval, zone: *mut u8) -> i32 {
    gettimeofday(time, zone, CpuCounter, Order::Ordered)
}

/// `gettimeofday`, unordered.
#[unsafe(no_mangle)]
extern "C" fn fast_gettimeofday(time: *mut Timeval, zone: *mut u8) -> i32 {
    gettimeofday(time, zone, CpuCounter, Order::Unordered)
}
