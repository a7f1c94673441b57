//! One row of counts.

use clockscope_stats::histogram::LogLinear;

use super::calibrate::ProbeCost;
use super::names;

/// The buckets of distributions, 16 for each power of two, exact below 32 ns; the same as in `count.bpf.c`.
pub(super) const LAYOUT: LogLinear = LogLinear::new(4);

/// The table that a system call's number belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Abi {
    /// The architecture's 64-bit table; on x86-64 a number with bit 30 set belongs to x32.
    Native,
    /// The table of 32-bit programs, and of `int 0x80` in any program: other numbers with other meanings.
    Ia32,
}

/// The calls of one system call in one process or thread, or in all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyscallTally {
    /// Process id in the tracer's pid namespace; 0 for the whole tree.
    pub pid: i32,
    /// Thread id in the tracer's pid namespace; 0 unless threads are told apart.
    pub tid: i32,
    /// The table of the number.
    pub abi: Abi,
    /// The system call's number; [`SyscallTally::OTHER`] sums up numbers beyond the kernel's tables if there were too
    /// many of them.
    pub number: u32,
    /// Calls made, including calls that never return (`exit`, a killed `read`).
    pub calls: u64,
    /// Calls that `time_ns` covers: those that returned and were timed, and with ptrace also those in progress.
    pub timed: u64,
    /// Calls that returned -4095 to -1.
    pub errors: u64,
    /// Time from probe to probe of the timed calls, in nanoseconds; see [`SyscallTally::corrected_time_ns`].
    pub time_ns: u64,
    /// The longest timed call from probe to probe, in nanoseconds; 0 without a distribution.
    pub max_ns: u64,
    /// `(lower bound in nanoseconds, calls)` of each bucket with calls, in ascending order, from probe to probe; empty
    /// without a distribution. 16 buckets for each power of two.
    pub histogram: Vec<(u64, u64)>,
}

impl SyscallTally {
    /// Number for all numbers that could not be told apart.
    pub const OTHER: u32 = u32::MAX;

    /// A row without calls.
    pub fn new(pid: i32, tid: i32, abi: Abi, number: u32) -> Self {
        let histogram = Vec::new();
        let (calls, timed, errors, time_ns, max_ns) = (0, 0, 0, 0, 0);
        Self { pid, tid, abi, number, calls, timed, errors, time_ns, max_ns, histogram }
    }

