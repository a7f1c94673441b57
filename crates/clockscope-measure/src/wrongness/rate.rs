//! Rate and offset of one clock against another, from two brackets far apart.

use super::bracket::Bracket;
use super::source::Readable;

/// Number of brackets; the tightest is kept.
const TRIES: u32 = 200;
/// Readings of both clocks at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// The reference, in nanoseconds.
    pub reference: i64,
    /// The clock, in its own unit.
    pub clock: i64,
    /// Width of the bracket, in nanoseconds.
    pub width: i64,
}

/// A rate between two anchors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Units of the clock that passed for each nanosecond of the reference.
    pub ratio: f64,
    /// `ratio - 1` in parts per million, for clocks of the same unit.
    pub ppm: f64,
    /// Bound on the error of `ppm`: half of both brackets and two steps of the clocks, divided by the time
    /// between them.
    pub bound_ppm: f64,
    /// Time between the anchors, in nanoseconds.
    pub baseline_ns: i64,
}

/// Reads both clocks at one moment.
pub fn anchor(reference: &Readable, clock: &Readable) -> Anchor {
    let best = Bracket::tightest(reference, clock, TRIES);
    Anchor { reference: best.middle(), clock: best.value, width: best.width() }
}

/// The rate from one anchor to a later one, for clocks with steps of `granularity_ns`; `None` if the
/// reference did not advance.
pub fn between(first: Anchor, second: Anchor, granularity_ns: u64) -> Option<Rate> {
    let baseline_ns = second.reference.checked_sub(first.reference).filter(|ns| *ns > 0)?;
    let passed = second.clock.checked_sub(first.clock)?;
    let baseline = baseline_ns as f64;
    let error = (first.width + second.width) as f64 / 2.0 + 2.0 * granularity_ns as f64;
    Some(Rate {
        ratio: passed as f64 / baseline,
        ppm: (passed - baseline_ns) as f64 / baseline * 1e6,
        bound_ppm: error / baseline * 1e6,
        baseline_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_exact_for_long_readings() {
        let start = Anchor { reference: 1 << 60, clock: 1 << 61, width: 40 };
        let end = Anchor {
            reference: (1 << 60) + 10_000_000_000,
            clock: (1 << 61) + 10_000_500_000,
            width: 60,
        };
        let rate = between(start, end, 1).unwrap();
        assert!((rate.ppm - 50.0).abs() < 1e-9, "{rate:?}");
        assert!((rate.bound_ppm - 0.0052).abs() < 1e-9, "{rate:?}");
        assert_eq!(rate.baseline_ns, 10_000_000_000);
    }

    #[test]
    fn a_reference_that_stands_still_gives_no_rate() {
        let anchor = Anchor { reference: 5, clock: 5, width: 1 };
        assert_eq!(between(anchor, anchor, 1), None);
    }
}
