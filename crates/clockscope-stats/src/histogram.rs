//! Percentiles of a histogram, and the layout of its log-linear buckets.
//!
//! A log-linear histogram has the same number of equally wide buckets for each power of two. Its relative resolution is
//! fixed over the whole range of `u64`. Computing an index takes a shift and an addition.

use crate::order;

/// Values counted together: all `v` with `lower <= v <= lower + width - 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// The smallest value of the bucket.
    pub lower: u64,
    /// How many different values fall into it; 0 is taken as 1.
    pub width: u64,
    /// How many values were counted.
    pub count: u64,
}

/// Percentiles of a distribution, in the unit of the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percentiles {
    /// The median: half of the values do not exceed it.
    pub p50: u64,
    /// 90 of 100 values do not exceed it.
    pub p90: u64,
    /// 99 of 100 values do not exceed it.
    pub p99: u64,
    /// The greatest value, or the end of its bucket.
    pub max: u64,
}

/// The percentiles of the values in `buckets`, in any order; `None` if nothing was counted.
///
/// `max` is the greatest value, if known; otherwise the top of the highest bucket in use is taken. No percentile
/// exceeds it.
pub fn percentiles(buckets: &[Bucket], max: Option<u64>) -> Option<Percentiles> {
    let mut used: Vec<Bucket> = buckets.iter().copied().filter(|b| b.count > 0).collect();
    order::by_key(&mut used, |b| b.lower);
    let max = max.unwrap_or_else(|| used.iter().map(last_value).max().unwrap_or(0));
    let at = |percent| value_at(&used, percent).map(|value| value.min(max));
    Some(Percentiles { p50: at(50)?, p90: at(90)?, p99: at(99)?, max })
}

/// The value below which `percent` of the counted values lie (nearest rank), interpolated inside its bucket as if the
/// values were spread evenly. The error is less than the bucket's width.
///
/// `sorted` holds only buckets with a count, by lower bound.
fn value_at(sorted: &[Bucket], percent: u64) -> Option<u64> {
    let total: u128 = sorted.iter().map(|b| u128::from(b.count)).sum();
    let rank = (total * u128::from(percent)).div_ceil(100).max(1);
    let mut before: u128 = 0;
    for bucket in sorted {
        let count = u128::from(bucket.count);
        if before + count >= rank {
            // The k-th of n evenly spread values sits at (2k - 1) / 2n of the width.
            let steps = 2 * (rank - before) - 1;
            let offset = scale_down(bucket.width.max(1), steps, 2 * count);
            return Some(bucket.lower.saturating_add(offset));
        }
        before += count;
    }
    None
}

/// `width * part / whole`, where `part < whole`, rounded down.
fn scale_down(width: u64, part: u128, whole: u128) -> u64 {
    // part and whole are at most 65 bits long: drop low bits of both so that the product fits.
    let excess = (128 - whole.leading_zeros()).saturating_sub(64);
    let (part, whole) = (part >> excess, (whole >> excess).max(1));
    let scaled = u128::from(width) * part / whole;
    u64::try_from(scaled).expect("at most the width").min(width - 1)
}

fn last_value(bucket: &Bucket) -> u64 {
    bucket.lower.saturating_add(bucket.width.max(1) - 1)
}

/// A bucket layout: values below `2^bits` have a bucket each; above, each power of two is cut into
/// `2^bits` buckets of equal width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLinear {
    bits: u32,
}

impl LogLinear {
    /// A layout with `2^bits` buckets for each power of two.
    ///
    /// # Panics
    ///
    /// If `bits` is over 16: a mistake in the program.
    pub const fn new(bits: u32) -> Self {
        assert!(bits <= 16, "so many buckets are no histogram");
        Self { bits }
    }

    /// The index of the bucket of `value`.
    pub fn index_of(self, value: u64) -> u32 {
        let shift = (u64::BITS - value.leading_zeros()).saturating_sub(self.bits + 1);
        let mantissa = u32::try_from(value >> shift).expect("at most 17 bits are left");
        (shift << self.bits) + mantissa
    }

