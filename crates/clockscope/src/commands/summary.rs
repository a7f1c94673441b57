//! From counts to the report.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsString;

use fastclock::{ClockId, Picos, Scale, Ticks};
use vdso_image::layout::{self, Counted};

use super::callers::Exact;
use super::counter::Counter;
use super::onlookers::Seen;
use super::passed_on::{self, PassedOn};
use super::traced::Outcome;
use crate::report::latency;
use crate::report::model::{
    ClockReads, DeclineRow, Latency, Overhead, ProcessDetail, SyscallRow, ThreadDetail,
    TraceReport, VdsoRow,
};
use crate::stats::histogram::Bucket;
use crate::sys::tsc;
use crate::syscalls::{ProbeCost, SyscallTally};
use crate::tracee::counts::{Calls, Times, Timings};
use crate::tracee::follow::End;
use crate::tracee::processes::Processes;
use crate::tracee::session::Session;

/// Cost of a read on a host whose clocksource is hpet, and acpi_pm, in nanoseconds: Red Hat
/// Enterprise Linux for Real Time 7, Reference Guide, 15.2.
const TYPICAL_HPET_NS: u64 = 1226;
const TYPICAL_ACPI_PM_NS: u64 = 2552;

/// What turns ticks into time.
pub struct TickTime {
    scale: Scale,
    bracket: Ticks,
}

impl TickTime {
    /// That of a session, as known now.
    #[must_use]
    pub fn of(session: &Session) -> Self {
        Self { scale: session.scale(), bracket: session.bracket() }
    }

    /// What timing a call adds to it, in picoseconds.
    #[must_use]
    pub fn bracket_ps(&self) -> u64 {
        self.scale.to_picos(self.bracket).0
    }

    /// A timed call without what the timing adds.
    fn nanos(&self, ticks: u64) -> u64 {
        let ticks = Ticks(ticks.saturating_sub(self.bracket.0));
        u64::try_from(self.scale.to_nanos(ticks).0).unwrap_or(0)
    }

    fn average_ps(&self, times: &Times) -> u64 {
        if times.weight == 0 {
            return 0;
        }
        // A thousandth of a tick, so that the average keeps its fraction.
        let milli = u64::try_from(times.average_milliticks()).unwrap_or(u64::MAX);
        let milli = milli.saturating_sub(self.bracket.0.saturating_mul(1000));
        self.scale.to_picos(Ticks(milli)).0 / 1000
    }
}

/// The rows of vDSO calls.
#[must_use]
pub fn vdso_rows(calls: &Calls, timings: Option<&Timings>, time: &TickTime) -> Vec<VdsoRow> {
    let rows = calls.iter().enumerate().filter(|(_, calls)| **calls > 0);
    rows.filter_map(|(index, calls)| {
        let counted = Counted::from_counter(index)?;
        let times = timings.map(|timings| &timings.times[index]);
        let average_ps = times.map_or(0, |times| time.average_ps(times));
        let total = u128::from(average_ps) * u128::from(*calls) / 1000;
        Some(VdsoRow {
            function: counted.function.name().to_owned(),
            clock: counted.clock.map(clock_name),
            calls: *calls,
            timed: times.map_or(0, |times| times.samples),
            time_total_ns: u64::try_from(total).unwrap_or(u64::MAX),
            time_avg_ps: average_ps,
            latency_ns: times.and_then(|times| distribution(times, time)),
        })
    })
    .collect()
}

/// The name of a clock; `other` for ids without a fixed number.
pub(super) fn clock_name(clock: Option<i32>) -> String {
    match clock {
        None => "other".to_owned(),
        Some(raw) => {
            ClockId::from_raw(raw).map_or_else(|| format!("clock_{raw}"), |id| id.name().to_owned())
        }
    }
}

fn distribution(times: &Times, time: &TickTime) -> Option<Latency> {
    let buckets: Vec<Bucket> = times
        .buckets
        .iter()
        .enumerate()
        .filter(|(_, weight)| **weight > 0)
        .map(|(index, weight)| {
            let lower = time.nanos(layout::bucket_start(index));
            let upper = time.nanos(layout::bucket_start(index + 1));
            Bucket { lower, width: upper.saturating_sub(lower).max(1), count: *weight }
        })
        .collect();
    latency::from_buckets(&buckets, Some(time.nanos(times.max_ticks)))
}

/// The rows of system calls: the tallies of the same call together.
#[must_use]
pub fn syscall_rows<'a>(
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
            errors: tally.errors,
            time_total_ns: tally.corrected_time_ns(cost),
            time_avg_ps: tally.corrected_average_ps(cost),
            latency_ns: if with_latency { syscall_distribution(tally, cost) } else { None },
        })
        .collect()
}

