//! Order of successive readings on one CPU, and the steps between them.

use std::time::{Duration, Instant};

use super::source::Readable;
use clockscope_stats::resolution::StepAccount;

/// Number of readings in a burst.
pub const BURST: usize = 64;
/// Number of steps of a coarse clock wanted.
const COARSE_STEPS: u64 = 10;
/// Largest factor by which the time is extended to see them.
const LONGER: u32 = 10;
/// Readings kept on each side of a step back.
const AROUND: usize = 4;

/// Results of successive readings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadingOrder {
    /// Number of readings.
    pub reads: u64,
    /// Readings less than the previous one.
    pub backward: u64,
    /// The largest step back.
    pub worst: u64,
    /// The readings around the largest step back.
    pub burst: Vec<i64>,
    /// The steps forward, in the unit of the readings.
    pub steps: StepAccount,
}

impl ReadingOrder {
    /// Adds a burst. `before`, the last reading of the previous burst, is given if the step between the
    /// bursts counts.
    pub fn add(&mut self, readings: &[i64], before: Option<i64>) {
        self.reads += readings.len() as u64;
        if let (Some(before), Some(first)) = (before, readings.first()) {
            if *first >= before {
                self.steps.add(first.abs_diff(before));
            } else {
                self.step_back(before.abs_diff(*first), &[before, *first]);
            }
        }
        for at in 1..readings.len() {
            let (last, now) = (readings[at - 1], readings[at]);
            if now >= last {
                self.steps.add(now.abs_diff(last));
            } else {
                let around = at.saturating_sub(AROUND)..(at + AROUND).min(readings.len());
                self.step_back(last.abs_diff(now), &readings[around]);
            }
        }
    }

    fn step_back(&mut self, size: u64, around: &[i64]) {
        self.backward += 1;
        if size > self.worst {
            self.worst = size;
            self.burst = around.to_vec();
        }
    }
}

/// Reads `source` in bursts until the time is over. With `is_coarse`, steps between bursts count, too,
/// because a coarse clock seldom steps within one, and the time is extended up to ten times until there are
/// some.
///
/// # References
///
/// - `tools/testing/selftests/timers/inconsistency-check.c` (Linux 6.18)
pub fn measure(order: &mut ReadingOrder, source: &Readable, is_coarse: bool, time: Duration) {
    let mut readings = [0; BURST];
    let mut before = None;
    let start = Instant::now();
    loop {
        for reading in &mut readings {
            *reading = source();
        }
        order.add(&readings, before);
        before = is_coarse.then_some(readings[BURST - 1]);
        let elapsed = start.elapsed();
        let is_enough = !is_coarse || order.steps.count - order.steps.zeros >= COARSE_STEPS;
        if elapsed >= time && is_enough || elapsed >= time * LONGER {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_back_is_counted_with_the_readings_around_it() {
        let mut order = ReadingOrder::default();
        order.add(&[1, 2, 2, 9, 7, 8, 10, 11, 12, 13], None);
        order.add(&[14, 13, 14], Some(13));
        assert_eq!((order.reads, order.backward, order.worst), (13, 2, 2));
        assert_eq!(order.burst, [1, 2, 2, 9, 7, 8, 10, 11]);
        assert_eq!((order.steps.zeros, order.steps.min, order.steps.max), (1, 1, 7));
    }

    #[test]
    fn a_step_back_between_bursts_is_seen() {
        let mut order = ReadingOrder::default();
        order.add(&[5, 6], Some(9));
        assert_eq!((order.backward, order.worst, order.burst), (1, 4, vec![9, 5]));
    }
}
