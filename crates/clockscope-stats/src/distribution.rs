//! A distribution of non-negative values: percentiles and buckets.

use hdrhistogram::Histogram;

use super::histogram::LogLinear;

/// Buckets of the printed distribution: 2^5 for each power of two.
const LAYOUT: LogLinear = LogLinear::new(5);
/// Significant decimal digits that are kept of each value.
const DIGITS: u8 = 3;

/// A distribution to which values are added one by one.
#[derive(Clone, Debug)]
pub struct Distribution {
    histogram: Histogram<u64>,
    sum: u128,
    min: u64,
    max: u64,
}

impl Default for Distribution {
    fn default() -> Self {
        Self {
            histogram: Histogram::new(DIGITS).expect("three digits are allowed"),
            sum: 0,
            min: u64::MAX,
            max: 0,
        }
    }
}

impl Distribution {
    /// Adds a value; those above 2^62 count as 2^62.
    pub fn add(&mut self, value: u64) {
        let value = value.min(1 << 62);
        // The histogram grows as needed; 2^62 is within its range.
        let _ = self.histogram.record(value);
        self.sum += u128::from(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// How many values were added so far.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Least value; 0 if there is none.
    pub fn min(&self) -> u64 {
        if self.count() == 0 { 0 } else { self.min }
    }

    /// Greatest value; 0 if there is none.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Mean; 0 if there is no value.
    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.count().max(1) as f64
    }

    /// The value that `percent` (0 to 100) of the values do not exceed, to three digits.
    pub fn percentile(&self, percent: f64) -> u64 {
        self.histogram.value_at_percentile(percent).clamp(self.min(), self.max)
    }

    /// Lower bound and count of each bucket that is not empty, ascending.
    pub fn buckets(&self) -> Vec<(u64, u64)> {
        let mut buckets: Vec<(u64, u64)> = Vec::new();
        for step in self.histogram.iter_recorded() {
            let value = self.histogram.lowest_equivalent(step.value_iterated_to());
            let lower = LAYOUT.bucket_at(LAYOUT.index_of(value), 0).lower;
            match buckets.last_mut().filter(|last| last.0 == lower) {
                Some(last) => last.1 += step.count_since_last_iteration(),
                None => buckets.push((lower, step.count_since_last_iteration())),
            }
        }
        buckets
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(values: &[u64]) -> Distribution {
        let mut distribution = Distribution::default();
        values.iter().for_each(|value| distribution.add(*value));
        distribution
    }

    #[test]
    fn nothing_is_all_zeros() {
        let nothing = of(&[]);
        assert_eq!((nothing.min(), nothing.max(), nothing.percentile(50.0)), (0, 0, 0));
        assert_eq!(nothing.mean(), 0.0);
        assert!(nothing.buckets().is_empty());
    }

    #[test]
    fn small_values_are_exact() {
        let values: Vec<u64> = (1..=100).collect();
        let found = of(&values);
        assert_eq!((found.min(), found.max(), found.count()), (1, 100, 100));
        assert_eq!([1.0, 50.0, 99.0].map(|p| found.percentile(p)), [1, 50, 99]);
        assert_eq!(found.mean(), 50.5);
    }

    proptest! {
        #[test]
        fn buckets_hold_every_value_once(values in prop::collection::vec(0_u64..1 << 40, 0..200)) {
            let found = of(&values);
            let buckets = found.buckets();
            prop_assert_eq!(buckets.iter().map(|b| b.1).sum::<u64>(), values.len() as u64);
            prop_assert!(buckets.windows(2).all(|pair| pair[0].0 < pair[1].0));
        }

        #[test]
        fn percentiles_are_exact_to_three_digits(
            mut values in prop::collection::vec(any::<u64>().prop_map(|v| v >> (v % 60)), 1..200),
        ) {
            let found = of(&values);
            values.iter_mut().for_each(|value| *value = (*value).min(1 << 62));
            values.sort_unstable();
            for percent in [1, 50, 99] {
                let exact = values[(values.len() * percent).div_ceil(100).max(1) - 1];
                let value = found.percentile(percent as f64);
                prop_assert!(value.abs_diff(exact) <= exact / 1_000, "p{percent} {exact} {value}");
            }
            let at = [0.0, 1.0, 50.0, 99.0, 100.0].map(|p| found.percentile(p));
            prop_assert!(at.is_sorted() && found.min() <= at[0] && at[4] <= found.max());
        }
    }
}
