//! The clocks that a page holds, and their times as seconds and nanoseconds.

use crate::clock_id::ClockId;
use crate::units::Nanos;

/// The clocks whose times a page holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageClock {
    /// `CLOCK_MONOTONIC`
    Monotonic,
    /// `CLOCK_REALTIME`
    Realtime,
    /// `CLOCK_BOOTTIME`
    Boottime,
    /// `CLOCK_TAI`
    Tai,
}

impl PageClock {
    /// The clock's id.
    #[inline]
    pub const fn id(self) -> ClockId {
        match self {
            Self::Monotonic => ClockId::Monotonic,
            Self::Realtime => ClockId::Realtime,
            Self::Boottime => ClockId::Boottime,
            Self::Tai => ClockId::Tai,
        }
    }
}

/// Seconds and nanoseconds, as in `struct timespec`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimeSpec {
    /// Whole seconds.
    pub sec: i64,
    /// Nanoseconds within the second, below 10^9.
    pub nsec: i64,
}

impl TimeSpec {
    /// From nanoseconds. A time below zero has `nsec` at or above zero, as the kernel's has.
    #[inline]
    pub const fn from_nanos(nanos: Nanos) -> Self {
        Self { sec: nanos.0.div_euclid(1_000_000_000), nsec: nanos.0.rem_euclid(1_000_000_000) }
    }
}
