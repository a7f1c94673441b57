//! Waiting for a clock to answer by itself.

use std::time::Duration;

use super::{Clock, Source, Status};
use crate::clock_id::ClockId;
use crate::decline::Decline;
use crate::page::PageClock;
use crate::sys;

impl Clock {
    /// Blocks until the clock answers by itself, at most `at_most`, and returns its status. For
    /// programs that can spend 200 ms at their start to make reads in the first second cheap too.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let clock = fastclock::Clock::alone();
    /// let status = clock.calibrate(Duration::from_secs(1));
    /// // If this machine's kernel does not use the counter, the status has the reason.
    /// assert!(status.is_fast() || status.declined.is_some());
    /// ```
    pub fn calibrate(&self, at_most: Duration) -> Status {
        // Not the standard library's clock, which may be this clock itself.
        let now = || sys::now(ClockId::Monotonic);
        let begun = now();
        loop {
            let waited =
                Duration::from_nanos(now().0.saturating_sub(begun.0).max(0).unsigned_abs());
            let reason = self.slow(PageClock::Monotonic, false).declined;
            let hopeful = reason.is_some_and(|reason| self.may_pass(reason));
            if !hopeful || waited >= at_most {
                return self.status();
            }
            let left = at_most.saturating_sub(waited);
            std::thread::sleep(left.min(Duration::from_millis(5)));
        }
    }

    /// Whether a second or two of waiting can end this reason.
    fn may_pass(&self, reason: Decline) -> bool {
        let lasting = matches!(
            reason,
            Decline::NotInvariant
                | Decline::NoCounter
                | Decline::Forbidden
                | Decline::Clocksource
                | Decline::ClocksourceChanged
        );
        match self.source {
            Source::Alone => !lasting,
            Source::Page => reason == Decline::Starting,
            Source::Kernel => false,
        }
    }
}
