//! What something adds: batches with it and without it, made in turn, and compared pair by pair.
//!
//! What disturbs both batches of a pair alike is gone from their difference.

use super::gate::{Batch, BestControl};
use super::gated::{CONFIDENCE, Grade, QUIET_SHARE, USABLE_MIN, USABLE_SHARE};
use super::median::{self, MedianInterval};

/// A median in nanoseconds a call, and what it is worth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judged {
    /// The median and its interval.
    pub ns: MedianInterval,
    /// How much they are worth.
    pub grade: Grade,
}

/// What a call costs more in `with` than in `without`, pair by pair, in nanoseconds a call.
///
/// A pair counts if all four of its control loops took at most `1 + tolerance` times the best; each
/// side is compared with its own best. With too few of such pairs all count, and the grade says so. `None` without pairs.
pub fn added(with: &[Batch], without: &[Batch], tolerance: f64) -> Option<Judged> {
    let kept = |batches: &[Batch]| -> Option<Vec<bool>> {
        let best = BestControl::of(batches)?;
        Some(batches.iter().map(|batch| best.accepts(batch, tolerance)).collect())
    };
    let (kept_with, kept_without) = (kept(with)?, kept(without)?);
    let both = kept_with.into_iter().zip(kept_without).map(|(one, other)| one && other);
    let difference = |(with, without): (&Batch, &Batch)| with.call_ns() - without.call_ns();
    judged(with.iter().zip(without).map(difference).zip(both))
}

/// The cost of a call in `batches`, in nanoseconds; those whose control loops took more than
/// `1 + tolerance` times the best do not count, unless too few are left. `None` without batches.
pub fn cost(batches: &[Batch], tolerance: f64) -> Option<Judged> {
    let best = BestControl::of(batches)?;
    judged(batches.iter().map(|batch| (batch.call_ns(), best.accepts(batch, tolerance))))
}

fn judged(values: impl Iterator<Item = (f64, bool)>) -> Option<Judged> {
    let values: Vec<(f64, bool)> = values.collect();
    let accepted: Vec<f64> = values.iter().filter(|(_, kept)| *kept).map(|(ns, _)| *ns).collect();
    let grade = grade(accepted.len(), values.len());
    let counting = match grade {
        Grade::Unusable => values.iter().map(|(ns, _)| *ns).collect(),
        Grade::Quiet | Grade::Noisy => accepted,
    };
    Some(Judged { ns: median::median_interval(&counting, CONFIDENCE)?, grade })
}

fn grade(accepted: usize, all: usize) -> Grade {
    let is_less = |share: f64| (accepted as f64) < share * all as f64;
    if accepted < USABLE_MIN || is_less(USABLE_SHARE) {
        Grade::Unusable
    } else if is_less(QUIET_SHARE) {
        Grade::Noisy
    } else {
        Grade::Quiet
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(ns: u64, control_ns: u64) -> Batch {
        Batch {
            thread: 0,
            calls: 10,
            ns,
            control_before_ns: control_ns,
            control_after_ns: control_ns,
        }
    }

    /// A machine whose speed wanders by half from pair to pair: the difference does not.
    #[test]
    fn what_disturbs_both_alike_is_gone() {
        let wander = |round: u64| (round * 7919) % 50;
        let with: Vec<Batch> = (0..40).map(|r| batch(300 + wander(r), 100)).collect();
        let without: Vec<Batch> = (0..40).map(|r| batch(100 + wander(r), 100)).collect();
        let added = added(&with, &without, 0.03).unwrap();
        assert_eq!((added.ns.low, added.ns.median, added.ns.high), (20.0, 20.0, 20.0));
        assert_eq!(added.grade, Grade::Quiet);
    }

    #[test]
    fn a_pair_with_one_disturbed_half_does_not_count() {
        let mut with = vec![batch(300, 100); 10];
        let mut without = vec![batch(100, 100); 10];
        for round in 0..3 {
            with[round] = batch(900, 110);
            without[9 - round] = batch(10, 110);
        }
        // Four pairs are left: too few, so all count.
        let all = added(&with, &without, 0.03).unwrap();
        assert_eq!((all.grade, all.ns.samples), (Grade::Unusable, 10));
        let (with, without) = (with.repeat(3), without.repeat(3));
        let some = added(&with, &without, 0.03).unwrap();
        assert_eq!((some.grade, some.ns.samples, some.ns.median), (Grade::Noisy, 12, 20.0));
    }

    #[test]
    fn what_is_added_may_be_less_than_nothing() {
        let added = added(&[batch(90, 100); 19], &[batch(100, 100); 19], 0.03).unwrap();
        assert_eq!(added.ns.median, -1.0);
    }

    #[test]
    fn no_batches_give_no_answer() {
        assert_eq!(added(&[], &[], 0.03), None);
        assert_eq!(cost(&[], 0.03), None);
    }

    #[test]
    fn the_grade_says_how_many_ran_undisturbed() {
        let grades =
            [(9, 9), (10, 10), (10, 21), (11, 22), (40, 8000)].map(|(n, all)| grade(n, all));
        use Grade::{Noisy, Quiet, Unusable};
        assert_eq!(grades, [Unusable, Quiet, Noisy, Quiet, Unusable]);
        let mut batches = vec![batch(200, 100); 10];
        batches.extend(vec![batch(900, 150); 30]);
        let cost = cost(&batches, 0.03).unwrap();
        assert_eq!((cost.ns.median, cost.ns.samples, cost.grade), (20.0, 10, Grade::Noisy));
    }
}
