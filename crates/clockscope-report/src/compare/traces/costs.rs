//! What calls cost in a saved report, and how far that may be wrong.

use clockscope_model::reads;
use clockscope_model::trace::{SyscallRow, TraceReport, VdsoRow};
use clockscope_model::trace_compare::Cost;
use clockscope_stats::timed::TIMED_MIN;

/// The cost of a call of the vDSO. Its interval contains half of what timing a call costs on either side: the cost of
/// timing is measured once a run and subtracted, and on a busy machine one run's is as much as that from
/// another's.
pub(super) fn of_vdso(row: &VdsoRow, report: &TraceReport) -> Option<Cost> {
    let timing_ps = report.overhead.vdso_bracket_ps / 2;
    // A cost is told if it is known within a half; older reports do not say how well.
    let sampled_ps = row.time_avg_within_ps.unwrap_or(row.time_avg_ps / 2);
    row.has_time().then(|| Cost {
        average_ps: row.time_avg_ps,
        within_ps: Some(sampled_ps.saturating_add(timing_ps)),
    })
}

/// The cost of a system call. All are timed, or enough of them to know the average of this run; but it contains waits
/// and what else ran on the machine, and is twice or half as much in the next run of the same program. So nothing is
/// said of how it changes, except for reads of clocks, which do not wait.
pub(super) fn of_syscall(row: &SyscallRow) -> Option<Cost> {
    let is_read = reads::source(&row.name, None).is_some() && row.calls >= TIMED_MIN;
    (row.time_total_ns > 0).then(|| Cost {
        average_ps: row.time_avg_ps,
        within_ps: is_read
            .then(|| (row.time_avg_ps / 3).saturating_add(row.time_avg_within_ps.unwrap_or(0))),
    })
}

/// The cost of a read, of whatever clocks the program reads.
pub(super) fn of_a_read(report: &TraceReport) -> Option<Cost> {
    let all = &report.clock_reads;
    if all.time_ns == 0 || all.reads == 0 {
        return None;
    }
    let is_read = |row: &&VdsoRow| reads::source(&row.function, row.clock.as_deref()).is_some();
    let within = report.vdso.iter().filter(is_read).filter_map(|row| {
        let within_ps = of_vdso(row, report)?.within_ps?;
        Some(u128::from(within_ps) * u128::from(row.calls))
    });
    let picos = |sum: u128| u64::try_from(sum / u128::from(all.reads)).unwrap_or(u64::MAX);
    Some(Cost {
        average_ps: picos(u128::from(all.time_ns) * 1_000),
        within_ps: Some(picos(within.fold(0, u128::saturating_add))),
    })
}

/// The ends of the interval of a cost, in picoseconds; `None` if it is not known.
pub(super) fn ends(cost: &Cost) -> Option<(u64, u64)> {
    let within = cost.within_ps?;
    Some((cost.average_ps.saturating_sub(within), cost.average_ps.saturating_add(within)))
}
