//! Offsets of the other clocks from `CLOCK_MONOTONIC`: constant until the time is set or the
//! machine is suspended.

use super::Reading;
use crate::line::Offsets;
use crate::units::Nanos;

const SECOND: i64 = 1_000_000_000;
/// Shortest suspend, ns; a smaller difference can come from counters that differ between two CPUs.
const SHORTEST_SLEEP: i64 = 1_000;

/// A constant, as the intersection of the intervals in which it was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Constant {
    low: i64,
    high: i64,
}

impl Constant {
    fn seen(value: Nanos, half_width: u64) -> Self {
        let half = i64::try_from(half_width).unwrap_or(i64::MAX);
        Self { low: value.0.saturating_sub(half), high: value.0.saturating_add(half) }
    }

    fn with(self, other: Self) -> Option<Self> {
        let both = Self { low: self.low.max(other.low), high: self.high.min(other.high) };
        (both.low <= both.high).then_some(both)
    }

    /// Zero if that is possible; otherwise the least possible value, so that better knowledge never
    /// moves a clock back.
    fn value(self) -> i64 {
        if self.low <= 0 && self.high >= 0 { 0 } else { self.low }
    }

    /// Largest error of the value; zero counts as exact.
    fn doubt(self) -> u64 {
        match self.value() {
            0 => 0,
            value => self.high.saturating_sub(value).max(0).unsigned_abs(),
        }
    }

    /// Distance of two intervals; 0 if they overlap.
    fn gap(self, other: Self) -> i64 {
        self.low.saturating_sub(other.high).max(other.low.saturating_sub(self.high)).max(0)
    }
}

/// The offsets of the other clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Constants {
    real: Constant,
    boot: Constant,
    /// `CLOCK_TAI` minus `CLOCK_REALTIME`: whole seconds.
    tai_seconds: i64,
}

impl Constants {
    pub(super) fn new(reading: &Reading) -> Self {
        let behind = reading.offsets.tai.0.saturating_sub(reading.offsets.real.0);
        Self {
            real: Constant::seen(reading.offsets.real, reading.offsets_half_width),
            boot: Constant::seen(reading.offsets.boot, reading.boot_half_width),
            tai_seconds: behind.saturating_add(SECOND / 2).div_euclid(SECOND),
        }
    }

    /// Duration of a suspend before this reading, if there was one.
    pub(super) fn asleep(&self, reading: &Reading) -> Option<Nanos> {
        let seen = Self::new(reading).boot;
        let asleep = seen.value().saturating_sub(self.boot.value());
        (self.boot.gap(seen) > SHORTEST_SLEEP).then_some(Nanos(asleep))
    }

    /// Takes a reading in; returns the size of the step if `CLOCK_REALTIME` was set.
    pub(super) fn take(&mut self, reading: &Reading) -> Option<Nanos> {
        let seen = Self::new(reading);
        self.boot = self.boot.with(seen.boot).unwrap_or(seen.boot);
        let leap = core::mem::replace(&mut self.tai_seconds, seen.tai_seconds) != seen.tai_seconds;
        if let Some(real) = self.real.with(seen.real) {
            self.real = real;
            return leap.then_some(Nanos::ZERO);
        }
        let before = core::mem::replace(&mut self.real, seen.real);
        Some(Nanos(seen.real.value().saturating_sub(before.value())))
    }

    pub(super) fn offsets(&self) -> Offsets {
        let real = self.real.value();
        let tai = real.saturating_add(self.tai_seconds.saturating_mul(SECOND));
        Offsets { real: Nanos(real), boot: Nanos(self.boot.value()), tai: Nanos(tai) }
    }

    /// Largest error of the offsets, ns.
    pub(super) fn doubt(&self) -> u64 {
        self.real.doubt().max(self.boot.doubt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(boot: i64, boot_half_width: u64, real: i64, offsets_half_width: u64) -> Reading {
        let offsets =
            Offsets { real: Nanos(real), boot: Nanos(boot), tai: Nanos(real + 37 * SECOND + 9) };
        Reading { offsets, offsets_half_width, boot_half_width, ..Reading::default() }
    }

    #[test]
    fn what_is_seen_more_closely_never_moves_a_clock_back() {
        let mut constants = Constants::new(&reading(5_000, 40, 9_000, 30));
        assert_eq!(
            constants.offsets(),
            Offsets { real: Nanos(8_970), boot: Nanos(4_960), tai: Nanos(8_970 + 37 * SECOND) }
        );
        assert_eq!(constants.doubt(), 80);
        assert_eq!(constants.take(&reading(5_010, 40, 9_000, 0)), None);
        assert_eq!(constants.offsets().boot, Nanos(4_970));
        assert_eq!(constants.offsets().real, Nanos(9_000));
        assert_eq!(constants.take(&reading(4_990, 40, 9_000, 30)), None);
        assert_eq!(constants.offsets().boot, Nanos(4_970));
        assert_eq!(constants.doubt(), 60);
    }

    #[test]
    fn what_can_be_zero_is_zero() {
        let constants = Constants::new(&reading(12, 20, 9_000, 0));
        assert_eq!((constants.offsets().boot, constants.doubt()), (Nanos(0), 0));
    }

    #[test]
    fn a_step_is_exact_and_sleep_is_no_step() {
        let mut constants = Constants::new(&reading(0, 20, 9_000, 0));
        assert_eq!(constants.asleep(&reading(500, 20, 9_000, 0)), None);
        assert_eq!(constants.asleep(&reading(5_000_000, 20, 9_000, 0)), Some(Nanos(4_999_980)));
        assert_eq!(constants.take(&reading(0, 20, 9_001, 0)), Some(Nanos(1)));
        assert_eq!(constants.take(&reading(0, 20, 9_010, 10)), None);
        let mut later = reading(0, 20, 9_001, 0);
        later.offsets.tai.0 += SECOND;
        assert_eq!(constants.take(&later), Some(Nanos::ZERO));
    }
}
