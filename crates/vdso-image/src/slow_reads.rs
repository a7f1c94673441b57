//! `--clock slow`: the kernel's answers, delayed as on a host with a slow clocksource.
//!
//! The kernel answers at once. The call returns when the counter has advanced by
//! [`Constants::read_ticks`](crate::layout::Constants) since the call's start. The answer is the kernel's own, so a
//! clock never runs backwards. Only reads that ask the clocksource take longer. On a host that fell back to a slow
//! clocksource, the coarse clocks, `time` and the processor times cost as much as on any other host.
//!
//! If a program forbids itself the counter (`PR_SET_TSC`), the tracer skips its counter reads and leaves a zero as the
//! result. The call then returns at once.

use core::arch::naked_asm;

use fastclock::ClockId;

use crate::arch::slow_reads::{answer_slowly, asks_clocksource, asks_for_time, to_kernel};
use crate::layout::{CONFIG_OFFSET, Config, Constants, Function, SESSION_OFFSET};

/// Offset of [`Constants::read_ticks`] from the image's base.
const READ_TICKS: usize = SESSION_OFFSET + core::mem::offset_of!(Constants, read_ticks);

/// Offset from the image's base of the word with the address of a function of the kernel's.
pub(crate) const fn kernel(function: Function) -> usize {
    CONFIG_OFFSET + core::mem::offset_of!(Config, kernel) + 8 * function as usize
}

/// One bit per clock whose reads ask the clocksource, by clock id. On every host, the kernel's vDSO passes reads of the
/// two alarm clocks on as system calls.
const ASKS_CLOCKSOURCE: u32 = bit(ClockId::Realtime)
    | bit(ClockId::Monotonic)
    | bit(ClockId::MonotonicRaw)
    | bit(ClockId::Boottime)
    | bit(ClockId::Tai)
    | bit(ClockId::RealtimeAlarm)
    | bit(ClockId::BoottimeAlarm);

const fn bit(clock: ClockId) -> u32 {
    1 << clock.as_raw()
}

/// `clock_gettime`.
#[unsafe(no_mangle)]
#[unsafe(naked)]
extern "C" fn slow_clock_gettime() {
    naked_asm!(
        ".cfi_startproc",
        asks_clocksource!(),
        answer_slowly!(),
        "3:",
        to_kernel!(),
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
        asks_for_time!(),
        answer_slowly!(),
        "3:",
        to_kernel!(),
        ".cfi_endproc",
        kernel = const kernel(Function::Gettimeofday),
        ticks = const READ_TICKS,
    )
}
