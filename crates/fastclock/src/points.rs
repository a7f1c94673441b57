//! Points in time, one type for each clock, so that they cannot be mixed up.

use core::fmt;
#[cfg(feature = "std")]
use core::{num::TryFromIntError, time::Duration};
#[cfg(feature = "std")]
use std::time::{SystemTime, UNIX_EPOCH};

use crate::decline::Decline;
use crate::units::Nanos;

macro_rules! points {
    ($($(#[$text:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$text])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub Nanos);

        impl $name {
            /// The nanoseconds since the clock's origin.
            #[must_use]
            pub const fn as_nanos(self) -> i64 {
                self.0.0
            }

            /// The time since `earlier`; `None` if `earlier` is later than this, or if the time
            /// between them is longer than 292 years.
            #[must_use]
            pub const fn checked_since(self, earlier: Self) -> Option<Nanos> {
                match self.0.0.checked_sub(earlier.0.0) {
                    Some(nanos) if nanos >= 0 => Some(Nanos(nanos)),
                    _ => None,
                }
            }

            /// The time since `earlier`; zero if `earlier` is later than this.
            #[must_use]
            pub const fn saturating_since(self, earlier: Self) -> Nanos {
                let nanos = self.0.0.saturating_sub(earlier.0.0);
                Nanos(if nanos < 0 { 0 } else { nanos })
            }

            /// This much later (earlier, if below zero); stops at the ends of the range.
            #[must_use]
            pub const fn saturating_add(self, span: Nanos) -> Self {
                Self(Nanos(self.0.0.saturating_add(span.0)))
            }

            /// This much earlier (later, if below zero); stops at the ends of the range.
            #[must_use]
            pub const fn saturating_sub(self, span: Nanos) -> Self {
                Self(Nanos(self.0.0.saturating_sub(span.0)))
            }
        }

        impl From<$name> for Nanos {
            fn from(point: $name) -> Self {
                point.0
            }
        }

        impl fmt::Display for $name {
            /// In seconds with nine digits after the point.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let nanos = self.0.0.unsigned_abs();
                let sign = if self.0.0 < 0 { "-" } else { "" };
                write!(f, "{sign}{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000)
            }
        }
    )+};
}

points! {
    /// A point of `CLOCK_MONOTONIC`: nanoseconds since the machine was started, without the time
    /// it was suspended. Slews with NTP, never steps.
    ///
    /// # Examples
    ///
    /// ```
    /// use fastclock::{Monotonic, Nanos};
    ///
    /// let (early, late) = (Monotonic(Nanos(1_000)), Monotonic(Nanos(1_250)));
    /// assert_eq!(late.saturating_since(early), Nanos(250));
    /// assert_eq!(early.saturating_since(late), Nanos(0));
    /// assert_eq!(early.checked_since(late), None);
    /// ```
    Monotonic,
    /// A point of `CLOCK_REALTIME`: nanoseconds since 1970-01-01 00:00 UTC, without leap seconds.
    /// Slews, and steps when the clock is set.
    ///
    /// # Examples
    ///
    /// ```
    /// use fastclock::{Nanos, Realtime};
    ///
    /// assert_eq!(Realtime(Nanos(1_500_000_000)).truncated_to_second(), Realtime(Nanos(1_000_000_000)));
    /// assert_eq!(Realtime(Nanos(1_500_000_000)).to_string(), "1.500000000");
    /// ```
    ///
    /// With the feature `std`, it converts into the standard library's time and from it:
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use std::time::SystemTime;
    /// use fastclock::{Clock, Realtime};
    ///
    /// let now = SystemTime::from(Clock::new().realtime());
    /// assert!(Realtime::try_from(now).is_ok());
    /// # }
    /// ```
    Realtime,
    /// A point of `CLOCK_BOOTTIME`: as [`Monotonic`], with the time the machine was suspended.
    Boottime,
    /// A point of `CLOCK_TAI`: as [`Realtime`], with the leap seconds, if the kernel was told them.
    Tai,
}

impl Realtime {
    /// The last full second; for a time before 1970, the second before it.
    #[must_use]
    pub const fn truncated_to_second(self) -> Self {
        let nanos = self.0.0;
        Self(Nanos(nanos.saturating_sub(nanos.rem_euclid(1_000_000_000))))
    }
}

#[cfg(feature = "std")]
impl From<Realtime> for SystemTime {
    /// If the system's times cannot lie before 1970, earlier times become 1970-01-01.
    fn from(point: Realtime) -> Self {
        let distance = Duration::from_nanos(point.as_nanos().unsigned_abs());
        let sum = if point.as_nanos() < 0 {
            UNIX_EPOCH.checked_sub(distance)
        } else {
            UNIX_EPOCH.checked_add(distance)
        };
        sum.unwrap_or(UNIX_EPOCH)
    }
}

#[cfg(feature = "std")]
impl TryFrom<SystemTime> for Realtime {
    type Error = TryFromIntError;

    /// Fails more than 292 years before or after 1970.
    fn try_from(time: SystemTime) -> Result<Self, TryFromIntError> {
        let nanos = match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Nanos::try_from(after)?,
            Err(before) => Nanos(-Nanos::try_from(before.duration())?.0),
        };
        Ok(Self(nanos))
    }
}

/// A reading and its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounded<T> {
    /// The reading.
    pub time: T,
    /// Largest distance of the kernel's clock from the reading, before or after, in nanoseconds.
    /// The kernel clock's distance from true time is not included: ask the NTP daemon or
    /// `adjtimex(2)`.
    pub bound: Nanos,
    /// `None` if the clock answered by itself; otherwise the reason why the kernel answered, with a
    /// bound of zero.
    pub declined: Option<Decline>,
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::string::ToString;

    #[test]
    fn differences_saturate_at_both_ends() {
        let (first, last) = (Monotonic(Nanos(i64::MIN)), Monotonic(Nanos(i64::MAX)));
        assert_eq!(last.saturating_since(first), Nanos(i64::MAX));
        assert_eq!(last.checked_since(first), None);
        assert_eq!(first.saturating_since(last), Nanos(0));
        assert_eq!(last.saturating_add(Nanos(1)), last);
        assert_eq!(first.saturating_sub(Nanos(1)), first);
        assert_eq!(first.saturating_sub(Nanos(-1)).as_nanos(), i64::MIN + 1);
    }

    #[test]
    fn a_second_is_the_one_that_has_begun() {
        let second = |nanos| Realtime(Nanos(nanos)).truncated_to_second().as_nanos();
        assert_eq!(second(1_999_999_999), 1_000_000_000);
        assert_eq!(second(2_000_000_000), 2_000_000_000);
        assert_eq!(second(-1), -1_000_000_000);
        assert_eq!(second(i64::MIN), i64::MIN);
    }

    #[test]
    fn points_are_printed_in_seconds() {
        assert_eq!(Boottime(Nanos(-5)).to_string(), "-0.000000005");
        assert_eq!(Tai(Nanos(12_000_000_034)).to_string(), "12.000000034");
    }
}
