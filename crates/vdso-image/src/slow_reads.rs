//! `--clock slow`: the kernel's answers, after as long as a read takes on a host whose clocksource is slow.
//!
//! The kernel answers at once, and the call returns when the counter has gone on by
//! [`Constants::read_ticks`](crate::layout::Constants) since its start. The answer is the kernel's own, so a
//! clock never runs backwards. Only reads that ask the clocksource take longer: on a host that fell back, the
//! coarse clocks, `time` and the processor times cost what they cost everywhere.
//!
//! A program that forbids itself the counter (`PR_SET_TSC`) has its reads of it stepped over by the tracer,
//! which leaves a zero: then the call returns at once.

use fastclock::ClockId;

use crate::layout::{CONFIG_OFFSET, Config, Constants, Function, SESSION_OFFSET};

/// Offset of the ticks that a read takes from the image's base.
pub(crate) const READ_TICKS: usize = SESSION_OFFSET + core::mem::offset_of!(Constants, read_ticks);

/// Offset of the address of a function of the kernel's from the image's base.
pub(crate) const fn kernel(function: Function) -> usize {
    CONFIG_OFFSET + core::mem::offset_of!(Config, kernel) + 8 * function as usize
}

/// A bit for the number of each clock whose reads ask the clocksource. The two alarm clocks do so by a
/// system call, everywhere.
pub(crate) const ASKS_CLOCKSOURCE: u32 = bit(ClockId::Realtime)
    | bit(ClockId::Monotonic)
    | bit(ClockId::MonotonicRaw)
    | bit(ClockId::Boottime)
    | bit(ClockId::Tai)
    | bit(ClockId::RealtimeAlarm)
    | bit(ClockId::BoottimeAlarm);

const fn bit(clock: ClockId) -> u32 {
    1 << clock.as_raw()
}
