//! Time as a straight line over the counter.

use crate::units::{Nanos, Ticks};

/// The length of one tick, in nanoseconds with 64 fraction bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TickLength {
    /// Whole nanoseconds: 0 for counters faster than 1 GHz.
    pub whole: u64,
    /// The fraction of a nanosecond, in units of 2^-64 ns.
    pub fraction: u64,
}

impl TickLength {
    /// The length of a tick when `ticks` ticks take `elapsed`; `None` where either is not positive
    /// or a tick is longer than the 292 years that 64 bits hold.
    pub fn from_elapsed(ticks: Ticks, elapsed: Nanos) -> Option<Self> {
        let nanos = u64::try_from(elapsed.0).ok().filter(|nanos| *nanos != 0)?;
        if ticks.0 == 0 {
            return None;
        }
        let wide = u128::from(nanos) << 64;
        Some(Self::from_wide(wide / u128::from(ticks.0)))
    }

    /// From nanoseconds with 64 fraction bits.
    #[allow(clippy::cast_possible_truncation, reason = "the two halves")]
    pub const fn from_wide(wide: u128) -> Self {
        Self { whole: (wide >> 64) as u64, fraction: wide as u64 }
    }

    /// As nanoseconds with 64 fraction bits.
    pub const fn as_wide(self) -> u128 {
        (self.whole as u128) << 64 | self.fraction as u128
    }

    /// The length of this many ticks in nanoseconds, rounded down; wraps beyond 584 years.
    #[inline(always)]
    pub const fn nanos(self, ticks: u64) -> u64 {
        let fraction = (ticks as u128 * self.fraction as u128) >> 64;
        ticks.wrapping_mul(self.whole).wrapping_add(fraction as u64)
    }

    /// About how many ticks fit into this many nanoseconds; saturates, and is 0 for a length of 0.
    pub fn ticks(self, nanos: u64) -> Ticks {
        let wide = (u128::from(nanos) << 64).checked_div(self.as_wide()).unwrap_or(0);
        Ticks(u64::try_from(wide).unwrap_or(u64::MAX))
    }
}

/// `CLOCK_MONOTONIC` as a straight line over the counter, from a base on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Tick at which the line begins.
    pub base: Ticks,
    /// `CLOCK_MONOTONIC` at the base, in nanoseconds since boot.
    pub mono: Nanos,
    /// Length of a tick.
    pub tick: TickLength,
}

impl Line {
    /// The time at this tick; `None` before the base. Saturates after 292 years.
    #[inline]
    pub fn at(&self, ticks: Ticks) -> Option<Nanos> {
        let elapsed = ticks.0.checked_sub(self.base.0)?;
        let nanos = i64::try_from(self.tick.nanos(elapsed)).unwrap_or(i64::MAX);
        Some(Nanos(self.mono.0.saturating_add(nanos)))
    }
}

/// Largest error of a reading, growing with the distance from the line's base.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bound {
    /// At the base, in nanoseconds.
    pub at_base: u64,
    /// Growth per tick, in units of 2^-64 ns.
    pub growth: u64,
}

impl Bound {
    /// The bound this many ticks after the base, in nanoseconds, rounded up.
    #[inline(always)]
    pub const fn after(self, ticks: u64) -> u64 {
        let grown = (ticks as u128 * self.growth as u128) >> 64;
        self.at_base.saturating_add(grown as u64).saturating_add(1)
    }
}

/// The other clocks minus `CLOCK_MONOTONIC`, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offsets {
    /// `CLOCK_REALTIME` minus `CLOCK_MONOTONIC`.
    pub real: Nanos,
    /// `CLOCK_BOOTTIME` minus `CLOCK_MONOTONIC`.
    pub boot: Nanos,
    /// `CLOCK_TAI` minus `CLOCK_MONOTONIC`.
    pub tai: Nanos,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn length(ticks: u64, nanos: i64) -> TickLength {
        TickLength::from_elapsed(Ticks(ticks), Nanos(nanos)).unwrap()
    }

    #[test]
    fn nothing_that_stood_still_has_a_length() {
        assert_eq!(TickLength::from_elapsed(Ticks(0), Nanos(5)), None);
        assert_eq!(TickLength::from_elapsed(Ticks(5), Nanos(0)), None);
        assert_eq!(TickLength::from_elapsed(Ticks(5), Nanos(-1)), None);
        assert_eq!(TickLength::default().ticks(5), Ticks(0));
    }

    #[test]
    fn a_slow_counter_has_whole_nanoseconds() {
        let generic_timer = length(54_000_000, 1_000_000_000);
        assert_eq!(generic_timer.whole, 18);
        assert_eq!(generic_timer.nanos(54_000_000_000), 999_999_999_999);
        assert_eq!(length(1, 7), TickLength { whole: 7, fraction: 0 });
    }

    #[test]
    fn there_is_no_time_before_the_base() {
        let line = Line { base: Ticks(100), mono: Nanos(7), tick: length(2, 1) };
        assert_eq!(line.at(Ticks(99)), None);
        assert_eq!(line.at(Ticks(100)), Some(Nanos(7)));
        assert_eq!(line.at(Ticks(104)), Some(Nanos(9)));
    }

    proptest! {
        #[test]
        fn time_never_goes_back_along_a_line(hz in 1_000_000_i64..6_000_000_000, a in 0_u64..1 << 50, more in 0_u64..1 << 40) {
            let tick = length(hz.unsigned_abs(), 1_000_000_000);
            let line = Line { base: Ticks(0), mono: Nanos(5), tick };
            prop_assert!(line.at(Ticks(a)) <= line.at(Ticks(a + more)));
        }

        #[test]
        fn a_line_is_exact_to_a_nanosecond_a_day(hz in 1_000_000_u64..6_000_000_000, seconds in 0_u64..86_400) {
            let tick = length(hz, 1_000_000_000);
            let nanos = tick.nanos(hz * seconds);
            prop_assert!(nanos.abs_diff(seconds * 1_000_000_000) <= 1, "{nanos}");
        }

        #[test]
        fn ticks_and_nanos_are_inverse(hz in 1_000_000_u64..6_000_000_000, nanos in 0_u64..1 << 50) {
            let tick = length(hz, 1_000_000_000);
            let back = tick.nanos(tick.ticks(nanos).0);
            prop_assert!(nanos.abs_diff(back) <= tick.whole + 2, "{nanos} {back}");
        }

        #[test]
        fn a_bound_never_shrinks(at_base in 0_u64..1 << 40, growth: u64, a in 0_u64..1 << 60, more in 0_u64..1 << 60) {
            let bound = Bound { at_base, growth };
            prop_assert!(bound.after(a) <= bound.after(a + more));
            prop_assert!(bound.after(a) > at_base);
        }
    }
}
