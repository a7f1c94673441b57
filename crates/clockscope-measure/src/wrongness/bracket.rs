//! A reading between two readings of another clock, and a further one that shows whether the machine is busy.

use super::source::Readable;

/// Readings in the order in which they were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bracket {
    /// The first reading of the reference.
    pub before: i64,
    /// The clock under test.
    pub value: i64,
    /// The second reading of the reference.
    pub after: i64,
    /// A third reading of the reference, directly after `after`: the cost of a reading at this moment.
    pub again: i64,
}

impl Bracket {
    /// Takes the four readings.
    #[inline]
    pub fn take(reference: &Readable, clock: &Readable) -> Self {
        let before = reference();
        let value = clock();
        let after = reference();
        let again = reference();
        Self { before, value, after, again }
    }

    /// The tightest of `tries` brackets.
    pub fn tightest(reference: &Readable, clock: &Readable, tries: u32) -> Self {
        let mut best = Self::take(reference, clock);
        for _ in 1..tries {
            let bracket = Self::take(reference, clock);
            if bracket.breadth() < best.breadth() {
                best = bracket;
            }
        }
        best
    }

    /// Width of the bracket, in the reference's unit.
    pub const fn width(&self) -> i64 {
        self.after - self.before
    }

    /// The larger of the width and the time of the reference's last reading. If the reference goes back, the
    /// bracket is invalid and the breadth [`i64::MAX`].
    fn breadth(&self) -> i64 {
        let (width, alone) = (self.width(), self.again - self.after);
        if width < 0 || alone < 0 { i64::MAX } else { width.max(alone) }
    }

    /// Whether the readings are close enough to be useful: neither the bracket nor the reference's last
    /// reading took longer than `limit`.
    ///
    /// # References
    ///
    /// - `cs_watchdog_read` in `kernel/time/clocksource.c` (Linux 6.18)
    pub(crate) fn is_tight(&self, limit: i64) -> bool {
        self.breadth() <= limit
    }

    /// The reference's time at the moment of the value: the middle of the bracket.
    pub const fn middle(&self) -> i64 {
        self.before + self.width() / 2
    }
}

/// Limit for the width of a usual bracket: four times the median of some brackets, at least 200.
pub(crate) fn usual_limit(reference: &Readable, clock: &Readable) -> i64 {
    const BRACKETS: usize = 101;
    const LIMIT_MIN: i64 = 200;
    let mut widths: Vec<i64> =
        (0..BRACKETS).map(|_| Bracket::take(reference, clock).width()).collect();
    widths.sort_unstable();
    widths[BRACKETS / 2].saturating_mul(4).max(LIMIT_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIGHT: Bracket = Bracket { before: 100, value: 7, after: 140, again: 160 };

    #[test]
    fn a_bracket_is_not_tight_if_the_machine_is_busy() {
        assert!(TIGHT.is_tight(40) && !TIGHT.is_tight(39));
        assert!(!Bracket { again: 900, ..TIGHT }.is_tight(50), "the reference alone is slow");
        assert!(!Bracket { after: 90, ..TIGHT }.is_tight(50), "the reference goes back");
        assert_eq!(TIGHT.middle(), 120);
    }
}
