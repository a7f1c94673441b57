//! The cost of a call, from a sample of timed calls. Pure.
//!
//! A timed call is sometimes interrupted: its thread loses the CPU, or waits for a page. That time is no cost of the
//! call. A timed call stands for many calls, and few of these were interrupted.

/// Minimum number of timed calls for an estimate. With fewer, a single call with cold caches or a lost CPU would decide
/// the result.
pub const TIMED_MIN: u64 = 16;
/// Maximum half width of the mean's 95 % interval, as a part of the mean; a wider interval gives no figure.
const WIDTH_MAX: f64 = 0.5;
/// The same for a total of system calls, which one long call can decide: a program under load loses its CPU in the middle
/// of some calls, and a few of those among the timed ones stand for many. A kernel's probe, which times all, counts the
/// same waits.
const TOTAL_WIDTH_MAX: f64 = 0.2;
/// Standard errors to each side that enclose 95 %.
const ERRORS: f64 = 1.96;
/// [`ERRORS`] if the standard error itself is estimated from three durations: Student's t with two degrees of freedom.
const ERRORS_OF_FEW: f64 = 4.303;
/// Minimum number of durations from which others are estimated.
const FEW_MIN: f64 = 3.0;
/// A call that took this many times as long as nearly all others was interrupted.
const INTERRUPTED: u64 = 16;
/// With fewer timed calls than this, 1 % of them is less than ten calls.
const MANY: u64 = 1_000;

/// Timed calls of about the same duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bin {
    /// The shortest duration in this bin, in the caller's unit.
    pub from: u64,
    /// The shortest duration beyond this bin.
    pub to: u64,
    /// Number of calls that the timed ones stand for.
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

/// The cost of a call, in the unit of the bins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeanCost {
    /// The mean of the calls that were not interrupted.
    pub mean: f64,
    /// Whether the mean is known well enough to be reported: at least [`TIMED_MIN`] calls, and a 95 % interval that
    /// ends within half of the mean.
    pub is_known: bool,
    /// Half of the 95 % interval. It covers only the random choice of the timed calls.
    pub half_width: f64,
}

/// The cost from `samples` timed calls in bins, in the order of their durations. `squares` is the sum of the squares of
/// their weights; `exact` is their weighted mean, used if no call was interrupted.
///
/// # References
///
/// Kish, Survey Sampling (1965), 11.7: calls of unequal weight carry as much information as `(sum of weights)^2 /
/// squares` calls of equal weight.
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

/// The shortest duration that counts as an interruption: [`INTERRUPTED`] times the 99th percentile or, with few timed
/// calls, times the 90th percentile or four medians, whichever is greater.
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

/// A part of all calls, with a random choice of timed calls within this part.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stratum {
    /// Calls.
    pub calls: f64,
    /// Number of timed calls.
    pub timed: f64,
    /// Sum of the timed calls' durations.
    pub sum: f64,
    /// Sum of the squared durations.
    pub squares: f64,
}

impl Stratum {
    fn with(self, other: &Self) -> Self {
        Self {
            calls: self.calls + other.calls,
            timed: self.timed + other.timed,
            sum: self.sum + other.sum,
            squares: self.squares + other.squares,
        }
    }

    /// Estimated total time of all its calls, and the variance of this estimate.
    fn total(&self) -> (f64, f64) {
        let mean = self.sum / self.timed;
        let unseen = (self.calls - self.timed).max(0.0);
        if unseen <= 0.0 {
            return (self.calls * mean, 0.0);
        }
        let variance = (self.squares - self.sum * mean).max(0.0) / (self.timed - 1.0);
        (self.calls * mean, self.calls * unseen * variance / self.timed)
    }
}

/// Total time of all calls, in the unit of the sums.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TotalCost {
    /// The estimate; exact if all calls were timed.
    pub total: f64,
    /// Half of the 95 % interval.
    pub half_width: f64,
    /// Whether the total is known well enough to be reported: all calls were timed; or at least [`TIMED_MIN`] or half
    /// of them were, with an interval that ends within a fifth of the total.
    pub is_known: bool,
}

