//! The control gate: selects the undisturbed ones of many short batches.
//!
//! Each batch is bracketed by a control loop of pure user code. On a shared machine the disturbance is often invisible
//! to the guest (a busy sibling hyperthread). A slow control loop reveals it.
//!
//! A CPU with turbo has levels of speed, each for seconds. The batches of one level are comparable: those of the level in
//! which most batches ran.

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

    /// Times of both control loops of `batch`, in multiples of the best.
    fn slowness(&self, batch: &Batch) -> [f64; 2] {
        [(batch.control_before_ns, self.before_ns), (batch.control_after_ns, self.after_ns)]
            .map(|(ns, best)| ns as f64 / best.max(1) as f64)
    }

    /// Whether both control loops of `batch` took `level` times the best, or longer by at most the share `tolerance`.
    pub fn accepts(&self, batch: &Batch, level: f64, tolerance: f64) -> bool {
        let range = level / BIN..=level * (1.0 + tolerance);
        self.slowness(batch).iter().all(|slowness| range.contains(slowness))
    }
}

/// Width of a bin of [`Speeds`].
const BIN: f64 = 1.01;
/// Number of bins: a control loop slower than the best by 30 percent shows a disturbance and no level.
const BINS: usize = 27;

/// How many batches ran at which speed, by their control loops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Speeds([u32; BINS]);

impl Speeds {
    /// Adds the batches of a path, compared with the best control loops of that path.
    pub fn add<'a>(&mut self, batches: impl IntoIterator<Item = &'a Batch> + Clone) {
        let Some(best) = BestControl::of(batches.clone()) else { return };
        for batch in batches {
            let [before, after] = best.slowness(batch);
            if before / BIN > after || after > before * BIN {
                continue; // the speed changed, or something disturbed the batch
            }
            let mut start = 1.0;
            for count in &mut self.0 {
                let end = start * BIN;
                *count += u32::from((start..end).contains(&before));
                start = end;
            }
        }
    }

    /// The level in which most batches ran, three bins wide: the time of its control loops in multiples of the best, 1 for
    /// the fastest level.
    pub fn level(&self) -> f64 {
        let (mut fullest, mut start) = ((0, 1.0), 1.0);
        for bins in self.0.windows(3) {
            let batches: u32 = bins.iter().sum();
            if batches > fullest.0 {
                fullest = (batches, start);
            }
            start *= BIN;
        }
        fullest.1
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
        let kept: Vec<bool> = batches.iter().map(|batch| best.accepts(batch, 1.0, 0.03)).collect();
        assert_eq!(kept, [true, true, false, false]);
    }

    #[test]
    fn each_side_is_compared_with_its_own_best() {
        let best = BestControl::of(&[batch(1000, 2000)]).unwrap();
        assert!(best.accepts(&batch(1000, 2000), 1.0, 0.0));
        assert!(!best.accepts(&batch(1500, 1500), 1.0, 0.03));
    }

    /// Batches at a level of speed, with control loops up to a percent longer.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
    fn at(level: f64, batches: usize) -> impl Iterator<Item = Batch> {
        let ns = move |batch: usize| (level * (1e5 + (batch % 10) as f64 * 100.0)) as u64;
        (0..batches).map(move |number| batch(ns(number), ns(number)))
    }

    #[test]
    fn the_level_in_which_most_batches_ran_counts() {
        let batches: Vec<Batch> =
            at(1.0, 50).chain(at(1.04, 300)).chain(at(1.13, 200)).chain(at(1.6, 900)).collect();
        let mut speeds = Speeds::default();
        speeds.add(&batches);
        let level = speeds.level();
        assert!((1.02..=1.04).contains(&level), "{level}");
        let best = BestControl::of(&batches).unwrap();
        let kept = batches.iter().filter(|batch| best.accepts(batch, level, 0.03)).count();
        assert_eq!(kept, 300);
        let mut speeds = Speeds::default();
        speeds.add(&at(1.0, 9).chain(at(1.1, 9)).collect::<Vec<_>>());
        assert!((speeds.level() - 1.0).abs() < 1e-9, "of equal levels the fastest");
        assert!((Speeds::default().level() - 1.0).abs() < 1e-9, "without batches too");
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
