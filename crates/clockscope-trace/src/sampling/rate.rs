//! How many calls to sample: about as many a second as were asked for, and never more than what a
//! small share of the programs' processor time pays for. Pure.

use std::time::Duration;

/// Share of the programs' processor time that sampling may take.
const SHARE: f64 = 0.02;
/// What it may take besides, in nanoseconds, so that short programs have samples too.
const GRACE_NS: f64 = 500_000.0;
/// A sample costs about this until it is known better, in nanoseconds.
const COST_NS: f64 = 5_000.0;
/// Samples of less time than this say nothing of a rate.
const SHORTEST: Duration = Duration::from_millis(2);
/// N grows at most so many times at a look. A sample that is drawn with a much larger N than those
/// around it would stand for more calls than all of them.
const GROWTH: f64 = 8.0;
/// One call in N at most passes the sample probe.
const ONE_IN_MAX: f64 = 16_384.0;

/// What happened since the last look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    /// How long ago that was.
    pub since: Duration,
    /// Samples taken in that time, those that were lost included.
    pub samples: u64,
    /// The kernel took none for a while, because they came too often.
    pub throttled: bool,
    /// Processor time of all programs until now.
    pub cpu: Duration,
    /// From the start until now.
    pub wall: Duration,
}

/// What a sample costs for which the thread waits until it is known better, in nanoseconds.
const HELD_COST_NS: f64 = 150_000.0;
/// Samples a second for which a process waits, at most.
const HELD_PER_SECOND: u32 = 100;
/// So few say nothing of a rate before this time has passed.
const HELD_SHORTEST: Duration = Duration::from_millis(100);
const HELD_ENOUGH: u64 = 8;

/// Keeps the rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    per_second: f64,
    /// What a sample may cost if it is not interrupted, in nanoseconds.
    cost_max_ns: f64,
    /// Less time than this says nothing, unless there were [`Self::enough`] samples.
    shortest: Duration,
    enough: u64,
    one_in: f64,
    spent_ns: f64,
    cost_ns: f64,
    /// Since the last look that was long enough.
    since: Duration,
    samples: u64,
}

impl Rate {
    /// Begins with every call, at most so many samples a second later.
    pub(crate) fn new(per_second: u32) -> Self {
        Self {
            per_second: per_second.into(),
            cost_max_ns: 100_000.0,
            shortest: SHORTEST,
            enough: u64::MAX,
            one_in: 1.0,
            spent_ns: 0.0,
            cost_ns: COST_NS,
            since: Duration::ZERO,
            samples: 0,
        }
    }

    /// For a process whose threads wait for their samples: fewer, that cost more.
    pub(crate) fn held(per_second: u32) -> Self {
        Self {
            per_second: per_second.min(HELD_PER_SECOND).into(),
            cost_max_ns: 5e6,
            shortest: HELD_SHORTEST,
            enough: HELD_ENOUGH,
            cost_ns: HELD_COST_NS,
            ..Self::new(per_second)
        }
    }

    /// For a copy of the process: as rare, and nothing spent yet.
    pub(crate) fn of_copy(self) -> Self {
        Self { spent_ns: 0.0, since: Duration::ZERO, samples: 0, ..self }
    }

    /// One call in how many is to be sampled.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to 16,384")]
    pub(crate) fn one_in(&self) -> u32 {
        self.one_in.round() as u32
    }

    /// What all samples have cost so far, in nanoseconds.
    pub(crate) fn spent_ns(&self) -> f64 {
        self.spent_ns
    }

    /// A sample has cost this much.
    pub(crate) fn cost(&mut self, nanoseconds: f64) {
        // Being taken off the CPU on the way is no cost of sampling.
        if (100.0..self.cost_max_ns).contains(&nanoseconds) {
            self.cost_ns += (nanoseconds - self.cost_ns) / 64.0;
        }
    }

