//! Moments for a kill, spread over the whole run of the killed program.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Lower limit of the estimated run time, microseconds.
const SHORTEST: u64 = 1_000;

/// State of the traced program when clockscope was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// clockscope was dead before the program began.
    BeforeStart,
    /// The program was running, and ended well without clockscope.
    Survived,
    /// The program and clockscope had ended before the kill.
    TooLate,
}

/// Estimated duration of a run, adjusted by each kill, because the load of the machine may change at any time. Shared
/// by several threads that kill.
pub(crate) struct RunTime(AtomicU64);

impl RunTime {
    /// Starts with an estimate, microseconds.
    pub(crate) fn about(micros: u64) -> Self {
        Self(AtomicU64::new(micros.max(SHORTEST)))
    }

    /// The present estimate, microseconds.
    pub(crate) fn micros(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Adjusts the estimate to the outcome of a kill. In the long run, two of three random moments within the estimate
    /// come before the program's end.
    pub(crate) fn learn(&self, outcome: Outcome) {
        let now = self.micros();
        let next = if outcome == Outcome::TooLate { now - now / 8 } else { now + now / 16 };
        self.0.store(next.max(SHORTEST), Ordering::Relaxed);
    }
}

/// Makes the kills 0 to `kills` by several workers at once; gives the outcomes.
pub(crate) fn by_workers(
    workers: usize,
    kills: u64,
    kill: impl Fn(u64) -> Outcome + Sync,
) -> Vec<Outcome> {
    let of_worker = |first: usize| (0..kills).skip(first).step_by(workers).map(&kill).collect();
    let of_worker: &(dyn Fn(usize) -> Vec<Outcome> + Sync) = &of_worker;
    thread::scope(|scope| {
        let start = |first| scope.spawn(move || of_worker(first));
        let workers: Vec<_> = (0..workers).map(start).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("no kill did harm")).collect()
    })
}

/// A seeded generator (`SplitMix64`), so that a kill that failed can be repeated.
pub(crate) fn random(seed: u64) -> u64 {
    let mut mixed = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
