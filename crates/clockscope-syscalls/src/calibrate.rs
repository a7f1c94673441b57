//! The cost of the probes, from batches of a cheap call timed without and with them.

use std::time::Duration;

/// The cost of a `getppid` with and without probes, in picoseconds per call; each the cheapest of many batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbeCost {
    /// The call before the probes were attached.
    pub untraced_ps: u64,
    /// The call of a thread that is not followed, with the probes attached: the cost for all other processes of this
    /// host.
    pub bystander_ps: u64,
    /// The call of a followed thread.
    pub traced_ps: u64,
    /// The call's duration from enter to exit as the probes measured it; `untraced_ps` if they take no times.
    pub span_ps: u64,
}

impl ProbeCost {
    /// Added cost of counting for a followed call, in picoseconds.
    pub fn per_call_ps(&self) -> u64 {
        self.traced_ps.saturating_sub(self.untraced_ps)
    }

    /// Added cost of counting for every call of other processes, in picoseconds.
    pub fn bystander_tax_ps(&self) -> u64 {
        self.bystander_ps.saturating_sub(self.untraced_ps)
    }

    /// Subtracted from each timed call so that a cheap call is reported at its untraced cost, in picoseconds. Negative
    /// if the way into the kernel and back, which the span does not cover, is longer than the probes' part of the span.
    pub fn bias_ps(&self) -> i128 {
        i128::from(self.span_ps) - i128::from(self.untraced_ps)
    }
}

/// Time of one call in a batch of `calls`, in picoseconds. Of several batches, the cheapest is one without an
/// interruption.
pub(super) fn per_call_ps(batch: Duration, calls: u32) -> u64 {
    let ps = batch.as_nanos() * 1000 / u128::from(calls.max(1));
    u64::try_from(ps).expect("a call takes no 213 days")
}

/// Time of one call between two states of a counter of calls and nanoseconds, in picoseconds;
/// `None` if no call was timed between them.
pub(super) fn span_ps(before: (u64, u64), after: (u64, u64)) -> Option<u64> {
    let calls = after.0.checked_sub(before.0)?;
    let ns = after.1.checked_sub(before.1)?;
    let ps = u128::from(ns) * 1000 / u128::from((calls > 0).then_some(calls)?);
    u64::try_from(ps).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_differences_that_stop_at_zero() {
        let cost = ProbeCost {
            untraced_ps: 94_000,
            bystander_ps: 93_000,
            traced_ps: 250_000,
            span_ps: 80_000,
        };
        assert_eq!(cost.per_call_ps(), 156_000);
        assert_eq!(cost.bystander_tax_ps(), 0);
        assert_eq!(cost.bias_ps(), -14_000);
    }

    #[test]
    fn batches_become_picoseconds_by_call() {
        assert_eq!(per_call_ps(Duration::from_nanos(25_600), 256), 100_000);
        assert_eq!(per_call_ps(Duration::from_nanos(1), 0), 1000);
        assert_eq!(span_ps((10, 1000), (266, 26_600)), Some(100_000));
        assert_eq!(span_ps((10, 1000), (10, 1000)), None);
    }
}