fn syscall_distribution(tally: &SyscallTally, cost: &ProbeCost) -> Option<Latency> {
    let buckets: Vec<Bucket> = tally
        .corrected_histogram(cost)
        .into_iter()
        .map(|(lower, count)| Bucket { lower, width: (lower / 16).max(1), count })
        .collect();
    latency::from_buckets(&buckets, Some(tally.corrected_max_ns(cost)))
}

/// What the lines below the table need to know besides the rows.
pub struct Context {
    /// From start to end of the program.
    pub wall_ns: u64,
    /// Cost of a read by system call here, in picoseconds.
    pub syscall_read_ps: u64,
    /// Length of a timer tick.
    pub tick_ns: u64,
    /// The reads that this host's vDSO passes on to the kernel.
    pub passed_on: PassedOn,
}

/// The lines below the table.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "a rate to be read by people")]
pub fn clock_reads(
    vdso: &[VdsoRow],
    syscalls: &[SyscallRow],
    same_tick_share: Option<f64>,
    context: &Context,
) -> ClockReads {
    let by_vdso: Vec<&VdsoRow> =
        vdso.iter().filter(|row| passed_on::is_read(&row.function)).collect();
    let mut reads: u64 = by_vdso.iter().map(|row| row.calls).sum();
    let mut time_ns: u64 = by_vdso.iter().map(|row| row.time_total_ns).sum();
    let mut passed_on = 0;
    for row in syscalls.iter().filter(|row| passed_on::is_read(&row.name)) {
        let both = by_vdso.iter().filter(|r| r.function == row.name && context.passed_on.has(r));
        // A call of the vDSO that was timed was timed with its system call in it.
        let (mut counted, mut timed) = (0, 0);
        for call in both {
            counted += call.calls;
            timed += if call.timed > 0 { call.calls } else { 0 };
        }
        let new = row.calls.saturating_sub(timed);
        let time = u128::from(row.time_total_ns) * u128::from(new) / u128::from(row.calls.max(1));
        time_ns = time_ns.saturating_add(u64::try_from(time).unwrap_or(u64::MAX));
        let counted = counted.min(row.calls);
        reads = reads.saturating_add(row.calls - counted);
        passed_on += counted;
    }
    // The time of a few system calls is not that of all reads.
    let in_user_space = |row: &&&VdsoRow| !context.passed_on.has(row);
    if by_vdso.iter().all(|row| row.timed == 0) && by_vdso.iter().filter(in_user_space).count() > 0
    {
        time_ns = 0;
    }
    let seconds = context.wall_ns as f64 / 1e9;
    let by_syscall_ns = u128::from(reads) * u128::from(context.syscall_read_ps) / 1000;
    ClockReads {
        reads,
        passed_on,
        reads_per_second: if seconds > 0.0 { reads as f64 / seconds } else { 0.0 },
        time_ns,
        by_syscall_ns: u64::try_from(by_syscall_ns).unwrap_or(u64::MAX),
        syscall_read_ps: context.syscall_read_ps,
        typical_hpet_ns: reads.saturating_mul(TYPICAL_HPET_NS),
        typical_acpi_pm_ns: reads.saturating_mul(TYPICAL_ACPI_PM_NS),
        same_tick_share,
        tick_ns: context.tick_ns,
    }
}

/// The share of calls that came within the same tick as the thread's call before, estimated from
/// the distances: a call that comes after `d` of a tick of length `T` finds the same tick with
/// probability `1 - d / T`.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
pub fn same_tick_share(timings: &Timings, time: &TickTime, tick_ns: u64) -> Option<f64> {
    let total: u64 = timings.intervals.iter().sum();
    if total == 0 || tick_ns == 0 {
        return None;
    }
    let mut same = 0.0;
    for (power, weight) in timings.intervals.iter().enumerate() {
        let middle = (1_u64 << power).saturating_add(1_u64 << power >> 1);
        let distance = time.scale.to_nanos(Ticks(middle)).0 as f64;
        same += *weight as f64 * (1.0 - distance / tick_ns as f64).max(0.0);
    }
    Some(same / total as f64)
}

/// What was not counted.
#[must_use]
pub fn declines(processes: &Processes) -> Vec<DeclineRow> {
    let of_process = |process: &crate::tracee::processes::Process| {
        let pid = process.pid;
        let rows: Vec<DeclineRow> = process
            .declines
            .iter()
            .map(|(command, why)| DeclineRow {
                pid,
                command: command.clone(),
                what: "vdso".to_owned(),
                reason: why.to_string(),
            })
            .collect();
        rows
    };
    processes.all().iter().flat_map(of_process).collect()
}

