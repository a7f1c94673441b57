//! From counts to the report.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsString;

use fastclock::{ClockId, Scale, Ticks};
use vdso_image::histogram::bucket_start;
use vdso_image::layout::Counted;

use crate::clock_reads::{Context, SyscallCosts, clock_reads, same_tick_share};
use crate::counter::Counter;
use crate::fallback_reads::{self, FallbackReads};
use crate::launch::Outcome;
use crate::sampling::Exact;
use crate::sampling::Sampling;
use crate::timeline::Timeline;
use clockscope_model::reads;
use clockscope_model::trace::Clock;
use clockscope_model::trace::{
    BySites, DeclineRow, Latency, Overhead, ProcessDetail, SyscallRow, ThreadDetail, TraceReport,
    VdsoRow,
};
use clockscope_model::waiting;
use clockscope_stats::histogram::{self, Bucket};
use clockscope_stats::timed;
use clockscope_sys::tsc;
use clockscope_syscalls::{Abi, ProbeCost, SyscallTally};
use clockscope_text::foreign::Foreign;
use clockscope_tracee::attach::{self, command_name, thread_name};
use clockscope_tracee::counts::{Calls, Times, Timings};
use clockscope_tracee::follow::End;
use clockscope_tracee::processes::{Process, Processes};
use clockscope_tracee::session::Session;
use clockscope_tracee::sites::{SiteCalls, SiteWords, TimedCalls};

/// What turns ticks into time.
pub struct TickTime {
    scale: Scale,
    /// In thousandths of a tick.
    bracket: u64,
}

impl TickTime {
    /// That of a session, as known now, for these timed calls.
    pub fn of(session: &Session, timings: &Timings) -> Self {
        Self { scale: session.scale(), bracket: session.bracket().beside(timings.empty) }
    }

    /// What timing a call adds to it, in picoseconds.
    pub(crate) fn bracket_ps(&self) -> u64 {
        self.scale.to_picos(Ticks(self.bracket)).0 / 1_000
    }

    /// A timed call without what the timing adds.
    fn nanos(&self, ticks: u64) -> u64 {
        let ticks = Ticks(ticks.saturating_sub(self.bracket.saturating_add(500) / 1_000));
        u64::try_from(self.scale.to_nanos(ticks).0).unwrap_or(0)
    }

    /// A fraction of ticks in picoseconds.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate, never negative"
    )]
    fn picos(&self, ticks: f64) -> u64 {
        if ticks >= 1e6 {
            return self.scale.to_picos(Ticks(ticks as u64)).0;
        }
        self.scale.to_picos(Ticks((ticks * 1e3) as u64)).0 / 1_000
    }

    /// What calls took together, in nanoseconds, and on average, in picoseconds, without what timing adds to each.
    fn total(&self, ticks: f64, calls: u64) -> (u64, u64) {
        let mean = (ticks / calls.max(1) as f64 - self.bracket as f64 / 1e3).max(0.0);
        let average_ps = self.picos(mean);
        let total = u128::from(average_ps) * u128::from(calls) / 1_000;
        (u64::try_from(total).unwrap_or(u64::MAX), average_ps)
    }

    /// Ticks between two moments as nanoseconds.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub(super) fn distance_ns(&self, ticks: Ticks) -> f64 {
        self.scale.to_nanos(ticks).0 as f64
    }

    /// What a call costs in picoseconds, and how far from that the mean of all calls may be; the latter only if
    /// enough were timed to say so.
    fn cost_ps(&self, times: &Times) -> (u64, Option<u64>) {
        // A thousandth of a tick, so that the average keeps its fraction.
        let (milliticks, within) = times.cost_milliticks();
        let milliticks = milliticks.saturating_sub(self.bracket);
        let picos = |milliticks| self.scale.to_picos(Ticks(milliticks)).0 / 1000;
        (picos(milliticks), within.map(picos))
    }
}

/// The rows of vDSO calls.
pub fn vdso_rows(calls: &Calls, timings: Option<&Timings>, time: &TickTime) -> Vec<VdsoRow> {
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

/// The distribution in `buckets` of nanoseconds, with the longest call if it was kept apart; `None`
/// if no call was timed.
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

/// The rows of system calls: the tallies of the same call together.
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

/// What was not counted.
pub fn declines(processes: &Processes) -> Vec<DeclineRow> {
    let of_process = |process: &clockscope_tracee::processes::Process| {
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
struct Details<'a> {
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
fn processes_detail(
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
                title: title(process),
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
                            name: if process.alive {
                                thread_name(process.pid, tid)
                            } else {
                                Foreign::default()
                            },
                            vdso: process.threads.get(&tid).map(&vdso).unwrap_or_default(),
                            syscalls: syscalls(&|t| t.pid == process.pid && t.tid == tid),
                        })
                        .collect()
                } else {
                    Vec::new()
                },
                ..ProcessDetail::default()
            }
        })
        .collect()
}

