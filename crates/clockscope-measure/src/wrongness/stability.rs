//! Phases of one clock against another at even spacing, for the Allan family.

use std::time::Duration;

use super::bracket::{Bracket, usual_limit};
use super::source::Readable;

/// Brackets tried for one phase.
const TRIES: u32 = 8;

/// Phases in seconds at even spacing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Phases {
    /// Clock minus reference, in seconds, from zero.
    pub phases_s: Vec<f64>,
    /// From one phase to the next, in seconds.
    pub spacing_s: f64,
    /// Of them, those that were missed and are interpolated.
    pub missed: u64,
}

/// Takes a phase of `clock` against `reference` each `spacing`; the clock passes `ratio` of its units
/// in a nanosecond of the reference.
pub fn measure(
    reference: &dyn Readable,
    clock: &dyn Readable,
    ratio: f64,
    spacing: Duration,
    time: Duration,
) -> Phases {
    let step = i64::try_from(spacing.as_nanos()).expect("a spacing below 292 years").max(1);
    let wanted = time.as_nanos() / spacing.as_nanos().max(1);
    let limit = usual_limit(reference, clock);
    let origin = Bracket::tightest(reference, clock, TRIES);
    let mut points = Vec::new();
    for turn in (1_i64..).take_while(|turn| u128::from(turn.unsigned_abs()) <= wanted) {
        let due = origin.middle() + turn * step;
        while reference.read() < due {
            std::hint::spin_loop();
        }
        let bracket = Bracket::tightest(reference, clock, TRIES);
        if !bracket.is_tight(limit) || bracket.before - due > step / 2 {
            continue;
        }
        let passed = (bracket.value - origin.value) as f64 / ratio;
        points.push((turn, (passed - (bracket.middle() - origin.middle()) as f64) / 1e9));
    }
    let (phases_s, missed) = evenly(&points);
    Phases { phases_s, spacing_s: spacing.as_secs_f64(), missed }
}

/// Fills gaps between numbered points on straight lines; gives also how many were filled.
fn evenly(points: &[(i64, f64)]) -> (Vec<f64>, u64) {
    let mut phases: Vec<f64> = points.first().map(|point| point.1).into_iter().collect();
    let mut missed = 0;
    for pair in points.windows(2) {
        let ((from, first), (to, second)) = (pair[0], pair[1]);
        let width = to - from;
        missed += (width - 1).unsigned_abs();
        phases
            .extend((1..=width).map(|turn| first + (second - first) * turn as f64 / width as f64));
    }
    (phases, missed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_phases_are_interpolated_and_counted() {
        let (phases, missed) = evenly(&[(3, 1.0), (4, 2.0), (8, 4.0)]);
        assert_eq!((phases, missed), (vec![1.0, 2.0, 2.5, 3.0, 3.5, 4.0], 3));
        assert_eq!(evenly(&[]), (vec![], 0));
    }
}