/// How finely to tell processes apart, and with what.
pub struct Details<'a> {
    /// System calls by process (and thread); empty if they were not told apart.
    pub tallies: &'a [SyscallTally],
    /// What the probes cost.
    pub cost: &'a ProbeCost,
    /// Give the rows of each process.
    pub rows: bool,
    /// System calls were counted.
    pub syscalls: bool,
    /// Give the threads of each process.
    pub threads: bool,
    /// Which rows are wanted.
    pub wanted: &'a dyn Fn(&str) -> bool,
}

/// One entry a process.
#[must_use]
pub fn processes_detail(
    processes: &Processes,
    time: &TickTime,
    details: &Details<'_>,
) -> Vec<ProcessDetail> {
    let vdso = |calls: &Calls| {
        let mut rows = vdso_rows(calls, None, time);
        rows.retain(|row| (details.wanted)(&row.function));
        rows
    };
    let syscalls = |pick: &dyn Fn(&SyscallTally) -> bool| {
        let tallies = details.tallies.iter().filter(|tally| pick(tally));
        let mut rows = syscall_rows(tallies, details.cost, false);
        rows.retain(|row| (details.wanted)(&row.name));
        rows
    };
    processes
        .all()
        .iter()
        .map(|process| {
            let own = syscalls(&|tally| tally.pid == process.pid);
            let own_vdso = vdso(&process.calls);
            ProcessDetail {
                pid: process.pid,
                parent: process.parent,
                command: process.command.clone(),
                vdso_calls: own_vdso.iter().map(|row| row.calls).sum(),
                syscall_calls: (details.rows && details.syscalls)
                    .then(|| own.iter().map(|row| row.calls).sum()),
                vdso: if details.rows { own_vdso } else { Vec::new() },
                syscalls: if details.rows { own } else { Vec::new() },
                threads: if details.threads {
                    thread_ids(process.pid, &process.threads, details.tallies)
                        .into_iter()
                        .map(|tid| ThreadDetail {
                            tid,
                            vdso: process.threads.get(&tid).map(&vdso).unwrap_or_default(),
                            syscalls: syscalls(&|t| t.pid == process.pid && t.tid == tid),
                        })
                        .collect()
                } else {
                    Vec::new()
                },
            }
        })
        .collect()
}

fn thread_ids(pid: i32, counted: &HashMap<i32, Calls>, tallies: &[SyscallTally]) -> BTreeSet<i32> {
    let called = tallies.iter().filter(|tally| tally.pid == pid && tally.tid != 0);
    counted.keys().copied().chain(called.map(|tally| tally.tid)).collect()
}

/// What the report is made from.
pub struct Source<'a> {
    /// The program and its arguments.
    pub command: &'a [OsString],
    /// The session, for converting ticks.
    pub session: &'a Session,
    /// What came of the program.
    pub outcome: &'a Outcome,
    /// Who counted system calls.
    pub counter: &'a Counter,
    /// Cost of a read by system call, measured before the program started.
    pub syscall_read: Picos,
    /// Give the distribution of each system call.
    pub latency: bool,
    /// Give the rows of each process.
    pub per_process: bool,
    /// Give the rows of each thread.
    pub per_thread: bool,
    /// Which rows are wanted.
    pub wanted: &'a dyn Fn(&str) -> bool,
}

