//! How long a counter must prove itself before its page answers. Pure.

use std::time::Duration;

use fastclock::Decline;

/// First penalty; doubled with each failure.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
/// A page that has answered for this many times the last penalty starts without penalty again.
const MADE_UP: u32 = 10;

/// The failures of the counter so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Time for which the counter must be right before its page answers again, in addition to the discipline's own
    /// baseline.
    pub(crate) fn penalty(&self) -> Duration {
        let doubled = |doublings: u32| (FIRST * (1_u32 << doublings)).min(LONGEST);
        self.failures.checked_sub(1).map_or(Duration::ZERO, doubled)
    }

    /// Records a failure of the counter, after its page had answered for this long.
    pub(crate) fn fail(&mut self, reason: Decline, answered: Duration) {
        if answered > (self.penalty() * MADE_UP).max(LONGEST) {
            self.failures = 0;
        }
        // A suspended machine is no fault of its counter.
        if reason != Decline::Suspended {
            self.failures = self.failures.saturating_add(1).min(10);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_doubles_the_time_up_to_a_minute() {
        let mut backoff = Backoff::default();
        let mut seconds = vec![backoff.penalty().as_secs()];
        for _ in 0..12 {
            backoff.fail(Decline::Jumped, Duration::from_secs(1));
            seconds.push(backoff.penalty().as_secs());
        }
        assert_eq!(seconds, [0, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60, 60]);
    }

    #[test]
    fn time_heals_and_sleep_is_no_failure() {
        let mut backoff = Backoff::default();
        for _ in 0..5 {
            backoff.fail(Decline::RateChanged, Duration::ZERO);
        }
        assert_eq!(backoff.penalty(), Duration::from_secs(16));
        backoff.fail(Decline::Suspended, Duration::from_secs(160));
        assert_eq!(backoff.penalty(), Duration::from_secs(16));
        backoff.fail(Decline::RateChanged, Duration::from_secs(161));
        assert_eq!(backoff.penalty(), Duration::from_secs(1));
        backoff.fail(Decline::Suspended, Duration::from_secs(61));
        assert_eq!(backoff.penalty(), Duration::ZERO);
    }
}
