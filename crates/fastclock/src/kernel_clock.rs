//! The kernel's clocks behind the same trait as the others.

use crate::clock_id::ClockId;
use crate::points::{Bounded, Monotonic, Realtime};
use crate::read_clock::ReadClock;
use crate::sys;
use crate::units::Nanos;

/// The kernel's clocks through `clock_gettime(2)`; their bound is zero, they are what others are
/// measured by.
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