    /// So many samples were taken.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub(crate) fn spend(&mut self, samples: u64) {
        self.spent_ns += samples as f64 * self.cost_ns;
    }

    /// Follows what happened.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub(crate) fn look(&mut self, look: &Look) {
        self.spend(look.samples);
        self.since += look.since;
        self.samples += look.samples;
        if self.since < self.shortest && self.samples < self.enough && !look.throttled {
            return;
        }
        let cpu_ns = look.cpu.as_nanos() as f64;
        let wall_seconds = look.wall.as_secs_f64().max(1e-3);
        let affordable = SHARE * cpu_ns / self.cost_ns / wall_seconds;
        let grace = GRACE_NS / self.cost_ns / wall_seconds;
        let mut wanted = self.per_second.min(affordable + grace);
        if self.spent_ns > SHARE * cpu_ns + GRACE_NS {
            wanted /= 4.0;
        }
        let seen = self.samples as f64 / self.since.as_secs_f64().max(1e-6);
        (self.since, self.samples) = (Duration::ZERO, 0);
        let mut factor = seen / wanted.max(0.1);
        if look.throttled {
            factor = factor.max(2.0);
        }
        // Down slowly: a program that is idle for a moment may be back with the next.
        self.one_in = (self.one_in * factor.clamp(0.7, GROWTH)).clamp(1.0, ONE_IN_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets a program that uses `cpu_share` of a CPU make calls that could be sampled, so many a
    /// second, for ten seconds; gives the samples of the last five, a second.
    fn run(rate: &mut Rate, calls_per_second: f64, cpu_share: f64) -> f64 {
        let step = 0.005;
        let (mut all, mut late, mut due) = (0.0, 0.0, 0.0);
        for turn in 1..=2_000 {
            due += calls_per_second * step / f64::from(rate.one_in());
            let samples = f64::floor(due);
            due -= samples;
            let now = f64::from(turn) * step;
            all += samples;
            late += if turn > 1_000 { samples } else { 0.0 };
            rate.look(&Look {
                since: Duration::from_secs_f64(step),
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "small"
                )]
                samples: samples as u64,
                throttled: false,
                cpu: Duration::from_secs_f64(now * cpu_share),
                wall: Duration::from_secs_f64(now),
            });
        }
        assert!(all > 0.0);
        late / 5.0
    }

    #[test]
    fn about_as_many_come_as_were_asked_for() {
        for calls in [2_000.0, 20_000.0, 200_000.0] {
            let seen = run(&mut Rate::new(1_000), calls, 1.0);
            assert!((700.0..1_300.0).contains(&seen), "{calls}: {seen}");
        }
    }

    #[test]
    fn of_few_calls_every_one_is_sampled() {
        let mut rate = Rate::new(1_000);
        assert!((run(&mut rate, 100.0, 1.0) - 100.0).abs() < 2.0);
        assert_eq!(rate.one_in(), 1);
    }

    #[test]
    fn a_program_that_sleeps_is_not_made_to_pay() {
        for share in [0.2, 0.05, 0.01] {
            let mut rate = Rate::new(100_000);
            run(&mut rate, 50_000.0, share);
            let spent = rate.spent_ns() / 1e9;
            assert!(spent < 0.02 * 10.0 * share * 1.5 + 0.015, "{share}: {spent}");
        }
    }

    #[test]
    fn of_a_process_that_waits_few_are_wanted_and_soon() {
        let mut rate = Rate::held(1_000);
        let seen = run(&mut rate, 50_000.0, 1.0);
        assert!((60.0..140.0).contains(&seen), "{seen}");
        // Ten seconds at 100 a second, at 150 us each.
        assert!((0.05e9..0.25e9).contains(&rate.spent_ns()), "{}", rate.spent_ns());
        assert!(run(&mut Rate::held(10), 50_000.0, 1.0) < 15.0);
    }

    #[test]
    fn two_looks_in_a_row_do_not_make_a_burst_of_it() {
        let mut rate = Rate::new(1_000);
        let look = |micros, samples| Look {
            since: Duration::from_micros(micros),
            samples,
            throttled: false,
            cpu: Duration::from_secs(1),
            wall: Duration::from_secs(1),
        };
        rate.look(&look(10, 10));
        assert_eq!(rate.one_in(), 1);
        rate.look(&look(9_990, 0));
        assert_eq!(rate.one_in(), 1);
        rate.look(&look(2_000, 1_000));
        assert_eq!(rate.one_in(), 8);
    }

    #[test]
    fn a_sample_that_was_interrupted_says_nothing_of_the_cost() {
        let mut rate = Rate::new(1);
        rate.cost(4e6);
        rate.cost(0.0);
        assert!((rate.cost_ns - COST_NS).abs() < 1e-9);
        (0..2_000).for_each(|_| rate.cost(3_000.0));
        assert!((rate.cost_ns - 3_000.0).abs() < 10.0);
    }
}