/// Total time of calls that were timed in parts (strata). If one part has too few timed calls to estimate its other
/// calls, all parts are merged. `None` if no call was timed.
///
/// No duration is discarded as an interruption: the wait inside a system call is part of its time.
///
/// # References
///
/// Cochran, Sampling Techniques (1977), 5.3 and 5.4: the total of a stratified sample, and its variance.
pub fn total(strata: &[Stratum]) -> Option<TotalCost> {
    let all = strata.iter().fold(Stratum::default(), Stratum::with);
    if all.timed <= 0.0 {
        return None;
    }
    let is_enough = |part: &Stratum| part.timed >= part.calls || part.timed >= 2.0;
    let apart = strata.iter().all(is_enough);
    let parts = if apart { strata } else { &[all] };
    let parts = parts.iter().filter(|part| part.calls > 0.0);
    let (total, variance) =
        parts.map(Stratum::total).fold((0.0, 0.0), |sums, part| (sums.0 + part.0, sums.1 + part.1));
    let is_many = all.timed >= TIMED_MIN as f64;
    let half_width = variance.sqrt() * if is_many { ERRORS } else { ERRORS_OF_FEW };
    let is_enough = is_many || all.timed >= FEW_MIN && 2.0 * all.timed >= all.calls;
    let is_known = all.timed >= all.calls || is_enough && half_width <= TOTAL_WIDTH_MAX * total;
    Some(TotalCost { total, half_width, is_known })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(calls: u64, durations: &[f64]) -> Stratum {
        Stratum {
            calls: calls as f64,
            timed: durations.len() as f64,
            sum: durations.iter().sum(),
            squares: durations.iter().map(|duration| duration * duration).sum(),
        }
    }

    #[test]
    fn what_was_timed_as_a_whole_is_known_exactly() {
        let found = total(&[part(3, &[1.0, 2.0, 30.0]), Stratum::default()]);
        assert_eq!(found, Some(TotalCost { total: 33.0, half_width: 0.0, is_known: true }));
        assert_eq!(total(&[part(3, &[]), part(0, &[])]), None);
    }

    #[test]
    fn the_first_calls_stand_for_themselves_only() {
        // 16 slow calls at the beginning, and 6,400 calls with a hundred timed ones.
        let later: Vec<f64> = (0..100).map(|n| f64::from(9 + n % 3)).collect();
        let found = total(&[part(16, &[1000.0; 16]), part(6400, &later)]).expect("an estimate");
        assert!((found.total - (16_000.0 + 6400.0 * 9.99)).abs() < 1.0, "{found:?}");
        // 1.96 * 6400 * sqrt(0.6767 / 100 * (1 - 100 / 6400))
        assert!((found.half_width - 1023.7).abs() < 5.0, "{found:?}");
        assert!(found.is_known);
    }

    #[test]
    fn a_rare_long_call_that_was_timed_decides_nothing() {
        let mut later = vec![10.0; 99];
        later.push(100_000.0);
        let found = total(&[part(16, &[10.0; 16]), part(6400, &later)]).expect("an estimate");
        assert!(!found.is_known, "{found:?}");
    }

    #[test]
    fn a_part_of_which_none_was_timed_is_like_the_other() {
        let found = total(&[part(16, &[10.0; 16]), part(4, &[])]).expect("an estimate");
        assert_eq!((found.total, found.is_known), (200.0, true));
        let one = total(&[part(2, &[10.0])]).expect("an estimate");
        assert!(!one.is_known, "{one:?}");
    }

    #[test]
    fn most_of_few_calls_stand_for_the_others() {
        let most = total(&[part(8, &[10.0, 9.0, 11.0, 10.0, 12.0, 8.0, 10.0])]).expect("one");
        assert!(most.is_known && (most.total - 80.0).abs() < 1e-9, "{most:?}");
        let few = total(&[part(8, &[10.0, 9.0, 11.0])]).expect("one");
        assert!(!few.is_known, "{few:?}");
    }

    fn bins(calls: &[(u64, u64)]) -> (Vec<Bin>, f64) {
        let bin = |(at, weight): &(u64, u64)| Bin { from: *at, to: at + 1, weight: *weight };
        let weight: u64 = calls.iter().map(|(_, weight)| weight).sum();
        let sum: u64 = calls.iter().map(|(at, weight)| at * weight).sum();
        (calls.iter().map(bin).collect(), sum as f64 / weight.max(1) as f64)
    }

    /// The cost from timed calls that each stand for the same number of calls.
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
        // Twelve reads; the first one lost the CPU: an earlier version reported "602 us a read".
        let once = cost_of(&[(60, 10), (90, 1), (18_000_000, 1)], 12);
        assert!(!once.is_known, "{once:?}");
        assert!(!cost_of(&[(60, 15), (900, 1)], 16).is_known, "one of 16 decides");
        assert!(cost_of(&[(60, 1_500), (900, 100)], 1_600).is_known);
    }
}
