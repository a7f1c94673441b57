//! The control gate: selects the undisturbed ones of many short batches.
//!
//! Each batch is bracketed by a control loop of pure user code. On a shared machine the disturbance is often invisible
//! to the guest (a busy sibling hyperthread, a frequency change). A control loop slower than the best one seen reveals
//! it.

/// One batch of calls between its two control loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Thread that made the calls.
    pub thread: u32,
    /// Calls in the batch; at least 1.
    pub calls: u64,
    /// Time of the batch, in nanoseconds.
    pub ns: u64,
    /// Time of the control loop just before, in nanoseconds.
    pub control_before_ns: u64,
    /// Time of the control loop just after, in nanoseconds.
    pub control_after_ns: u64,
}

impl Batch {
    /// Returns the time of one call, in nanoseconds.
    pub fn call_ns(&self) -> f64 {
        self.ns as f64 / self.calls.max(1) as f64
    }
}

/// The fastest control loops seen. Each side has its own figure, because the batch leaves cache lines that slow the
/// loop after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BestControl {
    before_ns: u64,
    after_ns: u64,
}

impl BestControl {
    /// Returns the best of `batches`; `None` if there are none.
    pub fn of<'a>(batches: impl IntoIterator<Item = &'a Batch>) -> Option<Self> {
        batches.into_iter().fold(None, |best: Option<Self>, batch| {
            Some(Self {
                before_ns: best
                    .map_or(u64::MAX, |best| best.before_ns)
                    .min(batch.control_before_ns),
                after_ns: best.map_or(u64::MAX, |best| best.after_ns).min(batch.control_after_ns),
            })
        })
    }

    /// Whether both control loops of `batch` took at most `1 + tolerance` times the best.
    pub fn accepts(&self, batch: &Batch, tolerance: f64) -> bool {
        let within = |ns: u64, best: u64| ns as f64 <= best as f64 * (1.0 + tolerance);
        within(batch.control_before_ns, self.before_ns)
            && within(batch.control_after_ns, self.after_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(control_before_ns: u64, control_after_ns: u64) -> Batch {
        Batch { thread: 0, calls: 10, ns: 220, control_before_ns, control_after_ns }
    }

    #[test]
    fn a_batch_with_one_slow_control_loop_is_rejected() {
        let batches = [batch(1000, 1100), batch(1029, 1100), batch(1031, 1100), batch(1000, 1200)];
        let best = BestControl::of(&batches).unwrap();
        let kept: Vec<bool> = batches.iter().map(|batch| best.accepts(batch, 0.03)).collect();
        assert_eq!(kept, [true, true, false, false]);
    }

    #[test]
    fn each_side_is_compared_with_its_own_best() {
        let best = BestControl::of(&[batch(1000, 2000)]).unwrap();
        assert!(best.accepts(&batch(1000, 2000), 0.0));
        assert!(!best.accepts(&batch(1500, 1500), 0.03));
    }

    #[test]
    fn no_batches_have_no_best_control() {
        assert_eq!(BestControl::of(&[]), None);
    }

    #[test]
    fn the_time_of_a_call_is_a_fraction_of_the_batch() {
        assert_eq!(batch(1, 1).call_ns(), 22.0);
    }
}
