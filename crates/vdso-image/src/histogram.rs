//! Histograms of call times, as they lie in the shared pages.

use core::sync::atomic::AtomicU64;

/// Buckets of a [`Histogram`].
pub const BUCKETS: usize = 31 * SUB_BUCKETS;
/// Buckets per octave.
pub const SUB_BUCKETS: usize = 16;

/// Times of the timed calls of one counter, in ticks, including the cost of the timing.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Histogram {
    /// Number of timed calls.
    pub samples: AtomicU64,
    /// Sum of the weights: an estimate of the number of calls.
    pub weight: AtomicU64,
    /// Sum of the squared weights: shows how unequal the weights are.
    pub squared_weights: AtomicU64,
    /// Sum of ticks times weight.
    pub weighted_ticks: AtomicU64,
    /// Ticks of the longest timed call.
    pub max_ticks: AtomicU64,
    /// Weights by [`bucket_of`].
    pub buckets: [AtomicU64; BUCKETS],
}

/// The bucket of a time in ticks: exact below 32 ticks, then 16 buckets per octave.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "all values are small by then")]
pub const fn bucket_of(ticks: u64) -> usize {
    if ticks < 2 * SUB_BUCKETS as u64 {
        return ticks as usize;
    }
    let octave = 63 - ticks.leading_zeros() as usize;
    let sub = (ticks >> (octave - 4)) as usize & (SUB_BUCKETS - 1);
    let index = (octave - 3) * SUB_BUCKETS + sub;
    if index < BUCKETS { index } else { BUCKETS - 1 }
}

/// The shortest time in a bucket, in ticks.
pub const fn bucket_start(bucket: usize) -> u64 {
    if bucket < 2 * SUB_BUCKETS {
        return bucket as u64;
    }
    let octave = bucket / SUB_BUCKETS + 3;
    let sub = bucket % SUB_BUCKETS;
    ((SUB_BUCKETS + sub) as u64) << (octave - 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_start_where_the_ones_before_end() {
        for bucket in 0..BUCKETS {
            assert_eq!(bucket_of(bucket_start(bucket)), bucket);
            if bucket > 0 {
                assert_eq!(bucket_of(bucket_start(bucket) - 1), bucket - 1);
            }
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }
}