/// Makes the report, with what the onlookers have seen.
///
/// # Errors
///
/// When the counts of system calls cannot be read.
pub fn report(source: &Source<'_>, seen: Seen<'_>) -> anyhow::Result<TraceReport> {
    let (tallies, cost) = source.counter.read()?;
    let time = TickTime::of(source.session);
    let processes = &source.outcome.processes;
    let mut vdso = vdso_rows(&processes.total(), Some(processes.timings()), &time);
    vdso.retain(|row| (source.wanted)(&row.function));
    let mut syscalls = syscall_rows(&tallies, &cost, source.latency);
    syscalls.retain(|row| (source.wanted)(&row.name));
    let followed = &source.outcome.followed;
    let wall_ns = nanos(followed.ended.duration_since(source.outcome.started));
    let tick_ns = u64::try_from(tsc::resolution(ClockId::MonotonicCoarse).0).unwrap_or(0);
    let context = Context {
        wall_ns,
        syscall_read_ps: source.syscall_read.0,
        tick_ns,
        passed_on: passed_on(&vdso, &syscalls),
    };
    let same_tick = same_tick_share(processes.timings(), &time, tick_ns);
    let details = Details {
        tallies: &tallies,
        cost: &cost,
        rows: source.per_process || source.per_thread,
        syscalls: !matches!(source.counter, Counter::None),
        threads: source.per_thread,
        wanted: source.wanted,
    };
    let (exit_code, signal) = exit_code_and_signal(followed.end);
    let exact = Exact {
        processes,
        tallies: &tallies,
        scale: time.scale,
        cpu_ns: nanos(followed.cpu),
        wanted: source.wanted,
    };
    let callers = seen.sampling.map(|sampling| sampling.finish(&exact));
    let timed = vdso.iter().any(|row| row.timed > 0);
    let mut not_counted = declines(processes);
    not_counted.extend(source.counter.losses());
    let mut report = TraceReport {
        schema: 1,
        command: source.command.iter().map(|word| word.as_os_str().into()).collect(),
        exit_code,
        signal,
        wall_ns,
        cpu_ns: nanos(followed.cpu),
        processes: processes.all().len() as u64,
        threads: processes.threads(),
        via: source.counter.name().to_owned(),
        clock_reads: clock_reads(&vdso, &syscalls, same_tick, &context),
        processes_detail: processes_detail(processes, &time, &details),
        declines: not_counted,
        overhead: Overhead {
            syscall_probe_ps: cost.per_call_ps(),
            bystander_tax_ps: cost.bystander_tax_ps(),
            syscall_subtracted_ps: u64::try_from(cost.bias_ps()).unwrap_or(0),
            vdso_bracket_ps: if timed { time.bracket_ps() } else { 0 },
        },
        vdso,
        syscalls,
        timeline: Vec::new(),
        callers,
        attached: Vec::new(),
        clock_page: None,
    };
    if let Some(timeline) = seen.timeline {
        report.timeline = timeline.finish(&report);
    }
    Ok(report)
}

/// What the vDSO passes on here, where reads came by both ways.
fn passed_on(vdso: &[VdsoRow], syscalls: &[SyscallRow]) -> PassedOn {
    let by_kernel = syscalls.iter().any(|row| passed_on::is_read(&row.name));
    if by_kernel && !vdso.is_empty() { PassedOn::here() } else { PassedOn::default() }
}

fn exit_code_and_signal(end: Option<End>) -> (Option<i32>, Option<i32>) {
    match end {
        Some(End::Exited(code)) => (Some(code), None),
        Some(End::Killed(signal)) => (None, Some(signal)),
        None => (None, None),
    }
}

fn nanos(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1,009 calls of a function whose clock no vDSO reads, and the system calls.
    fn reads(timed: u64, clock: &str, syscalls: u64) -> ClockReads {
        let vdso = VdsoRow {
            function: "clock_gettime".to_owned(),
            clock: Some(clock.to_owned()),
            calls: 1_009,
            timed,
            time_total_ns: if timed > 0 { 2_018_000 } else { 0 },
            ..VdsoRow::default()
        };
        let syscall = SyscallRow {
            name: "clock_gettime".to_owned(),
            calls: syscalls,
            time_total_ns: syscalls * 1_000,
            ..SyscallRow::default()
        };
        let passed_on = PassedOn::default();
        let context = Context { wall_ns: 0, syscall_read_ps: 0, tick_ns: 0, passed_on };
        clock_reads(&[vdso], &[syscall], None, &context)
    }

    #[test]
    fn a_read_that_is_passed_on_is_counted_and_timed_once() {
        for (timed, time_ns) in [(50, 2_018_000 + 2_000), (0, 1_011_000)] {
            let reads = reads(timed, "CLOCK_PROCESS_CPUTIME_ID", 1_011);
            assert_eq!((reads.reads, reads.passed_on, reads.time_ns), (1_011, 1_009, time_ns));
        }
    }

    #[test]
    fn a_system_call_that_no_vdso_made_is_another_read() {
        let reads = reads(50, "CLOCK_MONOTONIC", 2);
        assert_eq!((reads.reads, reads.passed_on, reads.time_ns), (1_011, 0, 2_020_000));
    }

    #[test]
    fn the_time_of_a_few_system_calls_is_not_that_of_all_reads() {
        assert_eq!(reads(0, "CLOCK_MONOTONIC", 2).time_ns, 0);
    }

    #[test]
    fn system_calls_that_were_not_counted_make_no_reads_fewer() {
        let reads = reads(50, "CLOCK_PROCESS_CPUTIME_ID", 0);
        assert_eq!((reads.reads, reads.passed_on), (1_009, 0));
    }
}
