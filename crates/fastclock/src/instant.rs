//! The standard library's `Instant`, read from a [`Clock`].

use core::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::Duration;

use crate::clock::Clock;
use crate::points::Monotonic;
use crate::units::Nanos;

/// [`std::time::Instant`] with the same functions and operators, read from [`Clock::global`].
///
/// Replace `use std::time::Instant;` by `use fastclock::Instant;`; no other change is needed.
/// Differences saturate at zero, and sums panic where the standard library's do.
///
/// Three things are different. The type has 8 bytes instead of 16, so it ends 292 years after the
/// clock's origin, where the standard library's goes on: later sums panic, and the checked
/// functions return `None`. It has the origin of [`Monotonic`], and converts from and to it. The
/// first reading in a process makes the global clock, which allocates memory, so it must not be in
/// a signal handler.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use fastclock::Instant;
///
/// let start = Instant::now();
/// let deadline = start + Duration::from_secs(5);
/// // … work …
/// let took: Duration = start.elapsed();
/// assert!(Instant::now() - start >= took);
/// assert_eq!(deadline - start, Duration::from_secs(5));
/// assert_eq!(start - deadline, Duration::ZERO);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(Monotonic);

impl Instant {
    /// The present, by [`Clock::now`]: ordered, so that it never goes back, even between threads.
    #[must_use]
    #[inline]
    pub fn now() -> Self {
        Self(Clock::global().now())
    }

    /// The present, by [`Clock::now_fast`], in half the time: for durations within a thread.
    #[must_use]
    #[inline]
    pub fn now_fast() -> Self {
        Self(Clock::global().now_fast())
    }

    /// The time since `earlier`; zero if `earlier` is later than this.
    #[must_use]
    #[inline]
    pub const fn duration_since(&self, earlier: Self) -> Duration {
        match self.checked_duration_since(earlier) {
            Some(duration) => duration,
            None => Duration::ZERO,
        }
    }

    /// The time since `earlier`; `None` if `earlier` is later than this.
    #[must_use]
    #[inline]
    pub const fn checked_duration_since(&self, earlier: Self) -> Option<Duration> {
        let (earlier, later) = (earlier.0.as_nanos(), self.0.as_nanos());
        if earlier > later { None } else { Some(Duration::from_nanos(later.abs_diff(earlier))) }
    }

    /// The time since `earlier`; zero if `earlier` is later than this.
    #[must_use]
    #[inline]
    pub const fn saturating_duration_since(&self, earlier: Self) -> Duration {
        self.duration_since(earlier)
    }

    /// The time since this instant; zero if it lies in the future.
    #[must_use]
    #[inline]
    pub fn elapsed(&self) -> Duration {
        Self::now().duration_since(*self)
    }

    /// The instant `duration` later; `None` if it is more than 292 years after the clock's origin.
    #[must_use]
    #[inline]
    pub fn checked_add(&self, duration: Duration) -> Option<Self> {
        let nanos = u64::try_from(duration.as_nanos()).ok()?;
        Some(Self(Monotonic(Nanos(self.0.as_nanos().checked_add_unsigned(nanos)?))))
    }

    /// The instant `duration` earlier; `None` if it is more than 292 years before the clock's
    /// origin.
    #[must_use]
    #[inline]
    pub fn checked_sub(&self, duration: Duration) -> Option<Self> {
        let nanos = u64::try_from(duration.as_nanos()).ok()?;
        Some(Self(Monotonic(Nanos(self.0.as_nanos().checked_sub_unsigned(nanos)?))))
    }
}

impl From<Monotonic> for Instant {
    /// A reading of any clock, such as [`Clock::recent`] or [`Clock::coarse`].
    fn from(point: Monotonic) -> Self {
        Self(point)
    }
}

impl From<Instant> for Monotonic {
    fn from(instant: Instant) -> Self {
        instant.0
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    /// # Panics
    ///
    /// Where [`checked_add`](Self::checked_add) is `None`.
    fn add(self, duration: Duration) -> Self {
        self.checked_add(duration).expect("overflow when adding duration to instant")
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    /// # Panics
    ///
    /// Where [`checked_sub`](Self::checked_sub) is `None`.
    fn sub(self, duration: Duration) -> Self {
        self.checked_sub(duration).expect("overflow when subtracting duration from instant")
    }
}

impl SubAssign<Duration> for Instant {
    fn sub_assign(&mut self, duration: Duration) {
        *self = *self - duration;
    }
}

impl Sub for Instant {
    type Output = Duration;

    /// As [`duration_since`](Self::duration_since).
    fn sub(self, earlier: Self) -> Duration {
        self.duration_since(earlier)
    }
}
