//! The trait that all clocks implement.

use crate::points::{Bounded, Monotonic, Realtime};

/// A readable clock; for programs that replace their clock in tests.
///
/// [`Clock`](crate::Clock), [`KernelClock`](crate::KernelClock) and [`MockClock`](crate::MockClock)
/// implement it. See [`Clock`](crate::Clock) for the meaning of the calls.
///
/// # Examples
///
/// ```
/// use fastclock::{MockClock, Nanos, ReadClock};
///
/// fn expired(clock: &impl ReadClock, since: fastclock::Monotonic) -> bool {
///     clock.now().saturating_since(since) >= Nanos(1_000_000_000)
/// }
///
/// let clock = MockClock::new();
/// let start = clock.now();
/// assert!(!expired(&clock, start));
/// clock.advance(Nanos(1_000_000_000));
/// assert!(expired(&clock, start));
/// ```
pub trait ReadClock {
    /// `CLOCK_MONOTONIC`, ordered: read after all earlier instructions are done.
    fn now(&self) -> Monotonic;

    /// `CLOCK_REALTIME`, ordered.
    fn realtime(&self) -> Realtime;

    /// `CLOCK_MONOTONIC`, ordered, and its bound.
    fn now_bounded(&self) -> Bounded<Monotonic>;

    /// `CLOCK_REALTIME`, ordered, and its bound.
    fn realtime_bounded(&self) -> Bounded<Realtime>;

    /// `CLOCK_MONOTONIC`, read whenever the CPU likes.
    fn now_fast(&self) -> Monotonic {
        self.now()
    }

    /// `CLOCK_REALTIME`, read whenever the CPU likes.
    fn realtime_fast(&self) -> Realtime {
        self.realtime()
    }

    /// `CLOCK_MONOTONIC`, read whenever the CPU likes, and its bound.
    fn now_bounded_fast(&self) -> Bounded<Monotonic> {
        self.now_bounded()
    }

    /// `CLOCK_REALTIME`, read whenever the CPU likes, and its bound.
    fn realtime_bounded_fast(&self) -> Bounded<Realtime> {
        self.realtime_bounded()
    }

    /// `CLOCK_MONOTONIC` as of the last refresh.
    fn recent(&self) -> Monotonic {
        self.now()
    }

    /// `CLOCK_MONOTONIC` at the last timer tick.
    fn coarse(&self) -> Monotonic {
        self.now()
    }

    /// `CLOCK_REALTIME` at the last timer tick.
    fn coarse_realtime(&self) -> Realtime {
        self.realtime()
    }

    /// The last full second of `CLOCK_REALTIME`.
    fn second(&self) -> Realtime {
        self.coarse_realtime().truncated_to_second()
    }
}