    /// Adds the counts of another tally of the same call.
    pub fn absorb(&mut self, other: &Self) {
        self.calls += other.calls;
        self.timed += other.timed;
        self.errors += other.errors;
        self.time_ns = self.time_ns.saturating_add(other.time_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        for (lower_ns, calls) in &other.histogram {
            self.distribute(*lower_ns, *calls);
        }
    }

    /// Adds calls to the bucket that begins at `lower_ns`.
    pub(super) fn distribute(&mut self, lower_ns: u64, calls: u64) {
        match self.histogram.binary_search_by_key(&lower_ns, |(lower, _)| *lower) {
            Ok(at) => self.histogram[at].1 += calls,
            Err(at) => self.histogram.insert(at, (lower_ns, calls)),
        }
    }

    /// The sort key of rows.
    pub(super) fn place(&self) -> (i32, i32, Abi, u32) {
        (self.pid, self.tid, self.abi, self.number)
    }

    /// The system call's name: `syscall_N` if the number has none, `ia32_N` for 32-bit calls,
    /// `other` for [`SyscallTally::OTHER`].
    pub fn name(&self) -> String {
        match self.abi {
            _ if self.number == Self::OTHER => "other".to_string(),
            Abi::Native => names::name(self.number),
            Abi::Ia32 => format!("ia32_{}", self.number),
        }
    }

    /// Time of the timed calls without the cost of the probes, in nanoseconds, never negative: from probe to probe,
    /// minus the calibrated part of the probes.
    pub fn corrected_time_ns(&self, cost: &ProbeCost) -> u64 {
        to_u64(i128::from(self.time_ns) - cost.bias_ps() * i128::from(self.timed) / 1000)
    }

    /// Corrected mean time of the timed calls, in picoseconds; 0 if no call was timed.
    pub fn corrected_average_ps(&self, cost: &ProbeCost) -> u64 {
        let average_ps = (i128::from(self.time_ns) * 1000).checked_div(self.timed.into());
        average_ps.map_or(0, |average_ps| to_u64(average_ps - cost.bias_ps()))
    }

    /// The longest timed call, corrected, in nanoseconds.
    pub fn corrected_max_ns(&self, cost: &ProbeCost) -> u64 {
        shifted(self.max_ns, cost.bias_ps())
    }

    /// The distribution with every lower bound corrected; bounds that would be negative are 0.
    pub fn corrected_histogram(&self, cost: &ProbeCost) -> Vec<(u64, u64)> {
        correct(&self.histogram, cost.bias_ps())
    }
}

/// The number, limited to the range of `u64`.
fn to_u64(number: i128) -> u64 {
    u64::try_from(number.clamp(0, u64::MAX.into())).expect("it is clamped")
}

/// A time minus `bias_ps` picoseconds, rounded to nanoseconds, never negative.
fn shifted(ns: u64, bias_ps: i128) -> u64 {
    to_u64((i128::from(ns) * 1000 - bias_ps + 500).max(0) / 1000)
}

/// The buckets with each lower bound reduced by `bias_ps`; buckets that become equal are merged.
fn correct(buckets: &[(u64, u64)], bias_ps: i128) -> Vec<(u64, u64)> {
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

    fn tally(timed: u64, time_ns: u64) -> SyscallTally {
        SyscallTally {
            calls: timed + 1,
            timed,
            time_ns,
            max_ns: time_ns,
            histogram: vec![(5, 1), (7, 2), (64, 1)],
            ..SyscallTally::new(0, 0, Abi::Native, 110)
        }
    }

    fn cost(untraced_ps: u64, span_ps: u64) -> ProbeCost {
        ProbeCost { untraced_ps, bystander_ps: 0, traced_ps: 0, span_ps }
    }

    #[test]
    fn the_bias_is_taken_off_each_timed_call() {
        assert_eq!(tally(10, 1000).corrected_time_ns(&cost(94_000, 100_500)), 935);
        assert_eq!(tally(10, 1000).corrected_average_ps(&cost(94_000, 100_500)), 93_500);
    }

    #[test]
    fn a_span_shorter_than_the_call_is_lengthened() {
        assert_eq!(tally(10, 1000).corrected_time_ns(&cost(94_000, 84_000)), 1100);
        assert_eq!(tally(10, 1000).corrected_average_ps(&cost(94_000, 84_000)), 110_000);
    }

    #[test]
    fn no_time_is_negative_and_no_call_divides_by_zero() {
        assert_eq!(tally(10, 1000).corrected_time_ns(&cost(0, 900_000)), 0);
        assert_eq!(tally(10, 1000).corrected_average_ps(&cost(0, 900_000)), 0);
        assert_eq!(tally(0, 0).corrected_average_ps(&cost(94_000, 84_000)), 0);
        assert_eq!(tally(0, 0).corrected_max_ns(&cost(0, 900_000)), 0);
        let histogram = tally(4, 70).corrected_histogram(&cost(0, 10_000));
        assert_eq!(histogram, [(0, 3), (54, 1)], "buckets that meet at zero are one");
    }

    #[test]
    fn names_tell_the_abis_apart() {
        let mut row = tally(1, 1);
        assert_eq!(row.name(), "getppid");
        row.abi = Abi::Ia32;
        assert_eq!(row.name(), "ia32_110");
        row.number = SyscallTally::OTHER;
        assert_eq!(row.name(), "other");
    }

    /// `bucket_of` of `count.bpf.c`, in Rust.
    fn bucket_of(ns: u64) -> u32 {
        if ns < 16 {
            return u32::try_from(ns).unwrap();
        }
        let log2 = ns.ilog2();
        (log2 - 3) * 16 + u32::try_from((ns >> (log2 - 4)) & 15).unwrap()
    }

    fn lower_ns(bucket: u32) -> u64 {
        LAYOUT.bucket_at(bucket, 0).lower
    }

    #[test]
    fn every_bucket_begins_where_the_kernel_begins_it() {
        for bucket in 0..=bucket_of(u64::MAX) {
            let lower = lower_ns(bucket);
            assert_eq!(bucket_of(lower), bucket);
            if bucket > 0 {
                assert_eq!(bucket_of(lower - 1), bucket - 1);
            }
        }
    }

    #[test]
    fn a_bucket_is_at_most_a_sixteenth_wide() {
        for bucket in 16..bucket_of(u64::MAX) {
            let lower = lower_ns(bucket);
            assert!((lower_ns(bucket + 1) - lower) * 16 <= lower);
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
