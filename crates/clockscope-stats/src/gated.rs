//! The cost of a path from the batches of some launches: the gated median, its interval, and whether the launches
//! agree. Pure.

use super::gate::{Batch, BestControl};
use super::median::{self, MedianInterval};
use super::order;
use super::probability::t_enclosing;

/// Confidence of every interval.
pub const CONFIDENCE: f64 = 0.95;
/// At least this share of the batches must be accepted for [`Grade::Quiet`], ...
pub(crate) const QUIET_SHARE: f64 = 0.5;
/// ... and both ends of the interval must lie within this share of the median.
pub(crate) const QUIET_WIDTH: f64 = 0.02;
/// With fewer accepted batches the figures are [`Grade::Unusable`], ...
pub const USABLE_MIN: usize = 10;
/// ... or with less than this share of all.
pub(crate) const USABLE_SHARE: f64 = 0.01;
/// Least half-width of an interval, as a share: medians of runs of an idle machine differ by so much.
const LEAST_HALF_WIDTH: f64 = 2e-4;
/// How far the median of an equal run may lie elsewhere, as a share of the distance to the cheapest batch, which shows
/// how much the machine was disturbed; twice the standard deviation that eight idle runs had.
const DISTURBANCE_PART: f64 = 0.2;
/// Launches whose medians differ by more than this share are in different regimes, ...
pub(crate) const REGIME_SHARE: f64 = 0.05;
/// ... if they differ by this many nanoseconds too.
pub(crate) const REGIME_NS: f64 = 0.5;

/// How reliable the figures of a path are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    /// Most batches ran undisturbed, the median is known to 2 percent or better, and the cheapest batch was hardly
    /// cheaper.
    Quiet,
    /// The median covers the undisturbed batches only, or the cheapest batch was much cheaper.
    Noisy,
    /// Hardly any batch ran undisturbed, so the median covers all batches.
    Unusable,
}

impl Grade {
    /// The grade's name, as in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Quiet => "quiet",
            Self::Noisy => "noisy",
            Self::Unusable => "unusable",
        }
    }
}

/// The batches of one path in one launch, in the order of the rounds.
pub type Launch = Vec<Batch>;

/// The batches of a path that count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// For each launch and batch: whether the gate accepted it.
    pub accepted: Vec<Vec<bool>>,
    /// Too few batches were accepted; then all batches count.
    pub is_unusable: bool,
}

impl Gate {
    /// Compares the control loops of all batches with the `best` of the run at a `level` of speed
    /// ([`Speeds::level`](super::gate::Speeds::level)), so that a launch disturbed throughout is not its own standard. A
    /// batch that lost the CPU is not accepted either.
    pub fn of(launches: &[Launch], best: BestControl, (level, tolerance): (f64, f64)) -> Self {
        let accepts = |batch: &Batch| {
            batch.involuntary_switches == 0 && best.accepts(batch, level, tolerance)
        };
        let judged = |batches: &Launch| batches.iter().map(accepts).collect();
        let accepted: Vec<Vec<bool>> = launches.iter().map(judged).collect();
        let all: usize = launches.iter().map(Vec::len).sum();
        let some = accepted.iter().flatten().filter(|accepted| **accepted).count();
        let is_unusable = is_unusable(some, all);
        Self { accepted, is_unusable }
    }

    /// Whether a batch counts.
    pub fn counts(&self, launch: usize, batch: usize) -> bool {
        self.is_unusable || self.accepted[launch][batch]
    }
}

/// Whether too few of all batches were accepted; then all batches count.
pub fn is_unusable(accepted: usize, all: usize) -> bool {
    accepted < USABLE_MIN || (accepted as f64) < all as f64 * USABLE_SHARE
}

/// The figures of one launch of one path, in nanoseconds per call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LaunchSummary {
    /// The cost in the cheapest batch.
    pub min_ns: f64,
    /// Median of the batches that count; of all batches if none of this launch counts.
    pub median_ns: f64,
    /// How many batches were made.
    pub batches: usize,
    /// How many batches the gate accepted.
    pub accepted: usize,
}

