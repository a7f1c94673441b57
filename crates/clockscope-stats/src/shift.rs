//! The Hodges-Lehmann shift between two sets, with its distribution-free interval.
//!
//! The shift is the median of all differences, one value of each set. There are too many to write
//! down, so the wanted ones are selected by narrowing: how many differences lie below a value is
//! counted in one walk over both sorted sets.

use super::probability::normal_quantile;
use super::rank_test::EXACT_UNTIED_MAX;
use super::summary::Sorted;
use super::u_distribution::UDistribution;

/// A shift with an interval that encloses the true one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// Median of all differences other - base.
    pub estimate: f64,
    /// Lower end, one of the differences.
    pub low: f64,
    /// Upper end, one of the differences.
    pub high: f64,
    /// Whether the interval has the confidence that was asked for; if not, it is from the least to
    /// the greatest difference, because there are too few values.
    pub is_confident: bool,
}

/// Returns the shift from `base` to `other` with an interval of `confidence` (0 to 1, below 1).
///
/// The interval belongs to the rank test without correction for ties: with ties it is a little too
/// wide, never too narrow.
///
/// # References
///
/// Hodges and Lehmann, Ann. Math. Stat. 34 (1963) 598; the interval: Lehmann, Nonparametrics
/// (1975), section 2.6.
pub fn hodges_lehmann(base: &Sorted, other: &Sorted, confidence: f64) -> Shift {
    let differences = Differences { base: base.values(), other: other.values() };
    let pairs = differences.count();
    let lower_middle = differences.select((pairs - 1) / 2);
    let upper_middle = if pairs % 2 == 1 { lower_middle } else { differences.select(pairs / 2) };
    let rank = interval_rank(base.count(), other.count(), confidence);
    let index = rank.saturating_sub(1);
    Shift {
        estimate: f64::midpoint(lower_middle, upper_middle),
        low: differences.select(index),
        high: differences.select(pairs - 1 - index),
        is_confident: rank > 0,
    }
}

/// Returns whether sets of these sizes have an interval of `confidence` at all.
pub fn are_enough(base: usize, other: usize, confidence: f64) -> bool {
    base > 0 && other > 0 && interval_rank(base, other, confidence) > 0
}

/// Returns the 1-based rank of the difference at which the interval begins; 0 if there is none.
fn interval_rank(base: usize, other: usize, confidence: f64) -> usize {
    let outside = (1.0 - confidence) / 2.0;
    if base.max(other) <= EXACT_UNTIED_MAX {
        return UDistribution::untied(base, other).rank_below(outside);
    }
    let (n, m) = (base as f64, other as f64);
    let deviation = (n * m / 12.0 * (n + m + 1.0)).sqrt();
    let rank = (n * m / 2.0 - 0.5 + normal_quantile(outside) * deviation).floor() + 1.0;
    // At least 0 and below n * m, which fits.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let rank = rank.max(0.0) as usize;
    rank
}

/// Up to this many differences, or as many as there are values, are written down and sorted.
const FEW: usize = 4096;

/// All differences of a value of `other` and one of `base`, both sorted.
#[derive(Clone, Copy, Debug)]
struct Differences<'a> {
    base: &'a [f64],
    other: &'a [f64],
}

/// The differences strictly between two values.
#[derive(Clone, Copy, Debug)]
struct Between {
    low: f64,
    high: f64,
    /// How many are not above `low`.
    below: usize,
    /// How many are between.
    count: usize,
}