/// What a process that runs on calls itself now.
fn title(process: &Process) -> Foreign {
    // Another one may have its number by now.
    let is_it = process.alive && command_name(process.pid) == process.command;
    if is_it { attach::title(process.pid) } else { Foreign::default() }
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
    /// What reads by system call cost, measured before the program started.
    pub costs: SyscallCosts,
    /// What answers the program's reads.
    pub clock: Clock,
    /// Give the distribution of each system call.
    pub latency: bool,
    /// Give the rows of each process.
    pub per_process: bool,
    /// Give the rows of each thread.
    pub per_thread: bool,
    /// Which rows are wanted.
    pub wanted: &'a dyn Fn(&str) -> bool,
}

/// What the observers have seen.
#[derive(Default)]
pub struct Observed<'a> {
    /// Who makes the calls.
    pub sampling: Option<Sampling>,
    /// Calls over the run.
    pub timeline: Option<Timeline<'a>>,
}

/// Makes the report, with what the observers have seen.
///
/// # Errors
///
/// When the counts of system calls cannot be read.
pub fn report(source: &Source<'_>, seen: Observed<'_>) -> anyhow::Result<TraceReport> {
    let processes = &source.outcome.processes;
    let (tallies, cost, by_sites) = tallies(source)?;
    let time = TickTime::of(source.session, processes.timings());
    let mut vdso = vdso_rows(&processes.total(), Some(processes.timings()), &time);
    vdso.retain(|row| (source.wanted)(&row.function));
    let mut syscalls = syscall_rows(&tallies, &cost, source.latency);
    if matches!(source.counter, Counter::Sites) {
        fill_from_sites(&mut syscalls, processes, &time);
    }
    syscalls.retain(|row| (source.wanted)(&row.name));
    let followed = &source.outcome.followed;
    let wall_ns = nanos(followed.ended.duration_since(source.outcome.started));
    // What the program waited for may have got away from its tracer; who does not wait has children too.
    let cpu_ns = nanos(followed.cpu.max(processes.cpu()));
    let tick_ns = u64::try_from(tsc::resolution(ClockId::MonotonicCoarse).0).unwrap_or(0);
    let context = Context {
        wall_ns,
        costs: source.costs,
        tick_ns,
        passed_on: passed_on(&vdso, &syscalls),
        clock: source.clock,
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
    let exact =
        Exact { processes, tallies: &tallies, scale: time.scale, cpu_ns, wanted: source.wanted };
    let callers = seen.sampling.map(|sampling| sampling.finish(&exact));
    let timed = vdso.iter().any(|row| row.timed > 0);
    let mut report = TraceReport {
        schema: 1,
        command: source.command.iter().map(|word| word.as_os_str().into()).collect(),
        exit_code,
        signal,
        wall_ns,
        cpu_ns,
        processes: processes.all().len() as u64,
        threads: processes.threads(),
        via: source.counter.name().to_owned(),
        clock_reads: clock_reads(&vdso, &syscalls, same_tick, &context),
        processes_detail: processes_detail(processes, &time, &details),
        declines: not_counted(source),
        overhead: Overhead {
            syscall_probe_ps: cost.per_call_ps(),
            bystander_tax_ps: cost.bystander_tax_ps(),
            syscall_subtracted_ps: cost.span_ps.saturating_sub(cost.untraced_ps),
            vdso_bracket_ps: if timed { time.bracket_ps() } else { 0 },
        },
        vdso,
        syscalls,
        by_sites,
        timeline: Vec::new(),
        callers,
        attached: Vec::new(),
        clock_page: None,
        host: None,
        what_if: None,
        verdict: None,
    };
    if let Some(timeline) = seen.timeline {
        report.timeline = timeline.finish(&report);
    }
    Ok(report)
}

/// What code in the programs has counted.
fn site_tallies(processes: &Processes) -> Vec<SyscallTally> {
    let words = processes.site_words();
    let tallies = words.calls().map(|counted| SyscallTally {
        calls: counted.calls,
        errors: counted.errors.unwrap_or(0),
        ..SyscallTally::new(0, 0, Abi::Native, tally_number(&counted))
    });
    tallies.collect()
}

fn tally_number(counted: &SiteCalls) -> u32 {
    counted.number.unwrap_or(SyscallTally::OTHER)
}

/// What code in the programs has seen of all calls of a number: errors, and times of some. What it has not is not known.
fn fill_from_sites(rows: &mut [SyscallRow], processes: &Processes, time: &TickTime) {
    let words = processes.site_words();
    for counted in words.calls() {
        let number = tally_number(&counted);
        for row in rows.iter_mut().filter(|row| row.number == number) {
            row.errors = counted.errors;
            let times = counted.times.unwrap_or_default();
            row.timed = Some(times.iter().map(|part| part.timed).sum());
            let Some(total) = timed::total(&times.map(stratum)).filter(|total| total.is_known)
            else {
                continue;
            };
            (row.time_total_ns, row.time_avg_ps) = time.total(total.total, row.calls);
            let within = time.picos(total.half_width / row.calls.max(1) as f64);
            row.time_avg_within_ps = Some(within);
        }
    }
}

fn stratum(part: TimedCalls) -> timed::Stratum {
    timed::Stratum {
        calls: part.calls as f64,
        timed: part.timed as f64,
        sum: part.ticks as f64,
        squares: part.squares as f64,
    }
}

/// What code in the programs and the kernel have counted of each wanted call, where one of them has counted any.
fn compared(
    in_program: &SiteWords,
    in_kernel: &[SyscallTally],
    wanted: &dyn Fn(&str) -> bool,
) -> Vec<BySites> {
    let mut rows: BTreeMap<String, BySites> = BTreeMap::new();
    // Not with --counts-only.
    let sees_errors = in_kernel.iter().any(|tally| tally.timed > 0);
    let named = |name: String| BySites { name, ..BySites::default() };
    for counted in in_program.calls() {
        let name = SyscallTally::new(0, 0, Abi::Native, tally_number(&counted)).name();
        let row = rows.entry(name.clone()).or_insert_with(|| named(name));
        (row.sites, row.errors) = (counted.calls, counted.errors.filter(|_| sees_errors));
    }
    for tally in in_kernel {
        let name = tally.name();
        let row = rows.entry(name.clone()).or_insert_with(|| named(name));
        row.kernel += tally.calls;
        row.kernel_errors += tally.errors;
    }
    rows.into_values().filter(|row| wanted(&row.name)).collect()
}

/// System calls, what counting them costs, and, where it was asked for, how two ways to count them compare.
fn tallies(source: &Source<'_>) -> anyhow::Result<(Vec<SyscallTally>, ProbeCost, Vec<BySites>)> {
    let (tallies, cost) = source.counter.read()?;
    let processes = &source.outcome.processes;
    Ok(match source.counter {
        Counter::Sites => (site_tallies(processes), cost, Vec::new()),
        _ => {
            let in_program = processes.site_words();
            let is_both = in_program.calls().next().is_some();
            let by_sites = is_both.then(|| compared(&in_program, &tallies, source.wanted));
            (tallies, cost, by_sites.unwrap_or_default())
        }
    })
}

/// What was not counted, and why.
fn not_counted(source: &Source<'_>) -> Vec<DeclineRow> {
    let mut rows = declines(&source.outcome.processes);
    rows.extend(source.counter.losses());
    let of_sites = source.outcome.processes.lost_sites.iter().map(String::as_str);
    rows.extend(of_sites.map(|reason| DeclineRow {
        pid: 0,
        command: Foreign::default(),
        what: "syscalls".to_owned(),
        reason: reason.to_owned(),
    }));
    rows
}

/// What the vDSO passes on here, where reads came by both ways.
fn passed_on(vdso: &[VdsoRow], syscalls: &[SyscallRow]) -> FallbackReads {
    let by_kernel = syscalls.iter().any(|row| fallback_reads::is_read(&row.name));
    if by_kernel && !vdso.is_empty() { FallbackReads::here() } else { FallbackReads::default() }
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

    #[test]
    fn buckets_become_a_distribution_in_order() {
        let bucket = |lower, count| Bucket { lower, width: 1, count };
        let latency = from_buckets(&[bucket(30, 1), bucket(20, 9), bucket(25, 0)], Some(30));
        let buckets = vec![(20, 9), (30, 1)];
        assert_eq!(latency, Some(Latency { p50: 20, p90: 20, p99: 30, max: 30, buckets }));
        assert_eq!(from_buckets(&[], None), None);
    }
}
