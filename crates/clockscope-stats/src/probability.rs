//! Probabilities of the normal distribution and of Student's t.
//!
//! The logarithm of the gamma function and the error function are those of `libm`. The incomplete beta function is our
//! own, because that of `statrs` ends after 140 terms, too few for the medians of some ten thousand samples.

use libm::{erfc, lgamma};

/// Relative error at which the continued fraction stops.
const EPSILON: f64 = 1e-16;
/// Stands in for zero in a denominator of a continued fraction.
const TINY: f64 = 1e-300;
/// Maximum number of terms of a continued fraction; far more than any argument needs.
const TERMS_MAX: u32 = 200_000;
/// From this many degrees of freedom on, the normal distribution of a transformed t is as exact as the incomplete beta
/// function.
const NORMAL_FROM: f64 = 1e6;

/// Returns the probability of a value below `z` in the standard normal distribution.
fn normal_cdf(z: f64) -> f64 {
    0.5 * erfc(-z * std::f64::consts::FRAC_1_SQRT_2)
}

/// Returns the value below which a share `p` (between 0 and 1) of the standard normal distribution
/// lies.
pub(crate) fn normal_quantile(p: f64) -> f64 {
    if p > 0.5 {
        return -normal_quantile(1.0 - p);
    }
    first_not_below(-40.0, 0.0, |z| normal_cdf(z) < p)
}

/// Returns the probability that t with `df` degrees of freedom is farther from zero than `t`, on
/// either side.
pub(crate) fn t_two_sided(t: f64, df: f64) -> f64 {
    if t.is_nan() || df.is_nan() {
        return f64::NAN;
    }
    if t.is_infinite() {
        return 0.0;
    }
    let square = t * t;
    if df >= NORMAL_FROM {
        let z = t.abs() * (1.0 - 0.25 / df) / (1.0 + square / (2.0 * df)).sqrt();
        return erfc(z * std::f64::consts::FRAC_1_SQRT_2);
    }
    incomplete_beta(df / 2.0, 0.5, df / (df + square), square / (df + square))
}

/// Returns the t of `df` degrees of freedom that encloses a share `confidence` (0 to 1, below 1)
/// between itself and its negative.
pub(crate) fn t_enclosing(confidence: f64, df: f64) -> f64 {
    let outside = 1.0 - confidence;
    let mut low = 0.0;
    let mut high = normal_quantile(0.5 + confidence / 2.0).max(1.0);
    while t_two_sided(high, df) > outside && high < 1e300 {
        low = high;
        high *= 2.0;
    }
    first_not_below(low, high, |t| t_two_sided(t, df) > outside)
}

/// Returns the regularised incomplete beta function I_x(a, b), for `a > 0`, `b > 0` and
/// `0 <= x <= 1`. `y` is `1 - x`, which the caller may know more exactly.
pub(crate) fn incomplete_beta(a: f64, b: f64, x: f64, y: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if y <= 0.0 {
        return 1.0;
    }
    let front = (lgamma(a + b) - lgamma(a) - lgamma(b) + a * x.ln() + b * y.ln()).exp();
    if x < (a + 1.0) / (a + b + 2.0) {
        front * beta_fraction(a, b, x) / a
    } else {
        1.0 - front * beta_fraction(b, a, y) / b
    }
}

/// The continued fraction of the incomplete beta function, by Lentz's method.
fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    let away_from_zero = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut fraction = d;
    for term in 1..TERMS_MAX {
        let m = f64::from(term);
        for numerator in [
            m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0)),
        ] {
            d = 1.0 / away_from_zero(1.0 + numerator * d);
            c = away_from_zero(1.0 + numerator / c);
            fraction *= c * d;
        }
        if (c * d - 1.0).abs() < EPSILON * 4.0 {
            break;
        }
    }
    fraction
}

/// The least value between `low` and `high`, to the last bit, at which `is_below` is false. `is_below` must be true up
/// to some point of the bracket and false from there on.
fn first_not_below(low: f64, high: f64, is_below: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (low, high);
    loop {
        let middle = f64::midpoint(low, high);
        if middle <= low || middle >= high {
            return high;
        }
        if is_below(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
}

#[cfg(test)]
mod tests {
    use statrs::distribution::{ContinuousCDF as _, Normal, StudentsT};
    use statrs::function::beta;

    use super::*;

    fn near(found: f64, expected: f64, relative: f64) {
        let error = (found - expected).abs();
        assert!(error <= relative * expected.abs().max(1e-290), "{found} is not {expected}");
    }

    #[test]
    fn the_incomplete_beta_function_agrees_with_statrs() {
        for a in [0.5, 1.0, 3.0, 17.5, 250.0] {
            for b in [0.5, 1.0, 4.0, 100.0] {
                for x in [0.0, 1e-6, 0.1, 0.5, 0.9, 0.999, 1.0] {
                    near(incomplete_beta(a, b, x, 1.0 - x), beta::beta_reg(a, b, x), 1e-10);
                }
            }
        }
    }

    #[test]
    fn cdf_and_quantile_agree_with_statrs() {
        let normal = Normal::standard();
        for z in [-8.0, -3.3, -1.0, 0.0, 0.2, 1.96, 5.0] {
            assert!((normal_cdf(z) - normal.cdf(z)).abs() <= 1e-9 * normal.cdf(z), "{z}");
        }
        for p in [1e-6, 0.025, 0.3, 0.5, 0.975, 0.995] {
            assert!((normal_quantile(p) - normal.inverse_cdf(p)).abs() < 1e-9, "{p}");
        }
        assert!((normal_quantile(0.975) - 1.959_963_984_540_054).abs() < 1e-13);
        assert!(normal_quantile(0.0).is_finite() && normal_quantile(1.0).is_finite());
    }

    #[test]
    fn tails_agree_with_statrs() {
        for df in [1.0, 2.5, 11.0, 30.76, 117.5, 5e3] {
            let student = StudentsT::new(0.0, 1.0, df).unwrap();
            for t in [0.0, 0.3, 1.0, 2.074, 4.5] {
                let expected = 2.0 * student.sf(t);
                assert!((t_two_sided(t, df) - expected).abs() < 1e-10, "{t} {df}");
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
            assert!((t_enclosing(confidence, df) - t).abs() < 0.000_5, "{confidence} {df}");
        }
        assert!((t_enclosing(0.95, 22.0) - 2.073_873).abs() < 5e-7);
    }

    #[test]
    fn many_degrees_of_freedom_join_without_a_step() {
        for t in [0.1, 1.0, 1.96, 4.0, 8.0] {
            let (below, above) = (t_two_sided(t, NORMAL_FROM - 1.0), t_two_sided(t, NORMAL_FROM));
            assert!((below / above - 1.0).abs() < 1e-7, "{t}: {below} {above}");
        }
    }

    #[test]
    fn what_is_not_a_number_stays_so() {
        assert!(t_two_sided(f64::NAN, 3.0).is_nan() && t_two_sided(1.0, f64::NAN).is_nan());
        assert_eq!(t_two_sided(f64::INFINITY, 3.0), 0.0);
    }

    #[test]
    fn the_root_is_found_to_the_last_bit() {
        let root = first_not_below(0.0, 2.0, |x| x * x < 2.0);
        assert!(root * root >= 2.0 && root.next_down().powi(2) < 2.0);
        assert_eq!(first_not_below(-1.0, 1.0, |_| true), 1.0);
    }
}
