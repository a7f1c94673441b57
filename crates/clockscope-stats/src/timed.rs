//! What a call costs, from some calls that were timed. Pure.
//!
//! A call that is timed is sometimes interrupted: its thread loses the CPU, or waits for a page. That
//! time is no cost of the call, and a timed call stands for many of which few were interrupted.

/// Fewer timed calls than this say nothing of what a call costs, and nothing of why: one that met
/// cold caches, or lost the CPU, would decide.
pub const TIMED_MIN: u64 = 16;
/// The mean must be known to this part of itself, at 95 %; a wider one is no figure.
const WIDTH_MAX: f64 = 0.5;
/// So many standard errors to each side have 95 % between them.
const ERRORS: f64 = 1.96;
/// A call that took so many times as long as nearly all others was interrupted.
const INTERRUPTED: u64 = 16;
/// With fewer timed calls than this, one in a hundred may be a single one.
const MANY: u64 = 1_000;

/// Timed calls of about the same duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bin {
    /// The shortest that is counted here, in the caller's unit.
    pub from: u64,
    /// The shortest that is no longer counted here.
    pub to: u64,
    /// Calls that the timed ones stand for.
    pub weight: u64,
}

impl Bin {
    /// Variance of durations that are spread evenly over the bin.
    fn variance(&self) -> f64 {
        (self.to.saturating_sub(1).saturating_sub(self.from) as f64).powi(2) / 12.0
    }

    fn middle(&self) -> f64 {
        let (from, to) = (self.from as f64, self.to as f64);
        (from + (to - 1.0).max(from)) / 2.0
    }
}

/// What a call costs, in the unit of the bins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeanCost {
    /// The mean of the calls that were not interrupted.
    pub mean: f64,
    /// Whether that is known well enough to be told: [`TIMED_MIN`] calls, and an interval of 95 %
    /// that ends within half of the mean.
    pub is_known: bool,
    /// Half of that interval. It covers the choice of the calls that were timed and nothing else.
    pub half_width: f64,
}

/// The cost by `samples` timed calls in bins, in the order of their durations; `squares` is the sum of the
/// squares of their weights, `exact` their weighted mean, which is used where no call was interrupted.
///
/// # References
///
/// Kish, Survey Sampling (1965), 11.7: calls of unequal weight say as much as `(sum of weights)^2 /
/// squares` of equal weight do.
pub fn cost(bins: &[Bin], samples: u64, squares: u64, exact: f64) -> MeanCost {
    let sum: f64 = bins.iter().map(|bin| bin.weight as f64).sum();
    let effective = (sum.powi(2) / squares.max(1) as f64).min(samples as f64).max(1.0);
    let longest = longest_usual(bins, samples);
    let usual = || bins.iter().filter(|bin| bin.weight > 0 && bin.from < longest);
    let weight: f64 = usual().map(|bin| bin.weight as f64).sum();
    if weight <= 0.0 {
        return MeanCost { mean: exact, is_known: false, half_width: f64::INFINITY };
    }
    let moment = |of: &dyn Fn(&Bin) -> f64| -> f64 {
        usual().map(|bin| bin.weight as f64 * of(bin)).sum::<f64>() / weight
    };
    let middle = moment(&Bin::middle);
    let variance = moment(&|bin| (bin.middle() - middle).powi(2) + bin.variance());
    let is_whole = bins.iter().all(|bin| bin.weight == 0 || bin.from < longest);
    let half_width = ERRORS * (variance / effective).sqrt();
    MeanCost {
        mean: if is_whole { exact } else { middle },
        is_known: samples >= TIMED_MIN && half_width <= WIDTH_MAX * middle,
        half_width,
    }
}