    /// The bucket at `index`, with `count` values in it; indexes beyond the last bucket give the
    /// last one.
    pub fn bucket_at(self, index: u32, count: u64) -> Bucket {
        let index = index.min(self.index_of(u64::MAX));
        let shift = (index >> self.bits).saturating_sub(1);
        let mantissa = u64::from(index - (shift << self.bits));
        Bucket { lower: mantissa << shift, width: 1 << shift, count }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn fill(layout: LogLinear, values: &[u64]) -> Vec<Bucket> {
        let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
        for value in values {
            *counts.entry(layout.index_of(*value)).or_default() += 1;
        }
        counts.iter().map(|(index, count)| layout.bucket_at(*index, *count)).collect()
    }

    /// Nearest rank on the raw values.
    fn exact(sorted: &[u64], percent: usize) -> u64 {
        sorted[(sorted.len() * percent).div_ceil(100).max(1) - 1]
    }

    #[test]
    fn nothing_counted_has_no_percentiles() {
        assert_eq!(percentiles(&[], None), None);
        assert_eq!(percentiles(&[Bucket { lower: 5, width: 2, count: 0 }], Some(9)), None);
    }

    #[test]
    fn values_with_a_bucket_each_are_exact() {
        let buckets: Vec<Bucket> =
            (1..=100).rev().map(|lower| Bucket { lower, width: 1, count: 1 }).collect();
        let expected = Percentiles { p50: 50, p90: 90, p99: 99, max: 100 };
        assert_eq!(percentiles(&buckets, None), Some(expected));
    }

    #[test]
    fn no_percentile_exceeds_the_maximum() {
        let buckets = [Bucket { lower: 1024, width: 1024, count: 3 }];
        let found = percentiles(&buckets, Some(1030)).unwrap();
        assert_eq!(found, Percentiles { p50: 1030, p90: 1030, p99: 1030, max: 1030 });
    }

    #[test]
    fn the_greatest_counts_and_values_do_not_overflow() {
        let all = Bucket { lower: 1, width: u64::MAX, count: u64::MAX };
        let zero = Bucket { lower: u64::MAX, width: 0, count: u64::MAX };
        let found = percentiles(&[all, zero], None).unwrap();
        assert!(found.p50 <= found.p90 && found.p90 <= found.p99 && found.p99 <= found.max);
    }

    #[test]
    fn buckets_of_a_small_layout_follow_each_other_without_gap_or_overlap() {
        for bits in 0..=4 {
            let layout = LogLinear::new(bits);
            let last = layout.index_of(u64::MAX);
            let mut next = 0;
            for index in 0..=last {
                let bucket = layout.bucket_at(index, 0);
                assert_eq!(bucket.lower, next, "bits {bits} index {index}");
                next = bucket.lower.wrapping_add(bucket.width);
            }
            assert_eq!(next, 0, "the last bucket ends at 2^64");
            assert_eq!(layout.bucket_at(last + 1, 0), layout.bucket_at(last, 0));
        }
    }

    proptest! {
        #[test]
        fn each_value_lies_in_its_bucket(bits in 0_u32..=16, value: u64) {
            let layout = LogLinear::new(bits);
            let bucket = layout.bucket_at(layout.index_of(value), 1);
            prop_assert!(bucket.lower <= value && value <= last_value(&bucket));
            prop_assert!(bucket.width == 1 || bucket.width <= bucket.lower >> bits);
        }

        #[test]
        fn percentiles_are_within_a_bucket_width_of_the_exact_ones(
            bits in 0_u32..=8,
            mut values in prop::collection::vec(prop_oneof![0_u64..5_000, any::<u64>()], 1..400),
        ) {
            let layout = LogLinear::new(bits);
            let found = percentiles(&fill(layout, &values), values.iter().copied().max()).unwrap();
            values.sort_unstable();
            for (percent, value) in [(50, found.p50), (90, found.p90), (99, found.p99)] {
                let exact = exact(&values, percent);
                let width = layout.bucket_at(layout.index_of(exact), 1).width;
                prop_assert!(exact.abs_diff(value) < width.max(1), "p{percent} {exact} {value}");
            }
            prop_assert_eq!(found.max, values[values.len() - 1]);
        }
    }
}
