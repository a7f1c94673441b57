//! The arithmetic of ministat 20150715, including its errors, to reproduce its output.
//!
//! Use it for that purpose only. Its sum-of-squares variance suffers from cancellation, its median of an even number of
//! values is the upper of the central two, and its 99.5 % is 99.8 %. See docs/measuring.md.

use std::cmp::Ordering;

use super::order;
use super::probability::t_enclosing;

/// ministat's confidence levels, in percent.
pub const LEVELS: [f64; 6] = [80.0, 90.0, 95.0, 98.0, 99.0, 99.5];
/// The two-sided confidences of the columns of ministat's table; the last differs from [`LEVELS`].
const COLUMNS: [f64; 6] = [0.80, 0.90, 0.95, 0.98, 0.99, 0.998];
/// Largest degrees of freedom in ministat's table.
const TABLE_MAX: usize = 100;
/// Entries of the table's last column that differ from the quantile of 99.8 % rounded to three decimals: degrees of
/// freedom and entry.
const MISPRINTS: [(usize, f64); 7] =
    [(1, 318.313), (7, 4.782), (8, 4.499), (9, 4.296), (10, 4.143), (11, 4.024), (12, 3.929)];
/// The table's row for more degrees of freedom: the normal distribution.
const INFINITE: f64 = 1e12;

/// A data set of ministat.
#[derive(Clone, Debug, PartialEq)]
pub struct Set {
    sorted: Vec<f64>,
    sum: f64,
    squares: f64,
}

impl Set {
    /// Takes values in the order of the file; `None` if there are fewer than 3, ministat's minimum.
    pub fn new(mut values: Vec<f64>) -> Option<Self> {
        if values.len() < 3 {
            return None;
        }
        let (mut sum, mut squares) = (0.0, 0.0);
        for value in &values {
            sum += value;
            squares += value * value;
        }
        // Stable, like ministat's insertion: 0 and -0 are equal and keep their order.
        order::by(&mut values, |a, b| a.partial_cmp(b).unwrap_or(Ordering::Equal));
        Some(Self { sorted: values, sum, squares })
    }

    /// The values in ascending order.
    pub fn values(&self) -> &[f64] {
        &self.sorted
    }

    /// How many values there are.
    pub fn count(&self) -> usize {
        self.sorted.len()
    }

    /// The least of the values.
    pub fn min(&self) -> f64 {
        self.sorted[0]
    }

    /// The greatest of the values.
    pub fn max(&self) -> f64 {
        self.sorted[self.sorted.len() - 1]
    }

    /// The arithmetic mean of the values.
    pub fn mean(&self) -> f64 {
        self.sum / self.sorted.len() as f64
    }

    /// The middle value; for an even number of values the upper of the central two.
    pub fn median(&self) -> f64 {
        self.sorted[self.sorted.len() / 2]
    }

    /// Variance from the sum of squares: wrong, even negative, if the mean is much larger than the spread.
    pub fn variance(&self) -> f64 {
        let count = self.sorted.len() as f64;
        (self.squares - self.sum * self.sum / count) / (count - 1.0)
    }

    /// Standard deviation; not a number where the variance is negative.
    pub fn standard_deviation(&self) -> f64 {
        self.variance().sqrt()
    }
}

/// A difference that ministat reports as proven.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// The difference of the means, set minus reference.
    pub difference: f64,
    /// Half of the difference's confidence interval.
    pub error: f64,
    /// The standard deviation of both sets, pooled.
    pub pooled: f64,
}

/// Compares a set with the reference; `level` is an index of [`LEVELS`]. `None` if no difference is
/// proven.
pub fn relative(set: &Set, reference: &Set, level: usize) -> Option<Difference> {
    let (n1, n2) = (reference.count() as f64, set.count() as f64);
    let df = n1 + n2 - 2.0;
    let squares = (n2 - 1.0) * set.variance() + (n1 - 1.0) * reference.variance();
    let pooled = (squares / df).sqrt();
    let error =
        table(set.count() + reference.count() - 2, level) * (pooled * (1.0 / n2 + 1.0 / n1).sqrt());
    let difference = set.mean() - reference.mean();
    // Not proven either if the error is not a number.
    (difference.abs() > error).then_some(Difference { difference, error, pooled })
}

/// ministat's table of Student's t.
fn table(df: usize, level: usize) -> f64 {
    if let Some((_, entry)) = MISPRINTS.iter().find(|(row, _)| *row == df && level == 5) {
        return *entry;
    }
    let df = if df > TABLE_MAX { INFINITE } else { df as f64 };
    (t_enclosing(COLUMNS[level], df) * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_that_of_the_program() {
        let rows: [(usize, [f64; 6]); 7] = [
            (1, [3.078, 6.314, 12.706, 31.821, 63.657, 318.313]),
            (2, [1.886, 2.920, 4.303, 6.965, 9.925, 22.327]),
            (9, [1.383, 1.833, 2.262, 2.821, 3.250, 4.296]),
            (22, [1.321, 1.717, 2.074, 2.508, 2.819, 3.505]),
            (60, [1.296, 1.671, 2.000, 2.390, 2.660, 3.232]),
            (100, [1.290, 1.660, 1.984, 2.364, 2.626, 3.174]),
            (101, [1.282, 1.645, 1.960, 2.326, 2.576, 3.090]),
        ];
        for (df, row) in rows {
            for (level, entry) in row.into_iter().enumerate() {
                assert_eq!(table(df, level), entry, "df {df} level {level}");
            }
        }
    }

    #[test]
    fn its_faults_are_here() {
        let level = LEVELS.iter().position(|level| *level == 99.5).unwrap();
        assert_eq!(format!("{:.3}", t_enclosing(0.995, 22.0)), "3.119");
        assert_eq!(table(22, level), 3.505);
        // The exact standard deviation is 1.870829.
        let large = (1..=6).map(|value| 1e9 + f64::from(value)).collect();
        assert_eq!(Set::new(large).unwrap().standard_deviation(), 0.0);
        assert_eq!(Set::new(vec![1.0, 2.0, 3.0, 4.0]).unwrap().median(), 3.0);
        assert!(Set::new(vec![0.1; 3]).unwrap().standard_deviation().is_nan());
    }

    #[test]
    fn fewer_than_three_are_refused() {
        assert_eq!(Set::new(vec![1.0, 2.0]), None);
    }

    #[test]
    fn a_negative_variance_proves_nothing() {
        let constant = Set::new(vec![0.1; 3]).unwrap();
        let other = Set::new(vec![0.1 + 1e-17, 0.1, 0.1]).unwrap();
        assert_eq!(relative(&other, &constant, 2), None);
    }
}
