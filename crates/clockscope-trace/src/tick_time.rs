//! Converts ticks of the counter to time, and subtracts the cost of timing.

use fastclock::{Scale, Ticks};

use clockscope_tracee::counts::{Times, Timings};
use clockscope_tracee::session::Session;

/// The cost of timing is known to within one in this many: of equal runs of `time()`, which takes a nanosecond, averages
/// between 0 and 1 ns were seen, with 20 ns subtracted.
const BRACKET_ERROR: u64 = 20;

/// Converts ticks of the CPU's counter to nanoseconds.
pub(crate) struct TickTime {
    pub scale: Scale,
    /// Cost of timing one call, in thousandths of a tick.
    bracket: u64,
}

impl TickTime {
    /// The present scale of the session, with the cost of timing for these timed calls.
    pub(crate) fn of(session: &Session, timings: &Timings) -> Self {
        Self { scale: session.scale(), bracket: session.bracket.beside(timings.empty) }
    }

    /// Cost of timing one call, in picoseconds.
    pub(crate) fn bracket_ps(&self) -> u64 {
        self.scale.to_picos(Ticks(self.bracket)).0 / 1_000
    }

    /// Time of a timed call in nanoseconds, less the cost of timing.
    pub(crate) fn nanos(&self, ticks: u64) -> u64 {
        let ticks = Ticks(ticks.saturating_sub(self.bracket.saturating_add(500) / 1_000));
        u64::try_from(self.scale.to_nanos(ticks).0).unwrap_or(0)
    }

    /// A fraction of ticks in picoseconds.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate, never negative"
    )]
    pub(crate) fn picos(&self, ticks: f64) -> u64 {
        if ticks >= 1e6 {
            return self.scale.to_picos(Ticks(ticks as u64)).0;
        }
        self.scale.to_picos(Ticks((ticks * 1e3) as u64)).0 / 1_000
    }

    /// Total time of `calls` calls in nanoseconds, and their average in picoseconds, less the cost of timing each.
    pub(crate) fn total(&self, ticks: f64, calls: u64) -> (u64, u64) {
        let mean = (ticks / calls.max(1) as f64 - self.bracket as f64 / 1e3).max(0.0);
        let average_ps = self.picos(mean);
        let total = u128::from(average_ps) * u128::from(calls) / 1_000;
        (u64::try_from(total).unwrap_or(u64::MAX), average_ps)
    }

    /// Ticks between two moments as nanoseconds.
    pub(crate) fn distance_ns(&self, ticks: Ticks) -> f64 {
        self.scale.to_nanos(ticks).0 as f64
    }

    /// Cost of a call in picoseconds, and the half-width of its interval, with the error of what is subtracted; `None`
    /// for the latter if too few calls were timed.
    pub(crate) fn cost_ps(&self, times: &Times) -> (u64, Option<u64>) {
        // Thousandths of a tick preserve the fraction of the average.
        let (milliticks, within) = times.cost_milliticks();
        let milliticks = milliticks.saturating_sub(self.bracket);
        let picos = |milliticks| self.scale.to_picos(Ticks(milliticks)).0 / 1000;
        let error = self.bracket / BRACKET_ERROR;
        (picos(milliticks), within.map(|within| picos(within.saturating_add(error))))
    }
}
