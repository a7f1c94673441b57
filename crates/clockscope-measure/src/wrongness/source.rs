//! What is read: a clock by a route, or a counter. Behind a trait, so that a test can put a clock
//! with a known fault in its place.

use std::fmt;

use clockscope_sys::clock_reads::Timespec;

/// What a reading counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Nanos,
    /// Ticks of a counter.
    Ticks,
}

impl Unit {
    /// `ns` or `ticks`, as in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nanos => "ns",
            Self::Ticks => "ticks",
        }
    }
}

/// A reading that is not in normal form: nanoseconds below zero or not below a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotNormal(pub Timespec);

impl fmt::Display for NotNormal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tv_sec {}, tv_nsec {}", self.0.0, self.0.1)
    }
}

/// Something that can be read again and again.
pub trait Readable: Send + Sync {
    /// A reading, in the unit of the subject.
    fn read(&self) -> i64;

    /// A reading, if it came in normal form.
    ///
    /// # Errors
    ///
    /// With the reading as it came if it did not.
    fn read_checked(&self) -> Result<i64, NotNormal> {
        Ok(self.read())
    }
}

/// A counter, by the function that reads it.
#[derive(Clone, Copy, Debug)]
pub struct CounterBy<F>(pub F);

/// A clock by a route: by a function that gives a reading, or `None` where the clock gives an error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockBy<F>(pub F);

const NANOS: i64 = 1_000_000_000;

/// What a clock gives that was readable once and is no more; no clock stands at it.
const UNREADABLE: Timespec = (0, -1);

fn to_nanos((seconds, nanos): Timespec) -> i64 {
    seconds.saturating_mul(NANOS).saturating_add(nanos)
}

fn to_checked(reading: Timespec) -> Result<i64, NotNormal> {
    let is_normal = (0..NANOS).contains(&reading.1);
    if is_normal { Ok(to_nanos(reading)) } else { Err(NotNormal(reading)) }
}

impl<F: Fn() -> Option<Timespec> + Send + Sync> Readable for ClockBy<F> {
    #[inline]
    fn read(&self) -> i64 {
        to_nanos((self.0)().unwrap_or(UNREADABLE))
    }

    fn read_checked(&self) -> Result<i64, NotNormal> {
        to_checked((self.0)().unwrap_or(UNREADABLE))
    }
}

impl<F: Fn() -> i64 + Send + Sync> Readable for CounterBy<F> {
    #[inline]
    fn read(&self) -> i64 {
        (self.0)()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_must_be_in_normal_form() {
        assert_eq!(to_checked((2, 5)), Ok(2_000_000_005));
        assert_eq!(to_checked((2, NANOS)), Err(NotNormal((2, NANOS))));
        assert_eq!(to_checked((2, -1)).unwrap_err().to_string(), "tv_sec 2, tv_nsec -1");
    }
}
