//! A clock that a test sets.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::Arc;

use crate::points::{Bounded, Monotonic, Realtime};
use crate::read_clock::ReadClock;
use crate::sync::AtomicI64;
use crate::units::Nanos;

/// A clock that stands still until the test moves it. A clone shows the same time.
///
/// Starts at zero: `CLOCK_MONOTONIC` at the machine's start, `CLOCK_REALTIME` in 1970.
///
/// # Examples
///
/// ```
/// use fastclock::{MockClock, Monotonic, Nanos, ReadClock, Realtime};
///
/// let clock = MockClock::new();
/// let seen_by_the_program = clock.clone();
/// clock.set_realtime(Realtime(Nanos(1_700_000_000_000_000_000)));
/// clock.advance(Nanos(5));
/// assert_eq!(seen_by_the_program.now(), Monotonic(Nanos(5)));
/// assert_eq!(seen_by_the_program.realtime(), Realtime(Nanos(1_700_000_000_000_000_005)));
/// ```
#[derive(Clone, Debug, Default)]
pub struct MockClock {
    shown: Arc<Shown>,
}

#[derive(Debug, Default)]
struct Shown {
    mono: AtomicI64,
    real: AtomicI64,
    bound: AtomicI64,
}

impl MockClock {
    /// At zero, with a bound of zero.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Advances both clocks. Saturates; a span below zero counts as zero, because `CLOCK_MONOTONIC`
    /// does not go back.
    pub fn advance(&self, span: Nanos) {
        let span = span.0.max(0);
        for clock in [&self.shown.mono, &self.shown.real] {
            let _ = clock.fetch_update(AcqRel, Acquire, |time| Some(time.saturating_add(span)));
        }
    }

    /// Sets `CLOCK_MONOTONIC`, backwards too: a program under test may have to survive that.
    pub fn set(&self, time: Monotonic) {
        self.shown.mono.store(time.as_nanos(), Release);
    }

    /// Sets `CLOCK_REALTIME`, as `clock_settime(2)` does.
    pub fn set_realtime(&self, time: Realtime) {
        self.shown.real.store(time.as_nanos(), Release);
    }

    /// Steps `CLOCK_REALTIME` by this much, either way; saturates.
    pub fn step_realtime(&self, span: Nanos) {
        let step = |time: i64| Some(time.saturating_add(span.0));
        let _ = self.shown.real.fetch_update(AcqRel, Acquire, step);
    }

    /// Sets the bound of the readings from now on, ns.
    pub fn set_bound(&self, bound: Nanos) {
        self.shown.bound.store(bound.0, Release);
    }
}

impl ReadClock for MockClock {
    fn now(&self) -> Monotonic {
        Monotonic(Nanos(self.shown.mono.load(Acquire)))
    }

    fn realtime(&self) -> Realtime {
        Realtime(Nanos(self.shown.real.load(Acquire)))
    }

    fn now_bounded(&self) -> Bounded<Monotonic> {
        let bound = Nanos(self.shown.bound.load(Acquire));
        Bounded { time: self.now(), bound, declined: None }
    }

    fn realtime_bounded(&self) -> Bounded<Realtime> {
        let bound = Nanos(self.shown.bound.load(Acquire));
        Bounded { time: self.realtime(), bound, declined: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_realtime_steps() {
        let clock = MockClock::new();
        clock.advance(Nanos(100));
        clock.step_realtime(Nanos(-30));
        clock.set_bound(Nanos(7));
        assert_eq!(clock.now(), Monotonic(Nanos(100)));
        assert_eq!(clock.realtime(), Realtime(Nanos(70)));
        assert_eq!(clock.now_bounded().bound, Nanos(7));
        assert_eq!(clock.now_bounded_fast(), clock.now_bounded());
        assert_eq!(clock.realtime_bounded_fast(), clock.realtime_bounded());
        assert_eq!(clock.realtime_bounded().time, clock.realtime());
    }

    #[test]
    fn time_saturates_and_does_not_pass_backwards() {
        let clock = MockClock::new();
        clock.advance(Nanos(-5));
        assert_eq!(clock.now(), Monotonic(Nanos(0)));
        clock.set(Monotonic(Nanos(i64::MAX)));
        clock.advance(Nanos(5));
        assert_eq!(clock.now(), Monotonic(Nanos(i64::MAX)));
        assert_eq!(clock.realtime(), Realtime(Nanos(5)));
    }

    #[test]
    fn threads_share_one_time() {
        let clock = MockClock::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1_000).for_each(|_| clock.advance(Nanos(1))));
            }
        });
        assert_eq!(clock.clone().now(), Monotonic(Nanos(4_000)));
    }

    #[test]
    fn cached_readings_of_a_mock_are_the_time_itself() {
        let clock = MockClock::new();
        clock.advance(Nanos(1_500_000_000));
        assert_eq!(clock.recent(), clock.now());
        assert_eq!(clock.coarse(), clock.now());
        assert_eq!(clock.coarse_realtime(), clock.realtime());
        assert_eq!(clock.second(), Realtime(Nanos(1_000_000_000)));
        assert_eq!(clock.now_fast(), clock.now());
        assert_eq!(clock.realtime_fast(), clock.realtime());
    }
}
