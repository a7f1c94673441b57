//! Student's t distribution.

use super::bisect::first_not_below;
use super::special::incomplete_beta;
use super::{normal, special};

/// From this many degrees of freedom on the normal distribution of a transformed t is as exact as
/// the incomplete beta function.
const NORMAL_FROM: f64 = 1e6;

/// Returns the probability that t with `df` degrees of freedom is farther from zero than `t`, on
/// either side.
#[must_use]
pub(crate) fn two_sided(t: f64, df: f64) -> f64 {
    if t.is_nan() || df.is_nan() {
        return f64::NAN;
    }
    if t.is_infinite() {
        return 0.0;
    }
    let square = t * t;
    if df >= NORMAL_FROM {
        let z = t.abs() * (1.0 - 0.25 / df) / (1.0 + square / (2.0 * df)).sqrt();
        return special::erfc(z * std::f64::consts::FRAC_1_SQRT_2);
    }
    incomplete_beta(df / 2.0, 0.5, df / (df + square), square / (df + square))
}

/// Returns the t of `df` degrees of freedom that encloses a share `confidence` (0 to 1, below 1)
/// between itself and its negative.
#[must_use]
pub(crate) fn enclosing(confidence: f64, df: f64) -> f64 {
    let outside = 1.0 - confidence;
    let mut low = 0.0;
    let mut high = normal::quantile(0.5 + confidence / 2.0).max(1.0);
    while two_sided(high, df) > outside && high < 1e300 {
        low = high;
        high *= 2.0;
    }
    first_not_below(low, high, |t| two_sided(t, df) > outside)
}

#[cfg(test)]
mod tests {
    use statrs::distribution::{ContinuousCDF as _, StudentsT};

    use super::*;

    #[test]
    fn tails_agree_with_statrs() {
        for df in [1.0, 2.5, 11.0, 30.76, 117.5, 5e3] {
            let student = StudentsT::new(0.0, 1.0, df).unwrap();
            for t in [0.0, 0.3, 1.0, 2.074, 4.5] {
                let expected = 2.0 * student.sf(t);
                assert!((two_sided(t, df) - expected).abs() < 1e-10, "{t} {df}");
            }
        }
    }

    /// Quantiles of the published tables, to all their digits.
    #[test]
    fn quantiles_agree_with_the_published_table() {
        let table = [
            (0.95, 1.0, 12.706),
            (0.995, 1.0, 127.321),
            (0.995, 22.0, 3.119),
            (0.95, 22.0, 2.074),
            (0.8, 5.0, 1.476),
            (0.99, 100.0, 2.626),
            (0.998, 22.0, 3.505),
        ];
        for (confidence, df, t) in table {
            assert!((enclosing(confidence, df) - t).abs() < 0.000_5, "{confidence} {df}");
        }
        assert!((enclosing(0.95, 22.0) - 2.073_873).abs() < 5e-7);
    }

    #[test]
    fn many_degrees_of_freedom_join_without_a_step() {
        for t in [0.1, 1.0, 1.96, 4.0, 8.0] {
            let (below, above) = (two_sided(t, NORMAL_FROM - 1.0), two_sided(t, NORMAL_FROM));
            assert!((below / above - 1.0).abs() < 1e-7, "{t}: {below} {above}");
        }
    }

    #[test]
    fn what_is_not_a_number_stays_so() {
        assert!(two_sided(f64::NAN, 3.0).is_nan() && two_sided(1.0, f64::NAN).is_nan());
        assert_eq!(two_sided(f64::INFINITY, 3.0), 0.0);
    }
}