/// The figures of one path, in nanoseconds per call.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// The cost in the cheapest batch.
    pub min_ns: f64,
    /// Median of the batches that count, with its interval.
    pub median: MedianInterval,
    /// 5th and 95th percentile of all batches.
    pub p5_p95_ns: (f64, f64),
    /// How many batches were made.
    pub batches: usize,
    /// How many batches the gate accepted.
    pub accepted: usize,
    /// How reliable the figures are.
    pub grade: Grade,
    /// Each launch by itself.
    pub launches: Vec<LaunchSummary>,
}

/// The figures of a path; `None` if there is no batch. `elsewhere` are the gates of other levels of speed that may be the
/// fullest in another run: the interval covers their medians, too.
pub fn summarize(launches: &[Launch], verdict: &Gate, elsewhere: &[Gate]) -> Option<Summary> {
    let mut all: Vec<f64> = launches.iter().flatten().map(Batch::call_ns).collect();
    all.sort_by(f64::total_cmp);
    let counting = counting(launches, verdict);
    let median = median::median_interval(&counting, CONFIDENCE)?;
    let usable = elsewhere.iter().filter(|gate| !verdict.is_unusable && !gate.is_unusable);
    let medians = usable.filter_map(|gate| median::median(&self::counting(launches, gate)));
    let apart = medians.map(|other| (other - median.median).abs()).fold(0.0, f64::max);
    let accepted = verdict.accepted.iter().flatten().filter(|accepted| **accepted).count();
    let by_launch: Vec<LaunchSummary> =
        (0..launches.len()).filter_map(|launch| of_launch(launches, verdict, launch)).collect();
    // A neighbour that hardly ever rests slows the control loops as well, so no batch is rejected. Its rare pauses show
    // in the cheapest batch.
    let cheapest = counting.iter().copied().min_by(f64::total_cmp)?;
    let above = median.median - cheapest;
    let judged = by_launch.iter().filter(|one| verdict.is_unusable || one.accepted > 0);
    let medians: Vec<f64> = judged.map(|launch| launch.median_ns).collect();
    let median = between_runs(median, &medians, (above * DISTURBANCE_PART).hypot(apart));
    let width = (median.high - median.median).max(median.median - median.low);
    let grade = if verdict.is_unusable {
        Grade::Unusable
    } else if (accepted as f64) < all.len() as f64 * QUIET_SHARE
        || width > median.median * QUIET_WIDTH
        || (above > cheapest * REGIME_SHARE && above > REGIME_NS)
    {
        Grade::Noisy
    } else {
        Grade::Quiet
    };
    Some(Summary {
        min_ns: all[0],
        median,
        p5_p95_ns: (percentile(&all, 5), percentile(&all, 95)),
        batches: all.len(),
        accepted,
        grade,
        launches: by_launch,
    })
}

/// Widens the interval of a median, which is that of independent batches, to what equal runs show: batches of one
/// launch depend on one another, and launches differ. The mean of the launches' `medians` has an interval of Student's
/// t; `disturbed` is how far another run's median may lie from this one's for other reasons, in the same unit.
fn between_runs(interval: MedianInterval, medians: &[f64], disturbed: f64) -> MedianInterval {
    let count = medians.len() as f64;
    let launches = if medians.len() < 2 {
        0.0
    } else {
        let mean = medians.iter().sum::<f64>() / count;
        let squares: f64 = medians.iter().map(|median| (median - mean).powi(2)).sum();
        t_enclosing(CONFIDENCE, count - 1.0) * (squares / (count - 1.0) / count).sqrt()
    };
    let least = interval.median * LEAST_HALF_WIDTH;
    let half = launches.hypot(disturbed).hypot(least);
    MedianInterval {
        low: interval.low.min(interval.median - half).max(0.0),
        high: interval.high.max(interval.median + half),
        ..interval
    }
}

/// Costs of all batches that count.
fn counting(launches: &[Launch], verdict: &Gate) -> Vec<f64> {
    (0..launches.len()).flat_map(|launch| costs(launches, verdict, launch)).collect()
}

