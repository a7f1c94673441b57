//! Rate of sampling: about as many samples a second as asked for, within a small share of the programs'
//! processor time. Pure.

use std::time::Duration;

/// Share of the programs' processor time that sampling may take.
const SHARE: f64 = 0.02;
/// Time that sampling may take in addition, in nanoseconds, so short programs have samples too; and that of samples that
/// a process waits for, which cost more each.
const GRACE_NS: f64 = 3e6;
const HELD_GRACE_NS: f64 = 5e6;
/// The end of the program is not known in advance. So at first the rate falls with the time that has passed, and N rises with the
/// number of calls: whenever the end comes, the last samples do not stand for much more calls than the others. So many
/// seconds' worth of samples, or this share of the additional time, come in each stretch of time that is e times as long.
const EARLY_SECONDS: f64 = 0.3;
const EARLY_SHARE: f64 = 0.3;
/// Assumed cost of a sample until it is measured, in nanoseconds.
const COST_NS: f64 = 5_000.0;
/// A shorter time is not enough to compute a rate. Fewer samples than [`ENOUGH`] are not enough, either, before
/// [`PATIENCE`] is over; and then they change N as if [`ENOUGH`] others had come in the time in which they were due.
const SHORTEST: Duration = Duration::from_millis(2);
const ENOUGH: u64 = 16;
const PATIENCE: Duration = Duration::from_millis(25);
/// Largest factor by which N grows at a look. A sample drawn with a much larger N than its neighbours would
/// stand for more calls than all of them.
const GROWTH: f64 = 8.0;
/// [`GROWTH`] of a process that waits: few samples are affordable, and those of small N say little.
const HELD_GROWTH: f64 = 64.0;
/// Smallest factor: a program that is idle for a moment may be busy again at the next.
const SHRINKING: f64 = 0.5;
/// Largest N: at least one call in N passes the sample probe.
const ONE_IN_MAX: f64 = 16_384.0;

/// Changes since the last look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    /// Time since the last look.
    pub since: Duration,
    /// Samples taken since then, lost ones included.
    pub samples: u64,
    /// Whether the kernel paused sampling, because samples came too often.
    pub throttled: bool,
    /// Processor time of all programs up to now.
    pub cpu: Duration,
    /// Time from the start up to now.
    pub wall: Duration,
}

/// Assumed cost of a sample that a thread waits for, until it is measured, in nanoseconds.
const HELD_COST_NS: f64 = 150_000.0;
/// Largest rate of samples that a process waits for, a second.
const HELD_PER_SECOND: u32 = 100;
/// [`ENOUGH`] and [`PATIENCE`] of such a process.
const HELD_ENOUGH: u64 = 8;
const HELD_PATIENCE: Duration = Duration::from_millis(100);

/// Decides which share of the calls is sampled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    per_second: f64,
    /// Limit above which a sample's cost includes an interruption, in nanoseconds.
    cost_max_ns: f64,
    patience: Duration,
    grace_ns: f64,
    growth: f64,
    enough: u64,
    one_in: f64,
    /// Cost of all samples so far, in nanoseconds.
    pub(crate) spent_ns: f64,
    cost_ns: f64,
    /// Moment before the first samples, by the sampler's clock.
    begun: Option<Duration>,
    /// Time since the last look that was long enough.
    since: Duration,
    samples: u64,
}

impl Rate {
    /// Samples every call at first, later at most `per_second` calls a second.
    pub(crate) fn new(per_second: u32) -> Self {
        Self {
            per_second: per_second.into(),
            cost_max_ns: 100_000.0,
            patience: PATIENCE,
            grace_ns: GRACE_NS,
            growth: GROWTH,
            enough: ENOUGH,
            one_in: 1.0,
            spent_ns: 0.0,
            cost_ns: COST_NS,
            begun: None,
            since: Duration::ZERO,
            samples: 0,
        }
    }

    /// For a process whose threads wait for their samples: fewer samples, at a higher cost each.
    pub(crate) fn held(per_second: u32) -> Self {
        Self {
            per_second: per_second.min(HELD_PER_SECOND).into(),
            cost_max_ns: 5e6,
            patience: HELD_PATIENCE,
            grace_ns: HELD_GRACE_NS,
            growth: HELD_GROWTH,
            enough: HELD_ENOUGH,
            cost_ns: HELD_COST_NS,
            ..Self::new(per_second)
        }
    }

    /// For a forked process: the same N, and no cost yet.
    pub(crate) fn of_copy(self) -> Self {
        Self { spent_ns: 0.0, begun: None, since: Duration::ZERO, samples: 0, ..self }
    }

    /// N: one call in N is to be sampled.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to 16,384")]
    pub(crate) fn one_in(&self) -> u32 {
        self.one_in.round() as u32
    }