impl Differences<'_> {
    fn count(&self) -> usize {
        self.base.len() * self.other.len()
    }

    /// The difference of 0-based `rank` in ascending order.
    fn select(&self, rank: usize) -> f64 {
        let few = FEW.max(self.base.len() + self.other.len());
        let mut between =
            Between { low: f64::NEG_INFINITY, high: f64::INFINITY, below: 0, count: self.count() };
        let mut random = 0x9e37_79b9_7f4a_7c15;
        while between.count > few {
            for pivot in self.pivots(&between, rank - between.below, &mut random) {
                let (less, not_more) = self.count_below(pivot);
                if rank < less {
                    if pivot < between.high {
                        between.high = pivot;
                        between.count = less - between.below;
                    }
                } else if rank >= not_more {
                    if pivot > between.low {
                        between.count -= not_more - between.below;
                        between.below = not_more;
                        between.low = pivot;
                    }
                } else {
                    return pivot;
                }
            }
        }
        let mut values = Vec::new();
        self.each_row(between.low, between.high, |row, from, to| {
            values.extend(self.other[from..to].iter().map(|value| value - self.base[row]));
        });
        let index = (rank - between.below).min(values.len() - 1);
        *values.select_nth_unstable_by(index, f64::total_cmp).1
    }

    /// How many differences are less than `value`, and how many are not more.
    fn count_below(&self, value: f64) -> (usize, usize) {
        let (mut less, mut not_more) = (0, 0);
        let (mut i, mut j) = (0, 0);
        for base in self.base {
            while i < self.other.len() && self.other[i] - base < value {
                i += 1;
            }
            j = j.max(i);
            while j < self.other.len() && self.other[j] - base <= value {
                j += 1;
            }
            less += i;
            not_more += j;
        }
        (less, not_more)
    }

    /// Calls `visit` for each value of `base` with the range of `other` whose differences lie
    /// strictly between `low` and `high`.
    fn each_row(&self, low: f64, high: f64, mut visit: impl FnMut(usize, usize, usize)) {
        let (mut from, mut to) = (0, 0);
        for (row, base) in self.base.iter().enumerate() {
            while from < self.other.len() && self.other[from] - base <= low {
                from += 1;
            }
            to = to.max(from);
            while to < self.other.len() && self.other[to] - base < high {
                to += 1;
            }
            visit(row, from, to);
        }
    }

    /// Two of the differences between, that probably enclose the one of `rank` among them closely:
    /// quantiles of a random sample, as Floyd and Rivest's SELECT does.
    fn pivots(&self, between: &Between, rank: usize, random: &mut u64) -> [f64; 2] {
        let size = ((self.base.len() + self.other.len()) / 100).clamp(200, 100_000);
        let stratum = between.count as f64 / size as f64;
        let mut places = (0..size).map(|index| {
            let place = (index as f64 + next_share(random)) * stratum;
            // Not negative, and cut to the count.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            (place as usize).min(between.count - 1)
        });
        let mut sample = Vec::with_capacity(size);
        let mut next = places.next();
        let mut passed = 0;
        self.each_row(between.low, between.high, |row, from, to| {
            let end = passed + (to - from);
            while let Some(place) = next.filter(|place| *place < end) {
                let column = from + (place - passed);
                sample.push(self.other[column] - self.base[row]);
                next = places.next();
            }
            passed = end;
        });
        sample.sort_unstable_by(f64::total_cmp);
        let share = rank as f64 / between.count as f64;
        let middle = share * size as f64;
        let reach = 3.0 * (size as f64 * share * (1.0 - share)).sqrt() + 1.0;
        // Not negative, and cut to the size.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let at = |place: f64| sample[(place.max(0.0) as usize).min(sample.len() - 1)];
        [at(middle - reach), at(middle + reach)]
    }
}