/// Costs of the batches of a launch that count.
fn costs<'a>(
    launches: &'a [Launch],
    verdict: &'a Gate,
    launch: usize,
) -> impl Iterator<Item = f64> + 'a {
    let batches = launches[launch].iter().enumerate();
    batches
        .filter(move |(batch, _)| verdict.counts(launch, *batch))
        .map(|(_, batch)| batch.call_ns())
}

fn of_launch(launches: &[Launch], verdict: &Gate, launch: usize) -> Option<LaunchSummary> {
    let all: Vec<f64> = launches[launch].iter().map(Batch::call_ns).collect();
    let counting: Vec<f64> = costs(launches, verdict, launch).collect();
    Some(LaunchSummary {
        min_ns: all.iter().copied().min_by(f64::total_cmp)?,
        median_ns: median::median(&counting).or_else(|| median::median(&all))?,
        batches: all.len(),
        accepted: verdict.accepted[launch].iter().filter(|accepted| **accepted).count(),
    })
}

/// The value that `percent` of 100 values do not exceed.
fn percentile(sorted: &[f64], percent: usize) -> f64 {
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}

/// Launches with similar medians.
#[derive(Clone, Debug, PartialEq)]
pub struct Regime {
    /// Median of the launches' medians, in nanoseconds per call.
    pub median_ns: f64,
    /// Numbers of the launches, from 0.
    pub launches: Vec<usize>,
}

/// Groups of launches with similar medians, from the cheapest. One group if all launches agree; none if no launch has
/// enough accepted batches to be judged.
pub fn regimes(summary: &Summary) -> Vec<Regime> {
    let known = |launch: &LaunchSummary| launch.accepted >= USABLE_MIN;
    let mut medians: Vec<(f64, usize)> = summary
        .launches
        .iter()
        .enumerate()
        .filter(|(_, launch)| known(launch))
        .map(|(number, launch)| (launch.median_ns, number))
        .collect();
    order::by(&mut medians, |a, b| a.0.total_cmp(&b.0));
    let regime = |group: &[(f64, usize)]| {
        let medians: Vec<f64> = group.iter().map(|(median_ns, _)| *median_ns).collect();
        let mut launches: Vec<usize> = group.iter().map(|(_, number)| *number).collect();
        launches.sort_unstable();
        Some(Regime { median_ns: median::median(&medians)?, launches })
    };
    medians.chunk_by(|low, high| !is_apart(low.0, high.0)).filter_map(regime).collect()
}

fn is_apart(low_ns: f64, high_ns: f64) -> bool {
    high_ns > low_ns * (1.0 + REGIME_SHARE) && high_ns - low_ns > REGIME_NS
}

