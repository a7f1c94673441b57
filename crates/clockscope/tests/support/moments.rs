//! Moments to kill something at, which shall be spread over its whole run.

use std::sync::atomic::{AtomicU64, Ordering};

/// No run is shorter, microseconds.
const SHORTEST: u64 = 1_000;

/// What a kill met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// clockscope was dead before the program began.
    BeforeStart,
    /// The program was running, and ended well without clockscope.
    Survived,
    /// The program had ended before, and clockscope had seen it.
    TooLate,
}

/// How long a run takes, as far as the kills until now have shown: what else the machine does may
/// change that at any time. For several threads that kill.
pub(crate) struct RunTime(AtomicU64);

impl RunTime {
    /// Begins with a guess, microseconds.
    pub(crate) fn about(micros: u64) -> Self {
        Self(AtomicU64::new(micros.max(SHORTEST)))
    }

    /// The guess of now, microseconds.
    pub(crate) fn micros(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// A kill at any moment of the guessed time has met this. Two of three moments are not too late
    /// in the long run.
    pub(crate) fn learn(&self, outcome: Outcome) {
        let now = self.micros();
        let next = if outcome == Outcome::TooLate { now - now / 8 } else { now + now / 16 };
        self.0.store(next.max(SHORTEST), Ordering::Relaxed);
    }
}

/// A seeded generator (`SplitMix64`), so that a failing moment can be tried again.
pub(crate) fn random(seed: u64) -> u64 {
    let mut mixed = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
