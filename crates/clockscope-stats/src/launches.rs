//! Whether two measurements differ by more than the spread between launches and between runs. Pure.
//!
//! A measurement has only a few launches, too few to estimate the spread between launches. So the launches of all paths
//! are pooled, as Smyth does for genes: the variance of a path is moved towards the common one and gains its degrees of
//! freedom.

use super::probability::t_two_sided;

/// Minimum spread between launches, in percent: placement in memory is random in each launch.
const LEAST_SPREAD: f64 = 0.3;
/// Assumed spread for a measurement with one launch only, in percent.
const ASSUMED_SPREAD: f64 = 1.0;
/// Degrees of freedom, and thereby the weight, of the common spread.
const COMMON_FREEDOM: f64 = 20.0;
/// Share of the paths whose spread does not exceed the common one. Some paths vary more than most, and it is unknown
/// which paths will in the next run.
const COMMON_RANK: f64 = 0.8;
/// Part of the distance from the cheapest batch to the median that may differ between two runs. That distance shows how
/// much the machine was disturbed, and the next run is disturbed differently.
const DISTURBANCE_PART: f64 = 0.25;

/// The launches of one path in two measurements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LaunchPair {
    /// How many launches each measurement has.
    pub counts: (usize, usize),
    /// Sum of the squared distances between the medians of the launches and the mean of their measurement, in percent
    /// squared.
    pub squares: f64,
    /// How far the median lies above the cheapest batch in each, in percent.
    pub above_cheapest: (f64, f64),
}

impl LaunchPair {
    /// From the medians of the launches; `None` if either measurement has no launch.
    pub fn of(base: &[f64], other: &[f64], above_cheapest: (f64, f64)) -> Option<Self> {
        if base.is_empty() || other.is_empty() {
            return None;
        }
        let squares = squares(base) + squares(other);
        Some(Self { counts: (base.len(), other.len()), squares, above_cheapest })
    }

    fn freedom(&self) -> f64 {
        (self.counts.0 + self.counts.1 - 2) as f64
    }

    /// The two-sided p of a change of this size (in percent) beyond an `effect` that does not matter, if the common
    /// spread between launches is `common` percent.
    pub fn p(&self, change: f64, effect: f64, common: f64) -> f64 {
        let least =
            if self.counts.0.min(self.counts.1) == 1 { ASSUMED_SPREAD } else { LEAST_SPREAD };
        let common = common.max(least);
        let freedom = COMMON_FREEDOM + self.freedom();
        let variance = (COMMON_FREEDOM * common.powi(2) + self.squares) / freedom;
        let (base, other) = (self.counts.0 as f64, self.counts.1 as f64);
        let (above_base, above_other) = self.above_cheapest;
        let between_runs =
            DISTURBANCE_PART.powi(2) * (above_base.max(0.0).powi(2) + above_other.max(0.0).powi(2));
        let error = (variance * (1.0 / base + 1.0 / other) + between_runs).sqrt();
        p_beyond(change.abs() - effect, error, freedom)
    }
}

/// The two-sided p of a difference that lies `beyond` the irrelevant range; `half` is half of its 95 % interval.
pub fn p_of_interval(beyond: f64, half: f64) -> f64 {
    p_beyond(beyond, half / 1.96, COMMON_FREEDOM)
}

fn p_beyond(beyond: f64, error: f64, freedom: f64) -> f64 {
    if beyond > 0.0 { t_two_sided(beyond / error, freedom).min(1.0) } else { 1.0 }
}

fn squares(medians: &[f64]) -> f64 {
    let mean = medians.iter().sum::<f64>() / medians.len() as f64;
    medians.iter().map(|median| ((median - mean) / mean * 100.0).powi(2)).sum()
}

/// The common spread between launches, in percent, from all paths; 0 if no path has two launches.
pub fn common_spread<'a>(pairs: impl IntoIterator<Item = &'a LaunchPair>) -> f64 {
    let several = pairs.into_iter().filter(|pair| pair.freedom() > 0.0);
    let mut spreads: Vec<f64> = several
        .map(|pair| (pair.squares / pair.freedom()).sqrt())
        .filter(|s| s.is_finite())
        .collect();
    spreads.sort_by(f64::total_cmp);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place")]
    let place = (spreads.len() as f64 * COMMON_RANK) as usize;
    spreads.get(place.min(spreads.len().saturating_sub(1))).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: (f64, f64) = (0.5, 0.5);

    #[test]
    fn launches_that_agree_prove_five_percent_and_ones_that_do_not_do_not() {
        let pair = LaunchPair::of(&[100.0, 100.2, 99.9], &[105.0, 105.1, 105.3], QUIET).unwrap();
        assert!(pair.p(5.0, 1.0, 0.2) < 1e-6, "{}", pair.p(5.0, 1.0, 0.2));
        assert!(pair.p(5.0, 1.0, 6.0) > 0.1, "where other paths differ by 6 percent");
        assert_eq!(pair.p(0.9, 1.0, 0.2), 1.0);
        let wide = LaunchPair::of(&[90.0, 110.0], &[95.0, 115.0], QUIET).unwrap();
        assert!(wide.p(5.0, 1.0, 0.2) > 0.1);
    }

    #[test]
    fn a_disturbed_machine_and_a_single_launch_ask_for_more() {
        let quiet = LaunchPair::of(&[100.0], &[110.0], QUIET).unwrap();
        assert!(quiet.p(10.0, 1.0, 0.0) < 0.001 && quiet.p(4.0, 1.0, 0.0) > 0.01);
        let disturbed = LaunchPair::of(&[100.0], &[110.0], (15.0, 20.0)).unwrap();
        assert!(disturbed.p(10.0, 1.0, 0.0) > 0.05);
        assert_eq!(LaunchPair::of(&[], &[1.0], QUIET), None);
    }

    #[test]
    fn the_common_spread_is_that_of_the_worse_paths() {
        let pair = |spread: f64| LaunchPair {
            counts: (2, 2),
            squares: spread.powi(2) * 2.0,
            above_cheapest: QUIET,
        };
        let pairs: Vec<LaunchPair> = (1..=10).map(|n| pair(f64::from(n))).collect();
        assert!((common_spread(&pairs) - 9.0).abs() < 1e-9);
        assert_eq!(common_spread(&[]), 0.0);
        let single = LaunchPair { counts: (1, 1), squares: 0.0, above_cheapest: QUIET };
        assert_eq!(common_spread(&[single]), 0.0);
    }
}
