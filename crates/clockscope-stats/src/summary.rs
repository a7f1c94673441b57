//! A set of numbers in a few: extremes, median, mean, standard deviation, outliers.

/// Numbers farther from zero than this would make squares and sums infinite.
pub const LARGEST: f64 = 1e150;

/// A set of numbers, sorted; never empty, and all between plus and minus [`LARGEST`].
#[derive(Clone, Debug, PartialEq)]
pub struct Sorted(Vec<f64>);

impl Sorted {
    /// Sorts `values`; `None` if there are none, or one is not a number or larger than [`LARGEST`].
    pub fn new(mut values: Vec<f64>) -> Option<Self> {
        if values.is_empty() || !values.iter().all(|value| value.abs() <= LARGEST) {
            return None;
        }
        for value in &mut values {
            // A negative zero is a zero.
            *value += 0.0;
        }
        values.sort_unstable_by(f64::total_cmp);
        Some(Self(values))
    }

    /// The numbers, from the least to the greatest.
    pub fn values(&self) -> &[f64] {
        &self.0
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The least of the numbers.
    pub fn min(&self) -> f64 {
        self.0[0]
    }

    /// The greatest of the numbers.
    pub fn max(&self) -> f64 {
        self.0[self.0.len() - 1]
    }

    /// The value below which a share `p` (0 to 1) lies, between neighbours by proportion.
    pub fn quantile(&self, p: f64) -> f64 {
        let last = self.0.len() - 1;
        let place = p.clamp(0.0, 1.0) * last as f64;
        // The place is between 0 and `last`.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let below = (place.floor() as usize).min(last);
        let above = (below + 1).min(last);
        let share = place - below as f64;
        self.0[below] + (self.0[above] - self.0[below]) * share
    }

    /// The arithmetic mean of the numbers.
    pub fn mean(&self) -> f64 {
        // About the first value, so that a large common part takes no digits away.
        let origin = self.0[0];
        origin + self.0.iter().map(|value| value - origin).sum::<f64>() / self.0.len() as f64
    }

    /// The variance of a sample, in two passes; 0 for a single value.
    pub fn variance(&self) -> f64 {
        let count = self.0.len();
        if count < 2 || self.is_constant() {
            return 0.0;
        }
        let mean = self.mean();
        let (mut squares, mut rest) = (0.0, 0.0);
        for value in &self.0 {
            let deviation = value - mean;
            squares += deviation * deviation;
            rest += deviation;
        }
        (squares - rest * rest / count as f64) / (count as f64 - 1.0)
    }

    /// The standard deviation of a sample; 0 for a single value.
    pub fn standard_deviation(&self) -> f64 {
        self.variance().sqrt()
    }

    /// Whether all values are the same.
    pub fn is_constant(&self) -> bool {
        self.min() == self.max()
    }

    /// Tukey's classes of values far out.
    pub fn outliers(&self) -> Outliers {
        let (q1, q3) = (self.quantile(0.25), self.quantile(0.75));
        let range = q3 - q1;
        let below = |fence: f64| self.0.partition_point(|value| *value < fence);
        let above = |fence: f64| self.0.len() - self.0.partition_point(|value| *value <= fence);
        let low_severe = below(q1 - 3.0 * range);
        let high_severe = above(q3 + 3.0 * range);
        Outliers {
            low_severe,
            low_mild: below(q1 - 1.5 * range) - low_severe,
            high_mild: above(q3 + 1.5 * range) - high_severe,
            high_severe,
        }
    }

    /// At most `most` values, evenly chosen, the least and the greatest among them.
    pub fn thinned(&self, most: usize) -> Vec<f64> {
        let count = self.0.len();
        if count <= most || most < 2 {
            return self.0[..count.min(most)].to_vec();
        }
        (0..most).map(|index| self.0[index * (count - 1) / (most - 1)]).collect()
    }
}

/// Values beyond 1.5 (mild) and 3 (severe) times the distance of the quartiles from the nearer one.
///
/// # References
///
/// Tukey, Exploratory Data Analysis (1977), section 2D.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outliers {
    /// More than 3 distances below.
    pub low_severe: usize,
    /// More than 1.5, and not more than 3, below.
    pub low_mild: usize,
    /// More than 1.5, and not more than 3, above.
    pub high_mild: usize,
    /// More than 3 above.
    pub high_severe: usize,
}

impl Outliers {
    /// How many values lie far out, on both sides.
    pub fn count(&self) -> usize {
        self.low_severe + self.low_mild + self.high_mild + self.high_severe
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference;

    #[test]
    fn a_large_common_part_takes_no_digits_away() {
        let set = Sorted::new((1..=6).map(|value| 1e9 + f64::from(value)).collect()).unwrap();
        assert_eq!(format!("{:.6}", set.standard_deviation()), "1.870829");
        assert_eq!(set.mean(), 1e9 + 3.5);
        let equal = Sorted::new(vec![0.1; 3]).unwrap();
        assert_eq!((equal.standard_deviation(), equal.mean()), (0.0, 0.1));
    }

    #[test]
    fn outliers_of_the_reference_set() {
        let outliers = reference::set("c2_vdso_a.txt").outliers();
        assert_eq!(outliers, Outliers { high_severe: 1, ..Outliers::default() });
        assert_eq!(outliers.count(), 1);
    }

    #[test]
    fn quantiles_lie_between_neighbours() {
        let set = Sorted::new(vec![4.0, 1.0, 2.0, 3.0]).unwrap();
        assert_eq!((set.quantile(0.0), set.quantile(0.5), set.quantile(1.0)), (1.0, 2.5, 4.0));
        assert_eq!(set.quantile(0.25), 1.75);
    }

    #[test]
    fn thinning_keeps_the_ends() {
        let set = Sorted::new((0..5000).map(f64::from).collect()).unwrap();
        let thin = set.thinned(1000);
        assert_eq!((thin.len(), thin[0], thin[999]), (1000, 0.0, 4999.0));
        assert!(thin.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(Sorted::new(vec![2.0, 1.0]).unwrap().thinned(1000), [1.0, 2.0]);
    }

    #[test]
    fn nothing_and_what_is_not_finite_are_refused() {
        assert_eq!(Sorted::new(Vec::new()), None);
        assert_eq!(Sorted::new(vec![1.0, f64::NAN]), None);
        assert_eq!(Sorted::new(vec![1.0, f64::INFINITY]), None);
    }

    proptest::proptest! {
        #[test]
        fn shifting_and_scaling_do_what_they_should(
            values in proptest::collection::vec(-1e3..1e3_f64, 2..100),
            shift in -1e3..1e3_f64,
            scale in 0.1..10.0_f64,
        ) {
            let set = Sorted::new(values.clone()).unwrap();
            let moved = Sorted::new(values.iter().map(|v| v * scale + shift).collect()).unwrap();
            let near = |a: f64, b: f64| (a - b).abs() < 1e-6;
            proptest::prop_assert!(near(moved.mean(), set.mean() * scale + shift));
            let sd = set.standard_deviation() * scale;
            proptest::prop_assert!(near(moved.standard_deviation(), sd));
        }
    }
}
