//! Ticks to nanoseconds: one multiplication and one shift, with 32 fraction bits or more.

use core::fmt;
use core::num::NonZeroU64;

use crate::units::{Nanos, Ticks};

/// A counter's rate in ticks per second (Hz).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TickRate(NonZeroU64);

/// Reason why two readings give no tick rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RateError {
    /// The counter did not advance, or went back, between the readings.
    CounterStoodStill,
    /// The reference clock did not advance, or went back, between the readings.
    ClockStoodStill,
    /// The rate is below 1 Hz or does not fit in 64 bits.
    OutOfRange,
}

impl fmt::Display for RateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CounterStoodStill => "the counter did not advance between the readings",
            Self::ClockStoodStill => "the clock did not advance between the readings",
            Self::OutOfRange => "the rate is out of range",
        })
    }
}

impl core::error::Error for RateError {}

impl TickRate {
    /// A rate given in Hz; `None` for zero.
    #[must_use]
    pub const fn from_hz(hz: u64) -> Option<Self> {
        match NonZeroU64::new(hz) {
            Some(hz) => Some(Self(hz)),
            None => None,
        }
    }

    /// The rate at which a counter advanced by `ticks` while a clock advanced by `elapsed`.
    ///
    /// # Errors
    ///
    /// The counter or the clock stood still, or the quotient does not fit; see [`RateError`].
    pub fn from_elapsed(ticks: Ticks, elapsed: Nanos) -> Result<Self, RateError> {
        if ticks.0 == 0 {
            return Err(RateError::CounterStoodStill);
        }
        let nanos = u64::try_from(elapsed.0).map_err(|_| RateError::ClockStoodStill)?;
        if nanos == 0 {
            return Err(RateError::ClockStoodStill);
        }
        let hz = u128::from(ticks.0) * 1_000_000_000 / u128::from(nanos);
        u64::try_from(hz).ok().and_then(Self::from_hz).ok_or(RateError::OutOfRange)
    }

    /// Ticks per second.
    #[must_use]
    pub const fn hz(self) -> u64 {
        self.0.get()
    }
}

/// Converts ticks to nanoseconds by `ticks * mult >> shift` in 128 bits.
///
/// Exact to one part in 2^32 or better; never decreases when the ticks do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    mult: u64,
    shift: u32,
}

impl Scale {
    /// The scale of a counter with this rate.
    ///
    /// `mult` keeps at least 32 significant bits for every rate up to 4 × 10^18 Hz, so the error
    /// by construction is below 0.0003 parts per million.
    #[must_use]
    pub fn from_rate(rate: TickRate) -> Self {
        let hz = u128::from(rate.hz());
        let mut shift = 64;
        loop {
            let mult = (1_000_000_000_u128 << shift).div_ceil(hz);
            match u64::try_from(mult) {
                Ok(mult) => return Self { mult, shift },
                Err(_) => shift -= 1,
            }
        }
    }

    /// This many ticks in nanoseconds, rounded down (the multiplier is rounded up, so that whole
    /// nanoseconds stay whole); saturates after 292 years.
    #[must_use]
    pub fn to_nanos(self, ticks: Ticks) -> Nanos {
        let nanos = (u128::from(ticks.0) * u128::from(self.mult)) >> self.shift;
        Nanos(i64::try_from(nanos).unwrap_or(i64::MAX))
    }

    /// This many ticks in picoseconds, rounded down; saturates.
    #[must_use]
    pub fn to_picos(self, ticks: Ticks) -> crate::units::Picos {
        let wide = u128::from(ticks.0) * u128::from(self.mult);
        let whole = wide >> self.shift;
        let fraction = wide & ((1_u128 << self.shift) - 1);
        let picos = whole
            .saturating_mul(1_000)
            .saturating_add(((fraction >> 10) * 1_000) >> (self.shift - 10));
        crate::units::Picos(u64::try_from(picos).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_gigahertz_counter_ticks_in_nanoseconds() {
        let scale = Scale::from_rate(TickRate::from_hz(1_000_000_000).unwrap());
        for ticks in [0, 1, 2, 1_000_003, u64::from(u32::MAX), 1 << 62] {
            let nanos = scale.to_nanos(Ticks(ticks)).0;
            let off = nanos.abs_diff(i64::try_from(ticks).unwrap());
            assert!(off <= 1 + (ticks >> 60), "{ticks} ticks are {nanos} ns");
        }
    }

    #[test]
    fn rate_errors_say_what_stood_still() {
        assert_eq!(TickRate::from_elapsed(Ticks(0), Nanos(5)), Err(RateError::CounterStoodStill));
        assert_eq!(TickRate::from_elapsed(Ticks(5), Nanos(0)), Err(RateError::ClockStoodStill));
        assert_eq!(TickRate::from_elapsed(Ticks(5), Nanos(-1)), Err(RateError::ClockStoodStill));
        assert_eq!(TickRate::from_elapsed(Ticks(1), Nanos(i64::MAX)), Err(RateError::OutOfRange));
    }

    proptest! {
        #[test]
        fn conversion_never_goes_backwards(hz in 1_u64..10_000_000_000, a: u64, b: u64) {
            let scale = Scale::from_rate(TickRate::from_hz(hz).unwrap());
            let (low, high) = (a.min(b), a.max(b));
            prop_assert!(scale.to_nanos(Ticks(low)) <= scale.to_nanos(Ticks(high)));
            prop_assert!(scale.to_picos(Ticks(low)) <= scale.to_picos(Ticks(high)));
        }

        #[test]
        fn conversion_is_exact_to_a_part_in_four_billion(hz in 1_000_u64..10_000_000_000, ticks in 0_u64..1 << 40) {
            let scale = Scale::from_rate(TickRate::from_hz(hz).unwrap());
            let exact = u128::from(ticks) * 1_000_000_000 / u128::from(hz);
            let exact = i64::try_from(exact.min(i64::MAX as u128)).unwrap();
            let got = scale.to_nanos(Ticks(ticks)).0;
            prop_assert!(exact.abs_diff(got) <= 1 + (exact.unsigned_abs() >> 32), "{got} for {exact}");
        }

        #[test]
        fn picos_and_nanos_agree(hz in 1_000_000_u64..10_000_000_000, ticks in 0_u64..1 << 40) {
            let scale = Scale::from_rate(TickRate::from_hz(hz).unwrap());
            let nanos = u64::try_from(scale.to_nanos(Ticks(ticks)).0).unwrap();
            let picos = scale.to_picos(Ticks(ticks)).0;
            prop_assert_eq!(picos / 1_000, nanos);
        }
    }
}
