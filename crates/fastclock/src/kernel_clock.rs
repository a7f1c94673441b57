//! The kernel's clocks, with the same trait as [`Clock`](crate::Clock).

use crate::clock_id::ClockId;
use crate::points::{Bounded, Monotonic, Realtime};
use crate::read_clock::ReadClock;
use crate::sys;
use crate::units::Nanos;

/// The kernel's clocks through `clock_gettime(2)`. Their bound is zero, because other clocks are
/// measured against them.
///
/// # Examples
///
/// ```
/// use fastclock::{KernelClock, ReadClock};
///
/// let first = KernelClock.now();
/// assert!(KernelClock.now() >= first);
/// assert!(KernelClock.coarse() <= KernelClock.now());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelClock;

impl ReadClock for KernelClock {
    fn now(&self) -> Monotonic {
        Monotonic(sys::now(ClockId::Monotonic))
    }

    fn realtime(&self) -> Realtime {
        Realtime(sys::now(ClockId::Realtime))
    }

    fn now_bounded(&self) -> Bounded<Monotonic> {
        Bounded { time: self.now(), bound: Nanos::ZERO, declined: None }
    }

    fn realtime_bounded(&self) -> Bounded<Realtime> {
        Bounded { time: self.realtime(), bound: Nanos::ZERO, declined: None }
    }

    fn coarse(&self) -> Monotonic {
        Monotonic(sys::now(ClockId::MonotonicCoarse))
    }

    fn coarse_realtime(&self) -> Realtime {
        Realtime(sys::now(ClockId::RealtimeCoarse))
    }
}
