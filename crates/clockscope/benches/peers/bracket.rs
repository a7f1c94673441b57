//! Readings of a clock between two of `CLOCK_MONOTONIC`.

use clockscope_sys::tsc;
use fastclock::ClockId;

/// A reading, and the kernel's just before and just after it; nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bracketed {
    pub(crate) before: i64,
    pub(crate) value: i64,
    pub(crate) after: i64,
}

impl Bracketed {
    /// Reads once.
    pub(crate) fn read(clock: impl Fn() -> i64) -> Self {
        let before = monotonic();
        let value = clock();
        Self { before, value, after: monotonic() }
    }

    /// The tightest of several.
    pub(crate) fn best_of(tries: usize, clock: impl Fn() -> i64) -> Self {
        let first = Self::read(&clock);
        let others = (1..tries).map(|_| Self::read(&clock));
        others.fold(first, |best, one| if one.width() < best.width() { one } else { best })
    }

    pub(crate) fn width(&self) -> i64 {
        self.after - self.before
    }

    /// The kernel's time in the middle.
    pub(crate) fn middle(&self) -> i64 {
        self.before + self.width() / 2
    }

    /// How far the clock is ahead of the middle.
    pub(crate) fn ahead(&self) -> i64 {
        self.value - self.middle()
    }
}

/// `CLOCK_MONOTONIC`, ns.
pub(crate) fn monotonic() -> i64 {
    tsc::now(ClockId::Monotonic).0
}
