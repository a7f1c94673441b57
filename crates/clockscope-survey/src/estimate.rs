//! Clock reads per second from samples, with an interval. Pure.

use clockscope_model::survey::Estimate;
use clockscope_stats::poisson::{self, ERRORS, NONE_MOST};

/// Systematic error of the method: a read costs less when it overlaps with the program's own work, and more with cold
/// caches. Compared with exact counts, the error was at most 8 %.
const SYSTEMATIC: f64 = 0.08;

/// The measured cost of a read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Time of one read that samples can see, in nanoseconds.
    pub read_ns: f64,
    /// Number of samples that the cost comes from.
    pub samples: u64,
}

impl Cost {
    /// From the samples of a thread that only read, and the number of its reads; `None` if there were too few samples.
    pub fn measured(samples: u64, time_ns: u64, reads: u64) -> Option<Self> {
        const LEAST: u64 = 5;
        (samples >= LEAST && reads > 0)
            .then(|| Self { read_ns: time_ns as f64 / reads as f64, samples })
    }

    /// Relative error of the estimate due to the error of the cost. The samples of a thread that only reads vary less
    /// than Poisson's distribution, by half or more.
    fn error(&self) -> f64 {
        ERRORS * 0.5 / (self.samples.max(1) as f64).sqrt()
    }
}

/// Reads per second from samples inside reads. They stand for `time_ns` of CPU time in a survey of `elapsed_ns`.
pub fn estimate(samples: u64, time_ns: u64, elapsed_ns: u64, cost: &Cost) -> Estimate {
    let per_second = time_ns as f64 / cost.read_ns / (elapsed_ns as f64 / 1e9);
    // The errors of chance, of the cost and of the method are independent of each other.
    let (low, high) = poisson::interval(samples as f64);
    let wrong = SYSTEMATIC.hypot(cost.error());
    let of_chance = |limit: f64| (limit / samples.max(1) as f64 - 1.0).abs();
    Estimate {
        per_second,
        low_per_second: per_second * (1.0 - of_chance(low).hypot(wrong)).max(0.0),
        high_per_second: per_second * (1.0 + of_chance(high).hypot(wrong)),
    }
}

/// The rate, in reads per second, from which a process is seen with a probability of 97.5 %.
pub fn visible_from(frequency_hz: f64, elapsed_ns: u64, cost: &Cost) -> f64 {
    NONE_MOST / (elapsed_ns as f64 / 1e9 * frequency_hz * cost.read_ns / 1e9)
}

/// A random period around `mean_ns`, within a tenth of it. Otherwise a program in step with the timer would always be
/// seen at the same place. `state` is any number but 0, and changes.
pub fn period_ns(mean_ns: u64, state: &mut u64) -> u64 {
    // Marsaglia's xorshift64 (2003).
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    let width = (mean_ns / 5).max(1);
    mean_ns - mean_ns / 10 + *state % width
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const COST: Cost = Cost { read_ns: 20.0, samples: 400 };

    #[test]
    fn a_tenth_of_a_cpu_in_reads_of_20_ns_is_5_million_a_second() {
        let found = estimate(100, 1_000_000_000, 10_000_000_000, &COST);
        assert!((found.per_second - 5e6).abs() < 1.0, "{found:?}");
        // For 100 events the interval is 81 to 122; the cost and the method may be wrong by 9 %.
        assert!((found.low_per_second / 5e6 - 0.7913).abs() < 0.001, "{found:?}");
        assert!((found.high_per_second / 5e6 - 1.2355).abs() < 0.001, "{found:?}");
    }

    #[test]
    fn few_samples_of_the_cost_widen_the_interval() {
        let width = |samples| {
            let found = estimate(1_000, 1_000_000_000, 1_000_000_000, &Cost { samples, ..COST });
            found.high_per_second - found.low_per_second
        };
        assert!(width(10) > 1.5 * width(1_000));
        assert_eq!(Cost::measured(4, 4_000_000, 100_000), None, "too few");
        let cost = Cost { read_ns: 20.0, samples: 10 };
        assert_eq!(Cost::measured(10, 10_000_000, 500_000), Some(cost));
        assert_eq!(Cost::measured(10, 10_000_000, 0), None);
    }

    #[test]
    fn what_is_visible_depends_on_time_and_frequency_alike() {
        let found = visible_from(99.0, 30_000_000_000, &Cost { read_ns: 22.0, ..COST });
        assert!((found - 56_500.0).abs() < 500.0, "{found}");
        let faster = visible_from(297.0, 10_000_000_000, &Cost { read_ns: 22.0, ..COST });
        assert!((found - faster).abs() < 1.0);
    }

    #[test]
    fn periods_differ_and_their_mean_is_the_one_wanted() {
        let mut state = 4711;
        let periods: Vec<u64> = (0..10_000).map(|_| period_ns(1_000_000, &mut state)).collect();
        assert!(periods.iter().all(|period| (900_000..1_100_000).contains(period)));
        let mean = periods.iter().sum::<u64>() / 10_000;
        assert!((995_000..1_005_000).contains(&mean), "{mean}");
    }

    proptest! {
        #[test]
        fn the_estimate_lies_in_its_interval(
            samples in 1..1_000_000_u64, period in 1..100_000_000_u64, elapsed in 1..1_000_000_000_000_u64,
            read_ns in 0.1..1e6_f64, of_cost in 5..10_000_u64,
        ) {
            let cost = Cost { read_ns, samples: of_cost };
            let found = estimate(samples, samples * period, elapsed, &cost);
            prop_assert!(found.per_second.is_finite());
            prop_assert!(found.low_per_second <= found.per_second && found.per_second <= found.high_per_second);
        }
    }
}