/// The cost of one path divided by that of another: the median of the quotients of the batches of the same rounds, if
/// both batches count. `minus_ns` is subtracted from each cost first.
///
/// `None` if no round has both.
pub fn ratio(
    of: (&[Launch], &Gate),
    to: (&[Launch], &Gate),
    minus_ns: f64,
) -> Option<MedianInterval> {
    let quotients = |everything: bool| -> Vec<Vec<f64>> {
        let of_launch = |(launch, (above, below)): (usize, (&Launch, &Launch))| {
            let counts =
                |round| everything || (of.1.counts(launch, round) && to.1.counts(launch, round));
            let rounds = above.iter().zip(below).enumerate();
            let counting = rounds.filter(|(round, _)| counts(*round)).map(|(_, batches)| batches);
            counting
                .map(|(above, below)| (above.call_ns() - minus_ns, below.call_ns() - minus_ns))
                .filter(|(_, divisor)| *divisor > 0.0)
                .map(|(above, below)| above / below)
                .collect()
        };
        of.0.iter().zip(to.0).enumerate().map(of_launch).collect()
    };
    let gated = quotients(false);
    let is_enough = gated.iter().map(Vec::len).sum::<usize>() >= USABLE_MIN;
    let quotients = if is_enough { gated } else { quotients(true) };
    let interval = median::median_interval(&quotients.concat(), CONFIDENCE)?;
    let medians: Vec<f64> = quotients.iter().filter_map(|launch| median::median(launch)).collect();
    Some(between_runs(interval, &medians, 0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(cost_ns: u64, control_ns: u64) -> Batch {
        Batch {
            calls: 100,
            ns: cost_ns * 100,
            control_before_ns: control_ns,
            control_after_ns: control_ns,
            involuntary_switches: 0,
        }
    }

    fn gate_at(launches: &[Launch], level: f64) -> Gate {
        let best = BestControl::of(launches.iter().flatten());
        let best = best.unwrap_or(BestControl::of_path(1, &[]));
        Gate::of(launches, best, (level, 0.03))
    }

    fn gate(launches: &[Launch]) -> Gate {
        gate_at(launches, 1.0)
    }

    fn summary(launches: &[Launch]) -> (Summary, Gate) {
        let verdict = gate(launches);
        (summarize(launches, &verdict, &[]).unwrap(), verdict)
    }

    fn quotient(above: &[Launch], below: &[Launch], minus_ns: f64) -> Option<MedianInterval> {
        ratio((above, &gate(above)), (below, &gate(below)), minus_ns)
    }

    /// A launch of `quiet` batches at `cost_ns` and `noisy` batches at 1.5 times that cost.
    fn launch(cost_ns: u64, quiet: usize, noisy: usize) -> Launch {
        let mut batches = vec![batch(cost_ns, 1000); quiet];
        batches.extend(vec![batch(cost_ns * 3 / 2, 1500); noisy]);
        batches
    }

    #[test]
    fn noise_that_the_control_loops_feel_does_not_reach_the_median() {
        let (found, verdict) = summary(&[launch(20, 60, 40), launch(20, 30, 70)]);
        assert_eq!((found.median.median, found.min_ns), (20.0, 20.0));
        assert_eq!((found.batches, found.accepted), (200, 90));
        assert_eq!((found.grade, verdict.is_unusable), (Grade::Noisy, false));
        assert_eq!(found.p5_p95_ns, (20.0, 30.0));
        assert_eq!(summary(&[launch(20, 60, 40)]).0.grade, Grade::Quiet);
    }

    #[test]
    fn a_cheapest_batch_far_below_the_median_is_noise() {
        for (cheapest_ns, grade) in [(20, Grade::Noisy), (29, Grade::Quiet)] {
            let mut batches = launch(30, 100, 0);
            batches[7] = batch(cheapest_ns, 1000); // a neighbour rested once
            assert_eq!(summary(&[batches]).0.grade, grade, "{cheapest_ns}");
        }
    }

    #[test]
    fn a_launch_that_was_slow_throughout_is_not_its_own_measure() {
        let slow = vec![batch(31, 1550); 100];
        let (found, verdict) = summary(&[launch(20, 100, 0), slow]);
        assert_eq!((found.median.median, found.accepted), (20.0, 100));
        assert!(verdict.accepted[1].iter().all(|accepted| !accepted));
        assert_eq!((found.launches[1].accepted, found.launches[1].median_ns), (0, 31.0));
        assert_eq!(regimes(&found).len(), 1, "it was disturbed, which is no regime");
    }

    #[test]
    fn batches_that_lost_the_cpu_are_left_out() {
        let mut batches = launch(20, 60, 0);
        batches[..10].iter_mut().for_each(|batch| batch.involuntary_switches = 1);
        assert_eq!(summary(&[batches]).0.accepted, 50);
    }

    #[test]
    fn the_interval_covers_a_level_that_another_run_may_be_at() {
        let mut batches = launch(20, 60, 0);
        batches.extend(vec![batch(21, 1060); 40]);
        let launches = [batches];
        let other = gate_at(&launches, 1.06);
        let found = summarize(&launches, &gate(&launches), &[other]).unwrap();
        assert_eq!(found.median.median, 20.0);
        assert!(found.median.high >= 21.0 && found.grade == Grade::Noisy, "{found:?}");
    }

    #[test]
    fn with_noise_all_the_time_everything_counts_and_is_called_unusable() {
        let (found, verdict) = summary(&[launch(20, 3, 997)]);
        assert_eq!(found.grade, Grade::Unusable);
        assert_eq!((found.median.median, found.accepted, found.batches), (30.0, 3, 1000));
        assert!(verdict.counts(0, 999));
        let (found, _) = summary(&[launch(20, 15, 1985)]);
        assert_eq!(found.grade, Grade::Unusable, "15 are enough by number but not by share");
    }

    #[test]
    fn a_wide_interval_is_not_quiet() {
        let scattered: Launch = (0..40).map(|n| batch(100 + n % 2 * 20, 1000)).collect();
        assert_eq!(summary(&[scattered]).0.grade, Grade::Noisy);
    }

    #[test]
    fn quiet_launches_that_differ_are_regimes() {
        let (found, _) = summary(&[
            launch(88, 50, 0),
            launch(103, 50, 9),
            launch(89, 50, 0),
            launch(104, 3, 50),
        ]);
        let groups = regimes(&found);
        assert_eq!(groups.len(), 2, "{groups:?}");
        assert_eq!(groups[0], Regime { median_ns: 88.5, launches: vec![0, 2] });
        assert_eq!(groups[1], Regime { median_ns: 103.0, launches: vec![1] });
    }

    #[test]
    fn less_than_half_a_nanosecond_is_no_regime() {
        assert!(!is_apart(2.0, 2.4));
        assert!(is_apart(2.0, 2.6));
        assert!(!is_apart(100.0, 104.9));
    }

    #[test]
    fn ratios_are_of_the_same_rounds() {
        // Both costs rise with time, by the same factor, so the quotient stays the same.
        let rising = |cost: u64| (0..50).map(|n| batch(cost * (10 + n), 1000)).collect::<Launch>();
        let (above, below) = ([rising(60)], [rising(10)]);
        let found = quotient(&above, &below, 0.0).unwrap();
        assert_eq!((found.median, found.samples), (6.0, 50));
        assert!(found.low < 6.0 && found.low > 5.99 && found.high > 6.0 && found.high < 6.01);
        assert!(quotient(&above, &below, 10.0).unwrap().median > 6.0);
        assert_eq!(quotient(&[], &below, 0.0), None);
    }

    #[test]
    fn a_rejected_batch_of_either_path_leaves_its_round_out() {
        let (mut above, below) = (launch(60, 40, 0), launch(10, 40, 0));
        above[7] = batch(600, 2000);
        let found = quotient(&[above], &[below], 0.0).unwrap();
        assert_eq!(found.samples, 39);
        assert!(found.high > 6.0 && found.high < 6.01, "{found:?}");
    }

    /// Runs of three launches whose placement makes each up to 3 % dearer or cheaper, with batches that scatter by 1 %.
    #[test]
    fn intervals_cover_from_run_to_run() {
        let mut state = 1_u64;
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 11) as f64 / (1_u64 << 53) as f64 * 2.0 - 1.0
        };
        let (mut held, mut held_by_batches) = (0, 0);
        for _ in 0..300 {
            let launches: Vec<Launch> = (0..3)
                .map(|_| {
                    let placed = 100_000.0 * (1.0 + 0.015 * (uniform() + uniform()));
                    #[expect(
                        clippy::cast_possible_truncation,
                        clippy::cast_sign_loss,
                        reason = "small"
                    )]
                    let mut cost = || (placed * (1.0 + 0.01 * uniform())) as u64;
                    (0..60).map(|_| batch(cost(), 1000)).collect()
                })
                .collect();
            let costs: Vec<f64> = launches.iter().flatten().map(Batch::call_ns).collect();
            let holds = |interval: MedianInterval| {
                usize::from(interval.low <= 100_000.0 && interval.high >= 100_000.0)
            };
            held += holds(summary(&launches).0.median);
            held_by_batches += holds(median::median_interval(&costs, CONFIDENCE).unwrap());
        }
        assert!(held >= 277, "{held} of 300: 95 %, less what chance takes in one of 40 tries");
        assert!(held_by_batches < 150, "{held_by_batches} of 300: the launches matter");
    }

    #[test]
    fn nothing_has_no_summary() {
        for launches in [&[] as &[Launch], &[vec![]]] {
            assert_eq!(summarize(launches, &gate(launches), &[]), None);
        }
    }
}
