//! The confidence interval of a share estimated from samples. Pure.

use super::poisson::ERRORS;

/// The 95 % interval of a proportion (0 to 1) that was `share` in `samples` samples, by Wilson's score. The interval is
/// never empty, even for shares of 0 and 1. From 0 to 1 if there are no samples.
///
/// # References
///
/// Wilson, Probable inference, the law of succession, and statistical inference (1927)
pub fn wilson(share: f64, samples: f64) -> (f64, f64) {
    if !(samples > 0.0 && share.is_finite()) {
        return (0.0, 1.0);
    }
    let share = share.clamp(0.0, 1.0);
    let squared = ERRORS * ERRORS;
    let whole = 1.0 + squared / samples;
    let centre = (share + squared / (2.0 * samples)) / whole;
    let variance = share * (1.0 - share) / samples + squared / (4.0 * samples * samples);
    let half = ERRORS * variance.sqrt() / whole;
    ((centre - half).max(0.0), (centre + half).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_the_literature() {
        // Newcombe, Two-sided confidence intervals for the single proportion (1998), table I, method 3.
        for (found, samples, low, high) in [
            (81.0, 263.0, 0.2553, 0.3662),
            (15.0, 148.0, 0.0624, 0.1605),
            (0.0, 20.0, 0.0, 0.1611),
            (1.0, 29.0, 0.0061, 0.1718),
        ] {
            let found = wilson(found / samples, samples);
            let off = (found.0 - low).abs().max((found.1 - high).abs());
            assert!(off < 6e-5, "{samples}: {found:?}");
        }
    }

    #[test]
    fn without_samples_nothing_is_known() {
        for (share, samples) in [(0.5, 0.0), (f64::NAN, 9.0), (0.5, f64::NAN), (0.0, -1.0)] {
            assert_eq!(wilson(share, samples), (0.0, 1.0));
        }
        assert!(wilson(1.0, 1_000.0).0 < 1.0);
    }
}
