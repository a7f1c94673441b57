//! The rule by which two sets are called faster, slower, same, not proven or too few.
//!
//! One interval decides, in percent of the base's median: the Hodges-Lehmann shift's; for bench files
//! that of the medians, widened to the change of the cheapest batch and to every change between a
//! launch of one and a launch of the other. Batches of one launch are correlated and launches differ,
//! so an interval by batches is too narrow there. And a change must be improbable by chance among all
//! comparisons of the report.

use clockscope_model::compare::{SetRow, Verdict};
use clockscope_stats::shift;

/// How far apart, in percent, launches may lie without one launch showing it: the gate keeps batches
/// beside control loops that are so much slower than the best.
const ONE_LAUNCH_MARGIN: f64 = 3.0;
/// Fewer values than this in a set prove nothing, however many the other set has.
const VALUES_MIN: usize = 3;
/// When this many times as many values would be needed, more values are no advice.
const FACTOR_MAX: f64 = 1000.0;

/// What the rule looks at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evidence {
    /// Number of values of the base and of the other set.
    pub counts: (usize, usize),
    /// The deciding interval, in percent of the base's median, or in its unit if that is zero.
    pub interval: (f64, f64),
    /// How probable that is by chance.
    pub p: f64,
    /// A set was measured on a machine too noisy to measure on.
    pub is_unusable: bool,
}

/// What is asked of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// Confidence, 0 to 1.
    pub confidence: f64,
    /// The smallest change that matters, in the unit of the interval.
    pub effect: f64,
    /// Greater values are better.
    pub higher_is_better: bool,
}

/// The verdict: a change only if the whole interval lies beyond the smallest effect that matters, on
/// one side; the same only if the whole interval lies within it.
pub fn decide(evidence: &Evidence, demand: &Demand) -> Verdict {
    let (base, other) = evidence.counts;
    if !are_enough(base, other, demand.confidence) {
        return Verdict::TooFew;
    }
    let (low, high) = evidence.interval;
    if evidence.is_unusable || !low.is_finite() || !high.is_finite() {
        return Verdict::NotProven;
    }
    let is_proven = evidence.p < 1.0 - demand.confidence;
    let (greater, less) = if demand.higher_is_better {
        (Verdict::Faster, Verdict::Slower)
    } else {
        (Verdict::Slower, Verdict::Faster)
    };
    if low > demand.effect && is_proven {
        greater
    } else if high < -demand.effect && is_proven {
        less
    } else if low >= -demand.effect && high <= demand.effect {
        Verdict::Same
    } else {
        Verdict::NotProven
    }
}

fn are_enough(base: usize, other: usize, confidence: f64) -> bool {
    base.min(other) >= VALUES_MIN && shift::are_enough(base, other, confidence)
}

/// How many values more each set needs before anything can be proven.
pub fn missing(counts: (usize, usize), confidence: f64) -> Option<u64> {
    let (base, other) = counts;
    (0..=200).find(|more| are_enough(base + more, other + more, confidence)).map(|more| more as u64)
}

/// About how many values more each set needs for the interval of the shift to say more: its width
/// shrinks with the square root of their number. Where no difference is proven, it must leave out
/// zero or all changes that matter; where one is, it must end on one side of the smallest of these.
///
/// `None` if that is so close that more values are no way to decide.
pub fn more_needed(
    counts: (usize, usize),
    estimate: f64,
    interval: (f64, f64),
    effect: f64,
    is_proven: bool,
) -> Option<u64> {
    let reach = (interval.1 - estimate).max(estimate - interval.0);
    let from_effect = (estimate.abs() - effect).abs();
    let distance = if is_proven { from_effect } else { from_effect.max(estimate.abs()) };
    let factor = (reach / distance).powi(2).max(1.1);
    if !factor.is_finite() || factor > FACTOR_MAX {
        return None;
    }
    let more = (counts.0.max(counts.1) as f64 * (factor - 1.0)).ceil();
    // At most a thousand times a number of values.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let more = more as u64;
    Some(rounded_up(more))
}

/// Two digits are all that an estimate has.
fn rounded_up(number: u64) -> u64 {
    let mut unit = 1;
    while number / unit >= 100 {
        unit *= 10;
    }
    number.div_ceil(unit) * unit
}

/// The changes, in percent, between any launch of one and any of the other: least and greatest. Where
/// one has a single launch, how much its launches differ is not known, and both ends lie
/// 3 points further out.
pub(crate) fn between_launches(base: &[f64], other: &[f64]) -> Option<(f64, f64)> {
    let changes = base
        .iter()
        .filter(|base| **base > 0.0)
        .flat_map(|base| other.iter().map(move |other| (other - base) / base * 100.0));
    let margin = if base.len().min(other.len()) == 1 { ONE_LAUNCH_MARGIN } else { 0.0 };
    changes.fold(None, |range, change| {
        let (low, high) = range.unwrap_or((change - margin, change + margin));
        Some((f64::min(low, change - margin), f64::max(high, change + margin)))
    })
}

