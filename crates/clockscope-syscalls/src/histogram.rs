//! The log-linear buckets that `count.bpf.c` counts in: 16 an octave, exact below 32 ns.

/// The shortest time that falls into a bucket, in nanoseconds; the inverse of `bucket_of` in
/// `count.bpf.c`.
pub(super) fn lower_bound_ns(bucket: u32) -> u64 {
    if bucket < 16 {
        return u64::from(bucket);
    }
    let (octave, step) = (bucket / 16 - 1, u64::from(bucket % 16));
    (16 + step).checked_shl(octave).unwrap_or(u64::MAX)
}

/// A time less `bias_ps` picoseconds, rounded to nanoseconds, never negative.
pub(super) fn shifted(ns: u64, bias_ps: i64) -> u64 {
    let ps = i128::from(ns) * 1000 - i128::from(bias_ps);
    u64::try_from((ps.max(0) + 500) / 1000).unwrap_or(u64::MAX)
}

/// The buckets with each lower bound shifted by `bias_ps`; those that become equal are joined.
pub(super) fn correct(buckets: &[(u64, u64)], bias_ps: i64) -> Vec<(u64, u64)> {
    let mut corrected: Vec<(u64, u64)> = Vec::with_capacity(buckets.len());
    for &(lower_ns, calls) in buckets {
        let lower_ns = shifted(lower_ns, bias_ps);
        match corrected.last_mut() {
            Some(last) if last.0 == lower_ns => last.1 += calls,
            _ => corrected.push((lower_ns, calls)),
        }
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `bucket_of` of `count.bpf.c`, in Rust.
    fn bucket_of(ns: u64) -> u32 {
        if ns < 16 {
            return u32::try_from(ns).unwrap();
        }
        let log2 = ns.ilog2();
        (log2 - 3) * 16 + u32::try_from((ns >> (log2 - 4)) & 15).unwrap()
    }

    #[test]
    fn every_bucket_begins_where_the_kernel_begins_it() {
        for bucket in 0..=bucket_of(u64::MAX) {
            let lower = lower_bound_ns(bucket);
            assert_eq!(bucket_of(lower), bucket);
            if bucket > 0 {
                assert_eq!(bucket_of(lower - 1), bucket - 1);
            }
        }
    }

    #[test]
    fn a_bucket_is_at_most_a_sixteenth_wide() {
        for bucket in 16..bucket_of(u64::MAX) {
            let lower = lower_bound_ns(bucket);
            assert!((lower_bound_ns(bucket + 1) - lower) * 16 <= lower);
        }
    }

    #[test]
    fn correcting_keeps_every_call() {
        let buckets = [(0, 2), (3, 5), (9, 1), (100, 7)];
        for bias_ps in [-50_000, 0, 4_400, 4_600, 1_000_000] {
            let corrected = correct(&buckets, bias_ps);
            assert_eq!(corrected.iter().map(|bucket| bucket.1).sum::<u64>(), 15);
            assert!(corrected.is_sorted_by_key(|bucket| bucket.0));
        }
        assert_eq!(correct(&buckets, 4_600), vec![(0, 7), (4, 1), (95, 7)]);
        assert_eq!(correct(&buckets, -1_000), vec![(1, 2), (4, 5), (10, 1), (101, 7)]);
    }
}
