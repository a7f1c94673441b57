//! One row of counts.

use super::calibrate::ProbeCost;
use super::{histogram, names};

/// Whose numbers a system call was made by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Abi {
    /// The 64-bit `syscall` instruction; a number with bit 30 set is x32's.
    X86_64,
    /// 32-bit programs, and `int 0x80` in any program: other numbers with other meanings.
    Ia32,
}

/// The calls of one system call in one process or thread, or in all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyscallTally {
    /// Process id in the tracer's pid namespace; 0 for the whole tree.
    pub pid: i32,
    /// Thread id in the tracer's pid namespace; 0 unless threads are told apart.
    pub tid: i32,
    /// Whose number it is.
    pub abi: Abi,
    /// The system call's number; [`SyscallTally::OTHER`] for numbers beyond the kernel's tables
    /// of which there were too many to tell apart.
    pub number: u32,
    /// Calls made, those that never return (`exit`, a killed `read`) included.
    pub calls: u64,
    /// Calls that returned and were timed: `time_ns` is theirs.
    pub timed: u64,
    /// Calls that returned -4095 to -1.
    pub errors: u64,
    /// Time from probe to probe of the timed calls, in nanoseconds; see
    /// [`SyscallTally::corrected_time_ns`].
    pub time_ns: u64,
    /// The longest timed call from probe to probe, in nanoseconds; 0 unless a distribution was
    /// asked for.
    pub max_ns: u64,
    /// `(lower bound in nanoseconds, calls)` of each bucket with calls, in ascending order, from
    /// probe to probe; empty unless a distribution was asked for. 16 buckets an octave.
    pub histogram: Vec<(u64, u64)>,
}

impl SyscallTally {
    /// Stands for all numbers that could not be told apart.
    pub const OTHER: u32 = u32::MAX;

    /// Adds the counts of another tally of the same call.
    pub fn absorb(&mut self, other: &Self) {
        self.calls += other.calls;
        self.timed += other.timed;
        self.errors += other.errors;
        self.time_ns = self.time_ns.saturating_add(other.time_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        for (lower, calls) in &other.histogram {
            match self.histogram.binary_search_by_key(lower, |(lower, _)| *lower) {
                Ok(at) => self.histogram[at].1 += calls,
                Err(at) => self.histogram.insert(at, (*lower, *calls)),
            }
        }
    }

    /// The system call's name: `syscall_N` if the number has none, `ia32_N` for 32-bit calls,
    /// `other` for [`SyscallTally::OTHER`].
    #[must_use]
    pub fn name(&self) -> String {
        match self.abi {
            _ if self.number == Self::OTHER => "other".to_string(),
            Abi::X86_64 => names::name(self.number),
            Abi::Ia32 => format!("ia32_{}", self.number),
        }
    }

    /// Time of the timed calls as the program saw it without probes, in nanoseconds, never
    /// negative: from probe to probe, less the probe's own part as calibrated.
    #[must_use]
    pub fn corrected_time_ns(&self, cost: &ProbeCost) -> u64 {
        let bias_ps = i128::from(cost.bias_ps()) * i128::from(self.timed);
        let time_ns = i128::from(self.time_ns) - bias_ps / 1000;
        u64::try_from(time_ns.max(0)).unwrap_or(u64::MAX)
    }

    /// Corrected time by call that was timed, in picoseconds; 0 if none was.
    #[must_use]
    pub fn corrected_average_ps(&self, cost: &ProbeCost) -> u64 {
        if self.timed == 0 {
            return 0;
        }
        let total_ps = u128::from(self.time_ns) * 1000 / u128::from(self.timed);
        let average_ps = i128::try_from(total_ps).unwrap_or(i128::MAX) - i128::from(cost.bias_ps());
        u64::try_from(average_ps.max(0)).unwrap_or(u64::MAX)
    }

    /// The longest timed call, corrected, in nanoseconds.
    #[must_use]
    pub fn corrected_max_ns(&self, cost: &ProbeCost) -> u64 {
        histogram::shifted(self.max_ns, cost.bias_ps())
    }

    /// The distribution with every lower bound corrected; bounds that would be negative are 0.
    #[must_use]
    pub fn corrected_histogram(&self, cost: &ProbeCost) -> Vec<(u64, u64)> {
        histogram::correct(&self.histogram, cost.bias_ps())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(timed: u64, time_ns: u64) -> SyscallTally {
        SyscallTally {
            pid: 0,
            tid: 0,
            abi: Abi::X86_64,
            number: 110,
            calls: timed + 1,
            timed,
            errors: 0,
            time_ns,
            max_ns: time_ns,
            histogram: vec![(5, 1), (7, 2), (64, 1)],
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
        assert_eq!(
            tally(4, 70).corrected_histogram(&cost(0, 10_000)),
            vec![(0, 3), (54, 1)],
            "buckets that meet at zero are one"
        );
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
}
