//! Times of calls by buckets, as they lie in the shared pages.

use core::sync::atomic::AtomicU64;

/// Buckets of a [`Histogram`].
pub const BUCKETS: usize = 31 * SUB_BUCKETS;
/// Buckets in an octave.
pub const SUB_BUCKETS: usize = 16;

/// Times of the timed calls of one counter, in ticks, including what the timing itself costs.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Histogram {
    /// Number of timed calls.
    pub samples: AtomicU64,
    /// Sum of weights: about the number of calls that the timed ones stand for.
    pub weight: AtomicU64,
    /// Sum of the squares of the weights: how unequally the timed calls speak for the others.
    pub squared_weights: AtomicU64,
    /// Sum of ticks times weight.
    pub weighted_ticks: AtomicU64,
    /// The longest of the timed calls.
    pub max_ticks: AtomicU64,
    /// Weights by [`bucket_of`].
    pub buckets: [AtomicU64; BUCKETS],
}

/// The bucket of a time in ticks: exact below 32, then 16 buckets an octave.
#[must_use]
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

/// The smallest time in ticks that falls into a bucket.
#[must_use]
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
