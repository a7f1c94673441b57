//! The standard normal distribution.

use super::bisect::first_not_below;
use super::special::erfc;

/// Returns the probability of a value below `z`.
#[must_use]
pub(crate) fn cdf(z: f64) -> f64 {
    0.5 * erfc(-z * std::f64::consts::FRAC_1_SQRT_2)
}

/// Returns the probability of a value above `z`, exact also where it is tiny.
#[must_use]
pub(crate) fn upper_tail(z: f64) -> f64 {
    cdf(-z)
}

/// Returns the value below which a share `p` (between 0 and 1) lies.
///
/// # References
///
/// A bracket from -40 to 40 halved to the last bit.
#[must_use]
pub fn quantile(p: f64) -> f64 {
    if p > 0.5 {
        return -quantile(1.0 - p);
    }
    first_not_below(-40.0, 0.0, |z| cdf(z) < p)
}

#[cfg(test)]
mod tests {
    use statrs::distribution::{ContinuousCDF as _, Normal};

    use super::*;

    #[test]
    fn cdf_and_quantile_agree_with_statrs() {
        let normal = Normal::standard();
        for z in [-8.0, -3.3, -1.0, 0.0, 0.2, 1.96, 5.0] {
            assert!((cdf(z) - normal.cdf(z)).abs() <= 1e-9 * normal.cdf(z), "{z}");
            assert!((upper_tail(z) - normal.sf(z)).abs() <= 1e-9 * normal.sf(z), "{z}");
        }
        for p in [1e-6, 0.025, 0.3, 0.5, 0.975, 0.995] {
            assert!((quantile(p) - normal.inverse_cdf(p)).abs() < 1e-9, "{p}");
        }
        assert!((quantile(0.975) - 1.959_963_984_540_054).abs() < 1e-13);
    }

    #[test]
    fn the_ends_are_finite() {
        assert!(quantile(0.0).is_finite() && quantile(1.0).is_finite());
    }
}
