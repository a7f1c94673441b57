//! The rows of vDSO calls and system calls, with their costs and distributions.

use std::collections::BTreeMap;

use vdso_image::histogram::bucket_start;
use vdso_image::layout::Counted;

use crate::tick_time::TickTime;
use clockscope_model::trace::{Latency, SyscallRow, VdsoRow};
use clockscope_model::{reads, waiting};
use clockscope_stats::histogram::{self, Bucket};
use clockscope_syscalls::{ProbeCost, SyscallTally};
use clockscope_tracee::counts::{Calls, Times, Timings};

/// The rows of vDSO calls.
pub(crate) fn vdso_rows(calls: &Calls, timings: Option<&Timings>, time: &TickTime) -> Vec<VdsoRow> {
    let rows = calls.iter().enumerate().filter(|(_, calls)| **calls > 0);
    rows.filter_map(|(index, calls)| {
        let counted = Counted::from_counter(index)?;
        let times = timings.map(|timings| &timings.times[index]);
        let timed = times.map_or(0, |times| times.samples);
        let (average_ps, within_ps) = times.map_or((0, None), |times| time.cost_ps(times));
        let total = u128::from(average_ps) * u128::from(*calls) / 1000;
        Some(VdsoRow {
            function: counted.function.name().to_owned(),
            clock: counted.clock.map(reads::clock_name),
            calls: *calls,
            timed,
            time_uncertain: timed > 0 && within_ps.is_none(),
            time_total_ns: u64::try_from(total).unwrap_or(u64::MAX),
            time_avg_ps: average_ps,
            time_avg_within_ps: within_ps,
            latency_ns: times.and_then(|times| distribution(times, time)),
        })
    })
    .collect()
}

/// The distribution in `buckets` of nanoseconds; `max_ns` is the longest call, if known. `None` if no call
/// was timed.
fn from_buckets(buckets: &[Bucket], max_ns: Option<u64>) -> Option<Latency> {
    let found = histogram::percentiles(buckets, max_ns)?;
    let mut used: Vec<(u64, u64)> =
        buckets.iter().filter(|b| b.count > 0).map(|b| (b.lower, b.count)).collect();
    used.sort_unstable();
    Some(Latency { p50: found.p50, p90: found.p90, p99: found.p99, max: found.max, buckets: used })
}

fn distribution(times: &Times, time: &TickTime) -> Option<Latency> {
    let buckets: Vec<Bucket> = times
        .buckets
        .iter()
        .enumerate()
        .filter(|(_, weight)| **weight > 0)
        .map(|(index, weight)| {
            let lower = time.nanos(bucket_start(index));
            let upper = time.nanos(bucket_start(index + 1));
            Bucket { lower, width: upper.saturating_sub(lower).max(1), count: *weight }
        })
        .collect();
    from_buckets(&buckets, Some(time.nanos(times.max_ticks)))
}

/// The rows of system calls: one row for all tallies of the same call.
pub(crate) fn syscall_rows<'a>(
    tallies: impl IntoIterator<Item = &'a SyscallTally>,
    cost: &ProbeCost,
    with_latency: bool,
) -> Vec<SyscallRow> {
    let mut sums: BTreeMap<_, SyscallTally> = BTreeMap::new();
    for tally in tallies {
        sums.entry((tally.abi, tally.number))
            .and_modify(|sum| sum.absorb(tally))
            .or_insert_with(|| tally.clone());
    }
    sums.values()
        .map(|tally| SyscallRow {
            name: tally.name(),
            number: tally.number,
            calls: tally.calls,
            errors: Some(tally.errors),
            time_total_ns: tally.corrected_time_ns(cost),
            time_avg_ps: tally.corrected_average_ps(cost),
            latency_ns: if with_latency { syscall_distribution(tally, cost) } else { None },
            waits: waiting::waits(&tally.name()),
            ..SyscallRow::default()
        })
        .collect()
}

fn syscall_distribution(tally: &SyscallTally, cost: &ProbeCost) -> Option<Latency> {
    let buckets: Vec<Bucket> = tally
        .corrected_histogram(cost)
        .into_iter()
        .map(|(lower, count)| Bucket { lower, width: (lower / 16).max(1), count })
        .collect();
    from_buckets(&buckets, Some(tally.corrected_max_ns(cost)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_become_a_distribution_in_order() {
        let bucket = |lower, count| Bucket { lower, width: 1, count };
        let latency = from_buckets(&[bucket(30, 1), bucket(20, 9), bucket(25, 0)], Some(30));
        let buckets = vec![(20, 9), (30, 1)];
        assert_eq!(latency, Some(Latency { p50: 20, p90: 20, p99: 30, max: 30, buckets }));
        assert_eq!(from_buckets(&[], None), None);
    }
}
