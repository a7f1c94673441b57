//! The history of a page: how long it answered, and why it did not. Pure.

use std::time::Duration;

use fastclock::{Decline, Nanos};

/// A time in which the page did not answer, so that readers asked the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Withdrawal {
    /// The reason.
    pub reason: Decline,
    /// The duration.
    pub lasted: Duration,
}

/// Statistics of a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Lines that were published.
    pub lines: u64,
    /// Time in which the page answered.
    pub answered: Duration,
    /// The outages, the start included, in order; the last entry collects all beyond the limit.
    pub withdrawals: Vec<Withdrawal>,
    /// The largest bound that a reader can have got, in ns.
    pub worst_bound: u64,
    /// How often the kernel's clock was compared.
    pub looks: u64,
    /// Comparisons in which the page was further from the kernel's clock than its bound.
    pub outside_bound: u64,
    /// How often a line was published too late because the thread did not get its CPU.
    pub too_late: u64,
    /// CPU time of the timekeeper.
    pub cpu_time: Duration,
}

/// Maximum number of outages that are kept separately.
const WITHDRAWALS_MAX: usize = 1000;

#[derive(Clone, Debug)]
pub(crate) struct Availability {
    /// The statistics so far.
    pub report: Report,
    /// Why the page does not answer; `None` if it does.
    pub declined: Option<Decline>,
    since: Nanos,
}

impl Availability {
    /// Starts at this time of `CLOCK_MONOTONIC`. The page does not answer, or still answers from an earlier writer.
    pub(crate) fn new(now: Nanos, declined: Option<Decline>) -> Self {
        Self { report: Report::default(), declined, since: now }
    }

    /// Duration of the present state.
    pub(crate) fn lasted(&self, now: Nanos) -> Duration {
        Duration::from_nanos(now.0.saturating_sub(self.since.0).max(0).unsigned_abs())
    }

    /// From `now` on the page answers, or does not for this reason.
    pub(crate) fn turn(&mut self, declined: Option<Decline>, now: Nanos) {
        if declined == self.declined {
            return;
        }
        self.close(now);
        (self.declined, self.since) = (declined, now);
    }

    /// The report at the end.
    pub(crate) fn finish(mut self, now: Nanos) -> Report {
        self.close(now);
        self.report
    }

    fn close(&mut self, now: Nanos) {
        let lasted = self.lasted(now);
        let Some(reason) = self.declined else {
            self.report.answered += lasted;
            return;
        };
        let withdrawals = &mut self.report.withdrawals;
        let is_full = withdrawals.len() == WITHDRAWALS_MAX;
        match withdrawals.last_mut() {
            Some(last) if is_full => last.lasted += lasted,
            _ => withdrawals.push(Withdrawal { reason, lasted }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    #[test]
    fn each_time_is_accounted_for() {
        let mut availability = Availability::new(Nanos(0), Some(Decline::Starting));
        availability.turn(Some(Decline::Starting), Nanos(100 * MS));
        availability.turn(None, Nanos(200 * MS));
        availability.turn(None, Nanos(900 * MS));
        availability.turn(Some(Decline::Jumped), Nanos(1000 * MS));
        assert_eq!(availability.lasted(Nanos(1500 * MS)), Duration::from_millis(500));
        availability.turn(None, Nanos(2000 * MS));
        let report = availability.finish(Nanos(2300 * MS));
        assert_eq!(report.answered, Duration::from_millis(1100));
        let withdrawal = |reason, ms| Withdrawal { reason, lasted: Duration::from_millis(ms) };
        let expected = [withdrawal(Decline::Starting, 200), withdrawal(Decline::Jumped, 1000)];
        assert_eq!(report.withdrawals, expected);
    }

    #[test]
    fn a_restless_page_does_not_fill_the_memory() {
        let mut availability = Availability::new(Nanos(0), None);
        for turn in 0..5000 {
            let declined = (turn % 2 == 0).then_some(Decline::Jumped);
            availability.turn(declined, Nanos(turn * MS));
        }
        let report = availability.finish(Nanos(5000 * MS));
        assert_eq!(report.withdrawals.len(), WITHDRAWALS_MAX);
        let all: Duration = report.withdrawals.iter().map(|one| one.lasted).sum();
        assert_eq!(all + report.answered, Duration::from_millis(5000));
    }
}
