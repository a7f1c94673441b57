//! Units as types, so that ticks are never taken for nanoseconds.

use core::num::TryFromIntError;
use core::time::Duration;

/// A span or reading in nanoseconds; the field or function that uses it states the origin.
///
/// # Examples
///
/// ```
/// use core::time::Duration;
/// use fastclock::Nanos;
///
/// assert_eq!(Nanos::try_from(Duration::from_micros(5)), Ok(Nanos(5_000)));
/// assert_eq!(Duration::try_from(Nanos(5_000)), Ok(Duration::from_micros(5)));
/// assert!(Duration::try_from(Nanos(-1)).is_err());
/// assert_eq!(Nanos(-1).as_duration(), Duration::ZERO);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub i64);

/// A cost per call in picoseconds: 1,000 picoseconds are a nanosecond.
///
/// A clock read costs about 20 ns and differences between two ways of reading it are fractions of
/// one, so costs are kept three digits finer than readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Picos(pub u64);

/// A raw counter value or a difference of two; not convertible without a [`Scale`](crate::Scale).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticks(pub u64);

impl Nanos {
    /// Zero nanoseconds.
    pub const ZERO: Self = Self(0);

    /// Whole seconds and the nanoseconds within the second, as in `struct timespec`.
    ///
    /// Saturates at the ends of the range (292 years from the origin).
    #[must_use]
    #[inline]
    pub const fn from_timespec(seconds: i64, nanos: i64) -> Self {
        Self(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
    }

    /// This span as a [`Duration`], which has no sign; zero if the span is below zero.
    /// `Duration::try_from` fails instead.
    #[must_use]
    pub const fn as_duration(self) -> Duration {
        if self.0 < 0 { Duration::ZERO } else { Duration::from_nanos(self.0.unsigned_abs()) }
    }
}

impl TryFrom<Nanos> for Duration {
    type Error = TryFromIntError;

    /// Fails below zero.
    fn try_from(span: Nanos) -> Result<Self, TryFromIntError> {
        u64::try_from(span.0).map(Self::from_nanos)
    }
}

impl TryFrom<Duration> for Nanos {
    type Error = TryFromIntError;

    /// Fails above 292 years.
    fn try_from(span: Duration) -> Result<Self, TryFromIntError> {
        i64::try_from(span.as_nanos()).map(Self)
    }
}

impl Picos {
    /// The average cost of one call when `calls` took `total`; zero calls cost zero.
    #[must_use]
    pub fn per_call(total: Nanos, calls: u64) -> Self {
        if calls == 0 {
            return Self(0);
        }
        let picos = u128::from(total.0.max(0).unsigned_abs()) * 1_000 / u128::from(calls);
        Self(u64::try_from(picos).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timespec_is_whole_seconds_plus_nanos() {
        assert_eq!(Nanos::from_timespec(2, 5).0, 2_000_000_005);
        assert_eq!(Nanos::from_timespec(i64::MAX, 5).0, i64::MAX);
    }

    #[test]
    fn cost_per_call_keeps_fractions_of_a_nanosecond() {
        assert_eq!(Picos::per_call(Nanos(100), 3), Picos(33_333));
        assert_eq!(Picos::per_call(Nanos(100), 0), Picos(0));
        assert_eq!(Picos::per_call(Nanos(-1), 3), Picos(0));
        assert_eq!(Picos::per_call(Nanos(i64::MAX), 1), Picos(u64::MAX));
    }
}