    /// Learns the cost of a sample.
    pub(crate) fn cost(&mut self, nanoseconds: f64) {
        // Time off the CPU is no cost of sampling.
        if (100.0..self.cost_max_ns).contains(&nanoseconds) {
            self.cost_ns += (nanoseconds - self.cost_ns) / 16.0;
        }
    }

    /// Adds the cost of `samples` samples.
    pub(crate) fn spend(&mut self, samples: u64) {
        self.spent_ns += samples as f64 * self.cost_ns;
    }

    /// Adapts N to the changes since the last look.
    pub(crate) fn look(&mut self, look: &Look) {
        self.spend(look.samples);
        self.since += look.since;
        self.samples += look.samples;
        if self.samples == 0 && self.begun.is_none() {
            self.since = Duration::ZERO;
            return;
        }
        let is_enough = self.samples >= self.enough && self.since >= SHORTEST;
        if !is_enough && self.since < self.patience && !look.throttled {
            return;
        }
        let since = self.since;
        let cpu_ns = look.cpu.as_nanos() as f64;
        let wall_seconds = look.wall.as_secs_f64().max(1e-3);
        let affordable = SHARE * cpu_ns / self.cost_ns / wall_seconds;
        let early =
            (self.per_second * EARLY_SECONDS).min(EARLY_SHARE * self.grace_ns / self.cost_ns);
        let begun = *self.begun.get_or_insert(look.wall.saturating_sub(since));
        let seconds = look.wall.saturating_sub(begun).as_secs_f64().max(1e-3);
        let mut wanted = self.per_second.min(affordable).max(early / seconds);
        if self.spent_ns > SHARE * cpu_ns + self.grace_ns {
            wanted /= 2.0;
        }
        let (seen, due) =
            (self.samples as f64, wanted.max(0.1) * self.since.as_secs_f64().max(1e-6));
        (self.since, self.samples) = (Duration::ZERO, 0);
        // A few samples more or less are chance, which must not change the weights.
        let unsure = if is_enough { 0.0 } else { self.enough as f64 };
        let mut factor = (seen + unsure) / (due + unsure);
        if look.throttled {
            factor = factor.max(2.0);
        }
        self.one_in = (self.one_in * factor.clamp(SHRINKING, self.growth)).clamp(1.0, ONE_IN_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates a program that uses `cpu_share` of a CPU and makes `calls_per_second` calls, for ten
    /// seconds; returns the samples a second of the last five.
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

    /// Simulates a program that makes a call every 150 us for `seconds`; returns the number of samples, and of samples of
    /// equal weight that say as much.
    fn effective(mut rate: Rate, seconds: f64) -> (f64, f64) {
        let (mut now, mut looked, mut samples, mut chance) = (0.0, 0.0, 0, 1_u64);
        let (mut all, mut weights, mut squares) = (0.0, 0.0, 0.0);
        while now < seconds {
            now += 150e-6;
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            if (chance >> 33).is_multiple_of(rate.one_in().into()) {
                let weight = f64::from(rate.one_in());
                all += 1.0;
                weights += weight;
                squares += weight * weight;
                samples += 1;
            }
            if now - looked >= 0.004 {
                rate.look(&Look {
                    since: Duration::from_secs_f64(now - looked),
                    samples: std::mem::take(&mut samples),
                    throttled: false,
                    cpu: Duration::from_secs_f64(now),
                    wall: Duration::from_secs_f64(now),
                });
                looked = now;
            }
        }
        (all, weights * weights / squares)
    }

    #[test]
    fn programs_of_any_length_have_samples_enough_that_weigh_the_same() {
        for (seconds, least) in [(0.009, 50.0), (0.03, 100.0), (0.1, 150.0), (0.3, 250.0)] {
            let (_, found) = effective(Rate::new(1_000), seconds);
            assert!(found >= least, "{seconds} s: {found:.0}");
        }
    }

    /// As on a loaded machine: some ten samples a second are affordable.
    #[test]
    fn few_samples_of_a_process_that_waits_weigh_about_the_same() {
        for seconds in [5.0, 10.0, 30.0] {
            let mut rate = Rate::held(1_000);
            rate.cost_ns = 1.5e6;
            let (all, found) = effective(rate, seconds);
            assert!(found >= all / 2.0, "{seconds} s: {all} samples say as much as {found:.0}");
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
            let spent = rate.spent_ns / 1e9;
            assert!(spent < 0.02 * 10.0 * share * 1.5 + 0.015, "{share}: {spent}");
        }
    }

    #[test]
    fn of_a_process_that_waits_few_are_wanted_and_soon() {
        let mut rate = Rate::held(1_000);
        let seen = run(&mut rate, 50_000.0, 1.0);
        assert!((60.0..140.0).contains(&seen), "{seen}");
        // Ten seconds at 100 a second, at 150 us each.
        assert!((0.05e9..0.25e9).contains(&rate.spent_ns), "{}", rate.spent_ns);
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
        rate.look(&look(2_000, 2_000));
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
