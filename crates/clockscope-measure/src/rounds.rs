//! Rounds of batches, one batch of every path in each, so that drift changes all paths alike.

use std::time::{Duration, Instant};

use super::batch::{self, Calibration};
use super::path::Path;
use clockscope_stats::gate::{Batch, BestControl, Speeds};

/// Conditions for the end of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundsPlan {
    /// A batch lasts at least this long, in nanoseconds.
    pub batch_ns: u64,
    /// Rounds that are made even if there are enough batches.
    pub rounds_min: u32,
    /// Rounds after which the measurement ends in any case.
    pub rounds_max: u32,
    /// Least duration, so that a short disturbance is not all that is seen.
    pub time_min: Duration,
    /// Enough batches: for each path this many, and at least half of all, pass the gate, ...
    pub accepted_min: u32,
    /// ... and no batch has beaten the cheapest one for this many rounds.
    pub unbeaten_min: u32,
    /// Time after which no round begins, unless a path has fewer than 10 batches that pass the gate; after
    /// three times as long none begins in any case.
    pub time_limit: Duration,
}

/// Batches of a path in a launch that say something of a disturbed machine.
const SCARCE: usize = 10;
/// See [`RoundsPlan::time_limit`].
const PATIENCE: u32 = 3;

/// Limit for a batch's control loops, as the share by which they may be slower than their level.
pub(crate) const GATE: f64 = 0.03;
/// Share by which a batch must be cheaper to beat the cheapest one.
const BEATEN_BY: f64 = 0.001;

/// A subject measured in batches: the real paths, or a test's double.
pub trait Measurable {
    /// Number of paths.
    fn paths(&self) -> usize;
    /// Finds the number of calls for a batch of at least `batch_ns`.
    fn calibrate(&mut self, path: usize, batch_ns: u64) -> Calibration;
    /// Measures one batch of a path.
    fn sample(&mut self, path: usize, calls: u64) -> Batch;
    /// Time since the start.
    fn elapsed(&self) -> Duration;
}

/// The paths of this process, and the start of their measurement.
pub struct Paths<'a> {
    paths: &'a [Path],
    start: Instant,
}

impl<'a> Paths<'a> {
    /// Starts the clock for the time limits.
    pub fn new(paths: &'a [Path]) -> Self {
        Self { paths, start: Instant::now() }
    }
}

impl Measurable for Paths<'_> {
    fn paths(&self) -> usize {
        self.paths.len()
    }

    fn calibrate(&mut self, path: usize, batch_ns: u64) -> Calibration {
        batch::calibrate(&self.paths[path].calling, batch_ns)
    }

    fn sample(&mut self, path: usize, calls: u64) -> Batch {
        batch::timed(&self.paths[path].calling, calls)
    }

    fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }
}

/// One batch of one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raw {
    /// Index of the path in the list that is measured.
    pub path: usize,
    /// Round of the batch, from 0.
    pub round: u32,
    /// The batch and its circumstances.
    pub sample: Batch,
}

/// All batches of a launch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// Every batch, in the order of measurement.
    pub batches: Vec<Raw>,
    /// Calls made for each path in total: for calibration, warm-up and batches.
    pub calls_made: Vec<u64>,
    /// Number of rounds.
    pub rounds: u32,
}