/// From this duration on a call was interrupted: far from what 99 of 100 took, or where there are few
/// timed calls, from what 9 of 10 and half of them took.
fn longest_usual(bins: &[Bin], samples: u64) -> u64 {
    let all: u128 = bins.iter().map(|bin| u128::from(bin.weight)).sum();
    let at = |percent: u128| {
        let mut below = 0;
        let found = bins.iter().filter(|bin| bin.weight > 0).find(|bin| {
            below += u128::from(bin.weight);
            below * 100 >= all * percent
        });
        found.map_or(u64::MAX, |bin| bin.to)
    };
    let typical = if samples < MANY { at(90).max(at(50).saturating_mul(4)) } else { at(99) };
    typical.saturating_mul(INTERRUPTED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bins(calls: &[(u64, u64)]) -> (Vec<Bin>, f64) {
        let bin = |(at, weight): &(u64, u64)| Bin { from: *at, to: at + 1, weight: *weight };
        let weight: u64 = calls.iter().map(|(_, weight)| weight).sum();
        let sum: u64 = calls.iter().map(|(at, weight)| at * weight).sum();
        (calls.iter().map(bin).collect(), sum as f64 / weight.max(1) as f64)
    }

    /// Of timed calls that stand for the same number of calls each.
    fn cost_of(calls: &[(u64, u64)], samples: u64) -> MeanCost {
        let (bins, exact) = bins(calls);
        let weight: u64 = bins.iter().map(|bin| bin.weight).sum();
        cost(&bins, samples, weight.pow(2) / samples.max(1), exact)
    }

    #[test]
    fn one_call_that_stands_for_a_quarter_of_all_decides_nothing() {
        // 1,054 reads: 50 were timed, the first for themselves, the last two for 256 reads each.
        let (bins, exact) = bins(&[(60, 798), (12_000_000, 256)]);
        let squares =
            32 + 2 * (2 * 2 + 4 * 4 + 8 * 8 + 16 * 16 + 32 * 32 + 64 * 64 + 128 * 128 + 256 * 256);
        assert!(!cost(&bins, 50, squares, exact).is_known);
        let (bins, exact) = self::bins(&[(60, 798), (70, 256)]);
        let quiet = cost(&bins, 50, squares, exact);
        assert!(quiet.is_known && (60.0..65.0).contains(&quiet.mean), "{quiet:?}");
    }

    #[test]
    fn one_preempted_read_among_few_is_no_cost_of_a_read() {
        for samples in [16, 48, 620, 4_000] {
            let found = cost_of(&[(60, 4_000), (70, 900), (12_000_000, 40)], samples);
            assert!(found.is_known && (60.0..65.0).contains(&found.mean), "{samples}: {found:?}");
        }
    }

    #[test]
    fn four_times_as_many_timed_calls_halve_the_interval() {
        let few = cost_of(&[(50, 100), (70, 100)], 200);
        let many = cost_of(&[(50, 400), (70, 400)], 800);
        assert!((few.half_width - 1.96 * 10.0 / 200_f64.sqrt()).abs() < 1e-9, "{few:?}");
        assert!((few.half_width / many.half_width - 2.0).abs() < 1e-9, "{many:?}");
        assert!(cost_of(&[(60, 900)], 900).half_width < 1e-9);
        assert!(cost_of(&[], 0).half_width.is_infinite());
    }

    #[test]
    fn two_speeds_are_both_costs_however_few_were_timed() {
        for samples in [48, 620, 4_000] {
            let found = cost_of(&[(60, 900), (3_000, 100)], samples);
            assert!((found.mean - 354.0).abs() < 1e-9, "{samples}: {found:?}");
        }
        let page = cost_of(&[(14, 1_500), (3_300, 500)], 200);
        assert!((page.mean - 835.5).abs() < 1e-9, "an hpet behind a clock page: {page:?}");
    }

    #[test]
    fn too_few_or_too_different_are_not_known() {
        assert!(!cost_of(&[(60, 15)], 15).is_known);
        assert!(cost_of(&[(60, 16)], 16).is_known);
        assert!(!cost_of(&[], 0).is_known);
        // Twelve reads, the first of which lost the CPU: "602 us a read" is what was said once.
        let once = cost_of(&[(60, 10), (90, 1), (18_000_000, 1)], 12);
        assert!(!once.is_known, "{once:?}");
        assert!(!cost_of(&[(60, 15), (900, 1)], 16).is_known, "one of 16 decides");
        assert!(cost_of(&[(60, 1_500), (900, 100)], 1_600).is_known);
    }
}
