//! Age of a coarse clock's answers.

use std::thread;
use std::time::{Duration, Instant};

use super::bracket::{Bracket, usual_limit};
use super::source::Readable;
use clockscope_stats::distribution::Distribution;

/// Range of the random sleeps between idle samples, in microseconds: some are longer than a tick at 1,000 Hz,
/// and they do not follow the rhythm of any tick.
const SLEEP_US: (u64, u64) = (200, 3_000);
/// Brackets tried for one idle sample.
const TRIES: u32 = 4;
/// Number of brackets between two checks of the time.
const BATCH: u32 = 16;

/// Ages of the answers of one clock.
#[derive(Clone, Debug, Default)]
pub struct Staleness {
    /// Ages in nanoseconds, sampled without pause.
    pub busy: Distribution,
    /// Ages in nanoseconds, sampled at random moments after sleeps.
    pub idle: Distribution,
    /// Answers ahead of the reference.
    pub ahead: u64,
    /// The most that an answer was ahead, in nanoseconds.
    pub ahead_max_ns: u64,
}

impl Staleness {
    /// Adds a bracket if it is tight; returns whether it was.
    fn add(&mut self, bracket: &Bracket, limit: i64, is_idle: bool) -> bool {
        if !bracket.is_tight(limit) {
            return false;
        }
        if bracket.value > bracket.after {
            self.ahead += 1;
            self.ahead_max_ns = self.ahead_max_ns.max(bracket.value.abs_diff(bracket.after));
        }
        let age = (bracket.middle() - bracket.value).max(0).cast_unsigned();
        let ages = if is_idle { &mut self.idle } else { &mut self.busy };
        ages.add(age);
        true
    }
}

/// A coarse clock and the precise clock of its family.
pub struct Coarse<'a> {
    /// The clock under test.
    pub clock: &'a Readable,
    /// The precise clock of the same family.
    pub reference: &'a Readable,
}

/// Samples one clock without pause.
pub(crate) fn measure_busy(into: &mut Staleness, pair: &Coarse<'_>, time: Duration) {
    let limit = usual_limit(pair.reference, pair.clock);
    let start = Instant::now();
    while start.elapsed() < time {
        for _ in 0..BATCH {
            into.add(&Bracket::take(pair.reference, pair.clock), limit, false);
        }
    }
}

/// Samples all clocks at random moments after sleeps: a sleeping CPU stops its tick.
pub(crate) fn measure_idle(into: &mut [Staleness], pairs: &[Coarse<'_>], time: Duration) {
    let limits: Vec<i64> =
        pairs.iter().map(|pair| usual_limit(pair.reference, pair.clock)).collect();
    let start = Instant::now();
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    while start.elapsed() < time {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let span = SLEEP_US.1 - SLEEP_US.0;
        thread::sleep(Duration::from_micros(SLEEP_US.0 + (random >> 33) % span));
        for ((pair, staleness), limit) in pairs.iter().zip(&mut *into).zip(&limits) {
            // The first bracket after a sleep is slow: the caches are cold.
            let _found = (0..TRIES)
                .any(|_| staleness.add(&Bracket::take(pair.reference, pair.clock), *limit, true));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_midpoints_of_tight_brackets() {
        let mut staleness = Staleness::default();
        let bracket = Bracket { before: 1_000, value: 400, after: 1_040, again: 1_060 };
        assert!(staleness.add(&bracket, 50, false));
        assert!(!staleness.add(&Bracket { after: 9_000, ..bracket }, 50, false));
        assert!(staleness.add(&Bracket { value: 1_045, ..bracket }, 50, true));
        assert_eq!((staleness.busy.count(), staleness.busy.max()), (1, 620));
        assert_eq!((staleness.idle.count(), staleness.idle.max()), (1, 0));
        assert_eq!((staleness.ahead, staleness.ahead_max_ns), (1, 5));
    }
}