/// Measures in rounds until the plan is fulfilled. `between` gets the share done, 0 to 1, between two rounds;
/// an `Err` from it ends the measurement.
///
/// # Errors
///
/// The error of `between`.
pub fn run<E>(
    subject: &mut impl Measurable,
    plan: &RoundsPlan,
    mut between: impl FnMut(f64) -> Result<(), E>,
) -> Result<Measured, E> {
    let calibrations: Vec<Calibration> =
        (0..subject.paths()).map(|path| subject.calibrate(path, plan.batch_ns)).collect();
    let mut state = vec![State::default(); subject.paths()];
    let mut found = Measured {
        calls_made: calibrations.iter().map(|calibration| calibration.made).collect(),
        ..Measured::default()
    };
    for round in 0..plan.rounds_max {
        for place in 0..subject.paths() {
            // Odd rounds run backwards, so a path does not always follow the same one.
            let path = if round % 2 == 0 { place } else { subject.paths() - 1 - place };
            let calls = calibrations[path].calls;
            let sample = subject.sample(path, calls);
            state[path].note(sample, round);
            found.batches.push(Raw { path, round, sample });
            found.calls_made[path] += batch::warm_up_calls(calls) + calls;
        }
        let done = round + 1;
        found.rounds = done;
        let out_of_time = subject.elapsed() >= plan.time_limit
            && (subject.elapsed() >= plan.time_limit * PATIENCE
                || state.iter().all(|state| state.accepted() >= SCARCE));
        let may_end = done >= plan.rounds_min && subject.elapsed() >= plan.time_min;
        let enough = || state.iter().all(|state| state.is_enough(plan, round));
        if out_of_time || (may_end && enough()) {
            break;
        }
        between(share_done(plan, done, subject.elapsed()))?;
    }
    Ok(found)
}

/// Share of the work that is done: of the least number of rounds at first, of the time limit later.
fn share_done(plan: &RoundsPlan, rounds: u32, elapsed: Duration) -> f64 {
    let time = elapsed.as_secs_f64() / plan.time_limit.as_secs_f64().max(f64::MIN_POSITIVE);
    let rounds = f64::from(rounds) / f64::from(plan.rounds_min.max(1));
    time.max(rounds.min(1.0)).min(1.0)
}

/// The batches of a path so far.
#[derive(Clone, Debug, Default)]
struct State {
    batches: Vec<Batch>,
    cheapest_ns: Option<f64>,
    beaten_in: u32,
}

impl State {
    fn note(&mut self, batch: Batch, round: u32) {
        let cost = batch.call_ns();
        if self.cheapest_ns.is_none_or(|cheapest| cost < cheapest * (1.0 - BEATEN_BY)) {
            self.beaten_in = round;
        }
        self.cheapest_ns = Some(self.cheapest_ns.map_or(cost, |cheapest| cheapest.min(cost)));
        self.batches.push(batch);
    }

    /// How many batches pass the gate at the level in which most of them ran.
    fn accepted(&self) -> usize {
        let Some(best) = BestControl::of(&self.batches) else { return 0 };
        let mut speeds = Speeds::default();
        speeds.add(best, &self.batches);
        let level = speeds.level();
        self.batches.iter().filter(|batch| best.accepts(batch, level, GATE)).count()
    }