/// The change from one median to the other in percent of the first, at both ends of its interval:
/// each median's own interval, taken together as the sides of a right angle.
///
/// # References
///
/// Zou and Donner, Statist. Med. 27 (2008) 1693: the method of variance estimates recovery.
pub(crate) fn between_medians(base: &SetRow, other: &SetRow) -> (f64, f64) {
    let change = other.median - base.median;
    let below = (other.median - other.median_ci_low).hypot(base.median_ci_high - base.median);
    let above = (other.median_ci_high - other.median).hypot(base.median - base.median_ci_low);
    let percent = |value: f64| value / base.median.abs() * 100.0;
    (percent(change - below), percent(change + above))
}

/// The interval, widened to the changes between any launches, and to that of the cheapest batch: what
/// a neighbour takes raises the median, and the cheapest batch hardly.
pub fn widened(interval: (f64, f64), base: &SetRow, other: &SetRow) -> (f64, f64) {
    let launches = between_launches(&base.launch_medians, &other.launch_medians);
    let cheapest = match (base.cheapest, other.cheapest) {
        (Some(base), Some(other)) if base > 0.0 => {
            let change = (other - base) / base * 100.0;
            Some((change, change))
        }
        _ => None,
    };
    [launches, cheapest]
        .into_iter()
        .flatten()
        .fold(interval, |(low, high), (least, most)| (low.min(least), high.max(most)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEMAND: Demand = Demand { confidence: 0.95, effect: 1.0, higher_is_better: false };

    fn evidence(low: f64, high: f64) -> Evidence {
        Evidence { counts: (12, 12), interval: (low, high), p: 0.001, is_unusable: false }
    }

    #[test]
    fn the_whole_interval_must_lie_beyond_the_effect() {
        let table = [
            (1.1, 9.0, Verdict::Slower),
            (0.9, 9.0, Verdict::NotProven),
            (-9.0, -1.1, Verdict::Faster),
            (-9.0, -0.9, Verdict::NotProven),
            (-9.0, 9.0, Verdict::NotProven),
            (0.2, 0.9, Verdict::Same),
            (-1.0, 1.0, Verdict::Same),
            (f64::NEG_INFINITY, 0.0, Verdict::NotProven),
        ];
        for (low, high, verdict) in table {
            assert_eq!(decide(&evidence(low, high), &DEMAND), verdict, "{low} {high}");
        }
    }

    #[test]
    fn rates_turn_it_round() {
        let rates = Demand { higher_is_better: true, ..DEMAND };
        assert_eq!(decide(&evidence(2.0, 3.0), &rates), Verdict::Faster);
        assert_eq!(decide(&evidence(-3.0, -2.0), &rates), Verdict::Slower);
    }

    #[test]
    fn an_unusable_machine_proves_nothing() {
        let noisy = Evidence { is_unusable: true, ..evidence(5.0, 6.0) };
        assert_eq!(decide(&noisy, &DEMAND), Verdict::NotProven);
        let unlikely = Evidence { p: 0.2, ..evidence(5.0, 6.0) };
        assert_eq!(decide(&unlikely, &DEMAND), Verdict::NotProven);
    }

    #[test]
    fn few_values_say_how_many_are_missing() {
        for (base, other, more) in [(1, 1, 3), (3, 3, 1), (4, 4, 0), (1, 1000, 2), (3, 60, 0)] {
            let few = Evidence { counts: (base, other), ..evidence(5.0, 6.0) };
            assert_eq!(missing((base, other), 0.95), Some(more), "{base} {other}");
            assert_eq!(decide(&few, &DEMAND) == Verdict::TooFew, more > 0);
        }
    }

    #[test]
    fn the_estimate_of_values_needed_grows_with_the_square() {
        // Reach 2, to be halved: four times as many.
        assert_eq!(more_needed((10, 10), 2.0, (0.0, 4.0), 1.0, true), Some(30));
        assert_eq!(more_needed((10, 8), 0.0, (-2.0, 2.0), 1.0, false), Some(30));
        assert_eq!(more_needed((123, 123), 0.0, (-2.0, 2.0), 1.0, false), Some(370));
        // Too close to the effect to tell on which side, but not to zero.
        assert_eq!(more_needed((10, 10), 1.0, (0.1, 2.0), 1.0, true), None);
        assert_eq!(more_needed((10, 10), 1.001, (0.1, 2.0), 1.0, true), None);
        assert_eq!(more_needed((10, 10), 1.0, (-1.0, 3.0), 1.0, false), Some(30));
    }

    #[test]
    fn launches_give_the_least_and_the_greatest_change() {
        let (low, high) = between_launches(&[100.0, 110.0], &[110.0, 121.0]).unwrap();
        assert!((low - 0.0).abs() < 1e-12 && (high - 21.0).abs() < 1e-12);
        assert_eq!(between_launches(&[], &[1.0]), None);
    }
}
