//! What the probes cost: decided from batches of a cheap call, timed without and with them.

use std::time::Duration;

/// What the probes cost a `getppid`, in picoseconds by call, each the cheapest of many batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbeCost {
    /// The call before the probes were there.
    pub untraced_ps: u64,
    /// The call of a thread that is not followed, while the probes are there: what everybody else
    /// on this host pays.
    pub bystander_ps: u64,
    /// The call of a followed thread.
    pub traced_ps: u64,
    /// What the probes said the call took, enter to exit; `untraced_ps` if they take no times.
    pub span_ps: u64,
}

impl ProbeCost {
    /// What counting adds to a followed call, in picoseconds.
    pub fn per_call_ps(&self) -> u64 {
        self.traced_ps.saturating_sub(self.untraced_ps)
    }

    /// What counting adds to every call of everybody else, in picoseconds.
    pub fn bystander_tax_ps(&self) -> u64 {
        self.bystander_ps.saturating_sub(self.untraced_ps)
    }

    /// What is taken off each timed call so that a cheap one is reported at its untraced cost, in
    /// picoseconds. Negative where the span lacks more (the way into the kernel and back) than the
    /// probes add to it.
    pub fn bias_ps(&self) -> i128 {
        i128::from(self.span_ps) - i128::from(self.untraced_ps)
    }
}

/// Time of one call in a batch of `calls`, in picoseconds; the cheapest of the batches is the one
/// that nothing interrupted.
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