    fn is_enough(&self, plan: &RoundsPlan, round: u32) -> bool {
        round - self.beaten_in >= plan.unbeaten_min && {
            let accepted = self.accepted();
            accepted >= plan.accepted_min as usize && accepted * 2 >= self.batches.len()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A double with a clock of its own: `cost_ns` sets the time of each batch.
    struct Fake<F> {
        paths: usize,
        now: Duration,
        order: Vec<usize>,
        cost_ns: F,
    }

    impl<F: FnMut(usize, usize) -> (u64, u64)> Measurable for Fake<F> {
        fn paths(&self) -> usize {
            self.paths
        }
        fn calibrate(&mut self, path: usize, _: u64) -> Calibration {
            Calibration { calls: 100 << path, made: 7 }
        }
        fn sample(&mut self, path: usize, calls: u64) -> Batch {
            let (cost, control) = (self.cost_ns)(path, self.order.len());
            self.order.push(path);
            self.now += Duration::from_nanos(cost * calls);
            let (control_before_ns, control_after_ns) = (control, control);
            let ns = cost * calls;
            Batch { calls, ns, control_before_ns, control_after_ns, involuntary_switches: 0 }
        }
        fn elapsed(&self) -> Duration {
            self.now
        }
    }

    const PLAN: RoundsPlan = RoundsPlan {
        batch_ns: 1,
        rounds_min: 20,
        rounds_max: 1000,
        time_min: Duration::ZERO,
        accepted_min: 10,
        unbeaten_min: 5,
        time_limit: Duration::from_secs(10),
    };

    fn rounds_of(
        plan: &RoundsPlan,
        cost_ns: impl FnMut(usize, usize) -> (u64, u64),
    ) -> (usize, Vec<usize>, Vec<f64>) {
        let mut fake = Fake { paths: 3, now: Duration::ZERO, order: Vec::new(), cost_ns };
        let mut shares = Vec::new();
        let note = |share| -> Result<(), ()> {
            shares.push(share);
            Ok(())
        };
        let found = run(&mut fake, plan, note).unwrap();
        assert!(found.batches.chunks(3).enumerate().all(|(round, raws)| {
            raws.iter().all(|raw| usize::try_from(raw.round) == Ok(round))
        }));
        let rounds = found.batches.len() / 3;
        let made = u64::from(found.rounds) * (100 + 7) + 7;
        assert_eq!(found.calls_made[0], made, "calibration, batches of 100 and warm-ups of 7");
        (rounds, fake.order, shares)
    }

    #[test]
    fn every_other_round_goes_backwards() {
        let (rounds, order, shares) = rounds_of(&PLAN, |_, _| (20, 1000));
        assert_eq!(rounds, 20);
        assert_eq!(order[..9], [0, 1, 2, 2, 1, 0, 0, 1, 2]);
        assert_eq!(shares.len(), 19);
        assert!(shares.is_sorted() && shares.iter().all(|share| (0.0..=1.0).contains(share)));
    }

    #[test]
    fn it_goes_on_while_a_path_gets_cheaper() {
        let falling = |_: usize, made: usize| (2000 - 10 * u64::try_from(made.min(90)).unwrap(), 9);
        let (rounds, ..) = rounds_of(&PLAN, falling);
        assert_eq!(rounds, 36, "the cheapest batch is of round 30, unbeaten for 5");
    }

    #[test]
    fn it_goes_on_until_enough_batches_are_accepted() {
        let noisy = |_: usize, made: usize| (20, if (3..60).contains(&made) { 1500 } else { 1000 });
        assert_eq!(rounds_of(&PLAN, noisy).0, 38, "one round, and 18 after the first 20: half");
        let short = |_: usize, made: usize| (20, if made < 57 { 1000 } else { 1500 });
        assert_eq!(rounds_of(&PLAN, short).0, 20, "19 of 20");
        let plan = RoundsPlan { time_min: Duration::from_millis(1), ..PLAN };
        assert_eq!(rounds_of(&plan, |_, _| (20, 1000)).0, 72, "a round takes 14 us");
    }

    #[test]
    fn it_stops_when_the_time_is_over_or_the_rounds_are() {
        let mut never = 1_000_000_u64;
        let mut falling = move |_: usize, _: usize| {
            never -= 100;
            (never, 1000)
        };
        // A round has 700 calls of nearly a millisecond each.
        assert_eq!(rounds_of(&PLAN, &mut falling).0, 15);
        let plan = RoundsPlan { rounds_max: 7, ..PLAN };
        assert_eq!(rounds_of(&plan, &mut falling).0, 7);
        // A round takes 14 us; each control loop is of another length, but for one in twenty.
        let plan = RoundsPlan { time_limit: Duration::from_micros(300), ..PLAN };
        let disturbed = |_: usize, made: usize| {
            let made = u64::try_from(made).unwrap();
            (20, if made < 3 || made / 3 % 5 == 0 { 1000 } else { 2000 + made * 50 })
        };
        assert_eq!(rounds_of(&plan, disturbed).0, 46, "ten undisturbed ones");
        let never = |_: usize, made: usize| (20, 1000 + u64::try_from(made).unwrap() * 400);
        assert_eq!(rounds_of(&plan, never).0, 65, "three times as long");
    }

    #[test]
    fn it_stops_when_nobody_listens() {
        let mut fake =
            Fake { paths: 1, now: Duration::ZERO, order: Vec::new(), cost_ns: |_, _| (20, 1000) };
        assert_eq!(run(&mut fake, &PLAN, |_| Err("gone")), Err("gone"));
        assert_eq!(fake.order.len(), 1);
    }
}
