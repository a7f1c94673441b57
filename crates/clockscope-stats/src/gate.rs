//! The control gate: selects the undisturbed ones of many short batches.
//!
//! Each batch is bracketed by a control loop of pure user code. On a shared machine the disturbance is often invisible
//! to the guest (a busy sibling hyperthread). A slow control loop reveals it.
//!
//! A CPU with turbo has levels of speed, each for seconds. The batches of one level are comparable: those of the level in
//! which most batches ran.

use serde::{Deserialize, Serialize};

use crate::order;

/// One batch of calls between its two control loops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// Calls in the batch; at least 1.
    pub calls: u64,
    /// Time of the batch, in nanoseconds.
    pub ns: u64,
    /// Time of the control loop just before, in nanoseconds.
    pub control_before_ns: u64,
    /// Time of the control loop just after, in nanoseconds.
    pub control_after_ns: u64,
    /// Involuntary context switches during the batch.
    pub involuntary_switches: u64,
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
        let of = |batch: &Batch| (batch.control_before_ns, batch.control_after_ns);
        let best = batches.into_iter().map(of).reduce(|a, b| (a.0.min(b.0), a.1.min(b.1)));
        best.map(|(before_ns, after_ns)| Self { before_ns, after_ns })
    }

    /// For one path of a run whose best loop before a batch takes `before_ns`: the loop after its batches is as much
    /// slower as after most of them. The fastest loops of one path alone may be those of a moment in which no other path
    /// was measured.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a time of some us"
    )]
    pub fn of_path<'a>(before_ns: u64, batches: impl IntoIterator<Item = &'a Batch>) -> Self {
        let ratio =
            |batch: &Batch| batch.control_after_ns as f64 / batch.control_before_ns.max(1) as f64;
        let mut ratios: Vec<f64> = batches.into_iter().map(ratio).collect();
        ratios.sort_by(f64::total_cmp);
        // The middle of the bin that has most of them.
        let bin = |from: usize| from..ratios.partition_point(|ratio| *ratio <= ratios[from] * BIN);
        let fullest = (0..ratios.len()).map(bin).max_by_key(ExactSizeIterator::len);
        let factor = fullest.map_or(1.0, |bin| ratios[usize::midpoint(bin.start, bin.end - 1)]);
        Self { before_ns, after_ns: (before_ns as f64 * factor) as u64 }
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
/// Bins of a level.
const LEVEL: usize = 3;
/// Number of bins: a control loop slower than the best by 30 percent shows a disturbance and no level.
const BINS: usize = 27;

/// How many batches ran at which speed, by their control loops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Speeds([u32; BINS]);

impl Speeds {
    /// Adds the batches of a path, compared with these control loops.
    pub fn add<'a>(&mut self, best: BestControl, batches: impl IntoIterator<Item = &'a Batch>) {
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
        self.levels().next().unwrap_or(1.0)
    }

    /// The fullest level, and the others with at least a quarter as many batches: in another run one of them may be the
    /// fullest.
    pub fn levels(&self) -> impl Iterator<Item = f64> {
        let windows = self.0.windows(LEVEL).enumerate();
        let mut all: Vec<(usize, u32)> =
            windows.map(|(at, bins)| (at, bins.iter().sum())).filter(|(_, n)| *n > 0).collect();
        order::by_key(&mut all, |(_, batches)| std::cmp::Reverse(*batches));
        let enough = all.first().map_or(0, |(_, batches)| batches.div_ceil(4));
        let mut apart: Vec<usize> = Vec::new();
        for (at, batches) in all {
            if batches >= enough && apart.iter().all(|other| other.abs_diff(at) >= LEVEL) {
                apart.push(at);
            }
        }
        apart.into_iter().map(|at| BIN.powi(i32::try_from(at).unwrap_or(0)))
    }
}

/// The time of a run's control loops that one in a hundred does not exceed; `None` without any. The fastest one of all may
/// be that of a moment.
pub fn best_of_run(mut before_ns: Vec<u64>) -> Option<u64> {
    before_ns.sort_unstable();
    before_ns.get(before_ns.len() / 100).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(control_before_ns: u64, control_after_ns: u64) -> Batch {
        Batch { calls: 10, ns: 220, control_before_ns, control_after_ns, involuntary_switches: 0 }
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
        speeds.add(BestControl::of(&batches).unwrap(), &batches);
        let level = speeds.level();
        assert!((1.02..=1.04).contains(&level), "{level}");
        let best = BestControl::of(&batches).unwrap();
        let kept = batches.iter().filter(|batch| best.accepts(batch, level, 0.03)).count();
        assert_eq!(kept, 300);
        let mut speeds = Speeds::default();
        let batches: Vec<Batch> = at(1.0, 9).chain(at(1.1, 9)).chain(at(1.2, 2)).collect();
        speeds.add(BestControl::of(&batches).unwrap(), &batches);
        assert!((speeds.level() - 1.0).abs() < 1e-9, "of equal levels the fastest");
        assert_eq!(speeds.levels().count(), 2, "the third has less than a quarter as many");
        assert!((Speeds::default().level() - 1.0).abs() < 1e-9, "without batches too");
    }

    /// A path whose batches slow the loop behind them by 7 %, on a machine that is disturbed in most of them.
    #[test]
    fn a_path_is_compared_with_the_loops_of_the_run() {
        let disturbed = (0..60).map(|n| batch(1100 + n * 9, 1100 + n * n % 700));
        let batches: Vec<Batch> = at(1.1, 25)
            .map(|at| batch(at.control_before_ns, at.control_before_ns * 107 / 100))
            .chain(disturbed)
            .collect();
        let best = BestControl::of_path(100_000, &batches);
        assert_eq!(best, BestControl { before_ns: 100_000, after_ns: 106_999 });
        let mut speeds = Speeds::default();
        speeds.add(best, &batches);
        assert!((1.08..1.1).contains(&speeds.level()), "{}", speeds.level());
        assert_eq!(batches.iter().filter(|b| best.accepts(b, speeds.level(), 0.03)).count(), 25);
        assert_eq!(best_of_run((0..200).collect()), Some(2));
    }

    #[test]
    fn no_batches_have_no_best_control() {
        assert_eq!(BestControl::of(&[]), None);
        assert_eq!(best_of_run(Vec::new()), None);
        let none = BestControl::of_path(7, &[]);
        assert_eq!((none.before_ns, none.after_ns), (7, 7));
    }

    #[test]
    fn the_time_of_a_call_is_a_fraction_of_the_batch() {
        assert_eq!(batch(1, 1).call_ns(), 22.0);
    }
}