/// The next of a fixed sequence of numbers from 0 to 1 that look random (Marsaglia's xorshift).
fn next_share(state: &mut u64) -> f64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::reference::{same_digits, set};

    #[test]
    fn the_reference_values_come_out_to_the_digits_given() {
        let table = [
            ["c1_up_gtod.txt", "c1_up_poor.txt", "-898.167"],
            ["c1_up_gtod.txt", "c1_up_realtime.txt", "13.9167"],
            ["c2_vdso_a.txt", "c2_vdso_b.txt", "0.15"],
            ["c2_vdso_a.txt", "c2_syscall.txt", "106.81"],
            ["c3_n60a.txt", "c3_n60b.txt", "0.9705"],
            ["c3_bigmean.txt", "c3_bigmean2.txt", "10"],
        ];
        for [base, other, expected] in table {
            same_digits(hodges_lehmann(&set(base), &set(other), 0.95).estimate, expected);
        }
    }

    #[test]
    fn too_few_values_give_the_range_and_say_so() {
        let (a, b) = (Sorted::new(vec![1.0, 2.0]).unwrap(), Sorted::new(vec![5.0, 7.0]).unwrap());
        let shift = hodges_lehmann(&a, &b, 0.95);
        assert_eq!((shift.low, shift.high, shift.is_confident), (3.0, 6.0, false));
        assert!(!are_enough(3, 3, 0.95) && are_enough(4, 4, 0.95) && !are_enough(0, 9, 0.95));
        assert!(!are_enough(1, 60, 0.999) && are_enough(60, 60, 0.999));
    }

    /// Without narrowing.
    fn by_sorting(a: &Sorted, b: &Sorted) -> Vec<f64> {
        let mut all: Vec<f64> =
            a.values().iter().flat_map(|x| b.values().iter().map(move |y| y - x)).collect();
        all.sort_unstable_by(f64::total_cmp);
        all
    }

    #[test]
    fn selection_by_narrowing_equals_sorting() {
        let mut random = 88_172_645_463_325_252;
        for (distinct, tail) in [(1e9, 1.0), (7.0, 1.0), (1.0, 1.0), (1e9, 40.0)] {
            let mut draw = |count: usize, shift: f64| {
                let draw = |_| (next_share(&mut random).powf(tail) * distinct).floor() + shift;
                Sorted::new((0..count).map(draw).collect()).unwrap()
            };
            let (a, b) = (draw(170, 0.0), draw(230, 3.0));
            let all = by_sorting(&a, &b);
            let differences = Differences { base: a.values(), other: b.values() };
            for rank in [0, 1, 100, 19_549, 19_550, 30_000, 39_098, 39_099] {
                let expected = all[rank];
                assert_eq!(differences.select(rank), expected, "{distinct} {rank}");
            }
        }
    }

    #[test]
    fn a_million_values_take_no_quadratic_time() {
        let mut random = 99;
        let mut draw = |shift: f64| {
            let values = (0..500_000).map(|_| next_share(&mut random) + shift).collect();
            Sorted::new(values).unwrap()
        };
        let (a, b) = (draw(0.0), draw(0.25));
        let shift = hodges_lehmann(&a, &b, 0.95);
        assert!((shift.estimate - 0.25).abs() < 0.005, "{shift:?}");
        assert!(shift.low < shift.estimate && shift.estimate < shift.high, "{shift:?}");
        assert!(shift.high - shift.low < 0.01, "{shift:?}");
    }

    fn numbers() -> impl Strategy<Value = Sorted> {
        prop::collection::vec((-500..500_i32).prop_map(f64::from), 1..60)
            .prop_map(|values| Sorted::new(values).unwrap())
    }

    proptest! {
        #[test]
        fn exchanged_sets_give_the_opposite(a in numbers(), b in numbers()) {
            let (there, back) = (hodges_lehmann(&a, &b, 0.95), hodges_lehmann(&b, &a, 0.95));
            prop_assert_eq!(there.estimate, -back.estimate);
            prop_assert_eq!((there.low, there.high), (-back.high, -back.low));
        }

        #[test]
        fn the_interval_contains_the_estimate_and_follows_a_shift(
            a in numbers(), b in numbers(), by in -99..99_i32, confidence in 0.5..0.999_f64,
        ) {
            let shift = hodges_lehmann(&a, &b, confidence);
            prop_assert!(shift.low <= shift.estimate && shift.estimate <= shift.high);
            let moved = b.values().iter().map(|value| value + f64::from(by)).collect();
            let moved = hodges_lehmann(&a, &Sorted::new(moved).unwrap(), confidence);
            prop_assert_eq!(moved.estimate, shift.estimate + f64::from(by));
            prop_assert_eq!(moved.low, shift.low + f64::from(by));
        }

        #[test]
        fn the_estimate_is_the_median_of_all_differences(a in numbers(), b in numbers()) {
            let all = by_sorting(&a, &b);
            let median = crate::median::median(&all).unwrap();
            prop_assert_eq!(hodges_lehmann(&a, &b, 0.95).estimate, median);
        }
    }
}
