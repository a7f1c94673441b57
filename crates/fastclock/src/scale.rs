//! Ticks to nanoseconds: one multiplication and one shift, with 32 fraction bits or more.

use crate::units::{Nanos, Picos, Ticks};

/// Converts ticks to nanoseconds by `ticks * mult >> shift` in 128 bits.
///
/// Exact to one part in 2^32 or better; never decreases when the ticks do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    mult: u64,
    shift: u32,
}

impl Scale {
    /// The scale of a counter that advanced by `ticks` in `elapsed`; `None` if it or the clock stood
    /// still.
    pub fn from_elapsed(ticks: Ticks, elapsed: Nanos) -> Option<Self> {
        let nanos = u128::try_from(elapsed.0).ok()?;
        let hz = (u128::from(ticks.0) * 1_000_000_000).checked_div(nanos)?;
        u64::try_from(hz).ok().and_then(Self::from_hz)
    }

    /// The scale of a counter with this rate, if it is not zero.
    ///
    /// `mult` keeps at least 32 significant bits for every rate up to 4 × 10^18 Hz, so the error
    /// by construction is below 0.0003 parts per million.
    pub fn from_hz(hz: u64) -> Option<Self> {
        let scale = |shift: u32| {
            let mult = (1_000_000_000_u128 << shift).div_ceil(hz.into());
            u64::try_from(mult).ok().map(|mult| Self { mult, shift })
        };
        (hz > 0).then(|| (0..=64).rev().find_map(scale))?
    }

    /// This many ticks in nanoseconds, rounded down (the multiplier is rounded up, so that whole
    /// nanoseconds stay whole); saturates after 292 years.
    pub fn to_nanos(self, ticks: Ticks) -> Nanos {
        let nanos = (u128::from(ticks.0) * u128::from(self.mult)) >> self.shift;
        Nanos(i64::try_from(nanos).unwrap_or(i64::MAX))
    }

    /// This many ticks in picoseconds, rounded down; saturates.
    pub fn to_picos(self, ticks: Ticks) -> Picos {
        let wide = u128::from(ticks.0) * u128::from(self.mult);
        let whole = wide >> self.shift;
        let fraction = wide & ((1_u128 << self.shift) - 1);
        let picos = whole
            .saturating_mul(1_000)
            .saturating_add(((fraction >> 10) * 1_000) >> (self.shift - 10));
        Picos(u64::try_from(picos).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_gigahertz_counter_ticks_in_nanoseconds() {
        let scale = Scale::from_hz(1_000_000_000).unwrap();
        for ticks in [0, 1, 2, 1_000_003, u64::from(u32::MAX), 1 << 62] {
            let nanos = scale.to_nanos(Ticks(ticks)).0;
            let off = nanos.abs_diff(i64::try_from(ticks).unwrap());
            assert!(off <= 1 + (ticks >> 60), "{ticks} ticks are {nanos} ns");
        }
    }

    #[test]
    fn there_is_no_scale_where_something_stood_still() {
        for (ticks, nanos) in [(0, 5), (5, 0), (5, -1), (1, i64::MAX)] {
            assert_eq!(Scale::from_elapsed(Ticks(ticks), Nanos(nanos)), None, "{ticks} {nanos}");
        }
        assert_eq!(Scale::from_elapsed(Ticks(10), Nanos(5)), Scale::from_hz(2_000_000_000));
    }

    proptest! {
        #[test]
        fn conversion_never_goes_backwards(hz in 1_u64..10_000_000_000, a: u64, b: u64) {
            let scale = Scale::from_hz(hz).unwrap();
            let (low, high) = (a.min(b), a.max(b));
            prop_assert!(scale.to_nanos(Ticks(low)) <= scale.to_nanos(Ticks(high)));
            prop_assert!(scale.to_picos(Ticks(low)) <= scale.to_picos(Ticks(high)));
        }

        #[test]
        fn conversion_is_exact_to_a_part_in_four_billion(hz in 1_000_u64..10_000_000_000, ticks in 0_u64..1 << 40) {
            let scale = Scale::from_hz(hz).unwrap();
            let exact = u128::from(ticks) * 1_000_000_000 / u128::from(hz);
            let exact = i64::try_from(exact.min(i64::MAX as u128)).unwrap();
            let got = scale.to_nanos(Ticks(ticks)).0;
            prop_assert!(exact.abs_diff(got) <= 1 + (exact.unsigned_abs() >> 32), "{got} for {exact}");
        }

        #[test]
        fn picos_and_nanos_agree(hz in 1_000_000_u64..10_000_000_000, ticks in 0_u64..1 << 40) {
            let scale = Scale::from_hz(hz).unwrap();
            let nanos = u64::try_from(scale.to_nanos(Ticks(ticks)).0).unwrap();
            let picos = scale.to_picos(Ticks(ticks)).0;
            prop_assert_eq!(picos / 1_000, nanos);
        }
    }
}
