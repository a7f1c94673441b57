//! The median and its order-statistic confidence interval, with exact binomial ranks.
//!
//! The interval needs no assumption about the distribution. The number of samples below the true median is binomial
//! with p = 1/2, so the k-th smallest and k-th largest samples enclose the median with a probability that can be
//! computed exactly.

use super::probability::incomplete_beta;

/// A median with an interval that encloses the true median.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MedianInterval {
    /// Lower end; one of the samples, unless it was widened.
    pub low: f64,
    /// The sample median; for an even number of samples the middle of the central two.
    pub median: f64,
    /// Upper end, likewise.
    pub high: f64,
    /// Probability (0 to 1) that the interval encloses the true median; less than requested if there are too few
    /// samples.
    pub confidence: f64,
    /// How many samples there are.
    pub samples: usize,
}

/// Returns the median, in the unit of `values`; the middle of two if their number is even.
///
/// `None` if there are no values or one of them is not a number.
pub fn median(values: &[f64]) -> Option<f64> {
    sorted(values).map(|values| middle(&values))
}

/// Returns the median with the narrowest symmetric order-statistic interval whose confidence is at least `confidence`
/// (0 to 1). With too few values the interval goes from the smallest to the largest.
///
/// `None` if there are no values or one of them is not a number.
///
/// # References
///
/// David and Nagaraja, Order Statistics, 3rd edition, section 7.1.
pub fn median_interval(values: &[f64], confidence: f64) -> Option<MedianInterval> {
    let sorted = sorted(values)?;
    let last = sorted.len().checked_sub(1)?;
    let (rank, confidence) = enclosing_rank(sorted.len(), confidence);
    Some(MedianInterval {
        low: sorted[rank],
        median: middle(&sorted),
        high: sorted[last - rank],
        confidence,
        samples: sorted.len(),
    })
}

/// Returns the largest 0-based rank whose pair of order statistics reaches `wanted`, and the confidence of that pair.
fn enclosing_rank(samples: usize, wanted: f64) -> (usize, f64) {
    // P(Binomial(n, 1/2) <= r) is the incomplete beta function I_1/2(n - r, r + 1).
    let confidence = |rank: usize| {
        let below = incomplete_beta((samples - rank) as f64, (rank + 1) as f64, 0.5, 0.5);
        (1.0 - 2.0 * below).max(0.0)
    };
    let (mut enough, mut not_enough) = (0, samples.div_ceil(2));
    while not_enough - enough > 1 {
        let rank = usize::midpoint(enough, not_enough);
        if confidence(rank) >= wanted {
            enough = rank;
        } else {
            not_enough = rank;
        }
    }
    (enough, confidence(enough))
}

fn sorted(values: &[f64]) -> Option<Vec<f64>> {
    if values.is_empty() || values.iter().any(|value| value.is_nan()) {
        return None;
    }
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    Some(values)
}

fn middle(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[half] } else { f64::midpoint(sorted[half - 1], sorted[half]) }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn one_to(count: u32) -> Vec<f64> {
        (1..=count).rev().map(f64::from).collect()
    }

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_two() {
        assert_eq!(median(&one_to(4)), Some(2.5));
        assert_eq!(median(&one_to(5)), Some(3.0));
    }

    #[test]
    fn nothing_and_not_a_number_have_no_median() {
        assert_eq!(median(&[]), None);
        assert_eq!(median_interval(&[], 0.95), None);
        assert_eq!(median(&[1.0, f64::NAN]), None);
    }

    /// Ranks (1-based) and coverages of the standard table of sign-test intervals.
    #[test]
    fn ranks_and_coverage_agree_with_the_published_table() {
        let table = [
            (6, 1.0, 0.96875),
            (10, 2.0, 0.978_515_625),
            (20, 6.0, 0.958_611),
            (50, 18.0, 0.967_161),
        ];
        for (samples, rank, coverage) in table {
            let interval = median_interval(&one_to(samples), 0.95).unwrap();
            assert_eq!(interval.low, rank, "{samples} samples");
            assert_eq!(interval.high, f64::from(samples) + 1.0 - rank, "{samples} samples");
            assert!((interval.confidence - coverage).abs() < 1e-6, "{interval:?}");
        }
    }

    #[test]
    fn too_few_samples_give_the_range_and_say_how_sure_that_is() {
        let interval = median_interval(&one_to(3), 0.95).unwrap();
        assert_eq!((interval.low, interval.high), (1.0, 3.0));
        assert!((interval.confidence - 0.75).abs() < 1e-12, "{interval:?}");
        let single = median_interval(&[7.0], 0.95).unwrap();
        assert_eq!((single.low, single.high), (7.0, 7.0));
        assert!(single.confidence < 1e-12, "{single:?}");
    }

    #[test]
    fn many_samples_do_not_underflow() {
        let interval = median_interval(&one_to(5000), 0.95).unwrap();
        assert!(interval.confidence >= 0.95 && interval.confidence < 0.953, "{interval:?}");
        assert!(interval.low > 2400.0 && interval.high < 2600.0, "{interval:?}");
    }

    /// Reference values of scipy 1.17.1.
    #[test]
    fn the_reference_intervals_come_out() {
        let table = [
            ("c1_up_gtod.txt", 1471.96, 1515.54, 0.961),
            ("c2_vdso_a.txt", 21.5, 21.71, 0.95),
            ("c2_vdso_b.txt", 21.59, 21.83, 0.951),
            ("c2_syscall.txt", 127.4, 129.4, 0.95),
            ("c3_n60a.txt", 97.855, 101.272, 0.95),
        ];
        for (name, low, high, confidence) in table {
            let path =
                Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/ministat").join(name);
            let text = std::fs::read_to_string(path).unwrap();
            let values: Vec<f64> = text.lines().map(|line| line.trim().parse().unwrap()).collect();
            let interval = median_interval(&values, 0.95).unwrap();
            assert!((interval.low - low).abs() < 0.005, "{name}: {interval:?}");
            assert!((interval.high - high).abs() < 0.005, "{name}: {interval:?}");
            assert!(interval.confidence >= confidence - 0.0005, "{name}: {interval:?}");
        }
    }

    /// The normal approximation n/2 - 1.96 sqrt(n)/2, within a few ranks.
    #[test]
    fn ten_million_samples_take_no_time() {
        let (rank, confidence) = enclosing_rank(10_000_000, 0.95);
        assert!(rank.abs_diff(4_996_901) < 5, "{rank}");
        assert!((0.95..0.951).contains(&confidence), "{confidence}");
    }

    proptest::proptest! {
        #[test]
        fn the_interval_encloses_the_median(values in proptest::collection::vec(-1e9..1e9f64, 1..200)) {
            let interval = median_interval(&values, 0.95).unwrap();
            proptest::prop_assert!(interval.low <= interval.median && interval.median <= interval.high);
            proptest::prop_assert!(values.contains(&interval.low) && values.contains(&interval.high));
        }
    }
}
