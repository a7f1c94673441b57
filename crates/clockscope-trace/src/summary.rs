//! Makes the report from the counts.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsString;
use std::time::Instant;

use fastclock::ClockId;

use crate::clock_reads::{Context, ReadCosts, clock_reads, same_tick_share};
use crate::fallback_reads::{self, FallbackReads};
use crate::observers::Observed;
use crate::plan::Plan;
use crate::rows::{syscall_rows, vdso_rows};
use crate::sampling::Exact;
use crate::throttling::Throttling;
use crate::tick_time::TickTime;
use crate::verdict::verdict;
use crate::{clock_page, counter, counter_reads, nanos};
use clockscope_containers::place::Place;
use clockscope_measure::host;
use clockscope_model::trace::{
    Attached, BySites, Clock, DeclineRow, Missing, Overhead, ProcessDetail, SyscallRow,
    ThreadDetail, TraceReport, VdsoRow, Way,
};
use clockscope_report::what_if;
use clockscope_stats::timed;
use clockscope_sys::tsc;
use clockscope_syscalls::{Abi, SyscallTally};
use clockscope_text::foreign::Foreign;
use clockscope_tracee::attach::{self, command_name, thread_name};
use clockscope_tracee::counts::Calls;
use clockscope_tracee::decline::Decline;
use clockscope_tracee::follow::{End, Followed};
use clockscope_tracee::processes::{Process, Processes};
use clockscope_tracee::session::Session;
use clockscope_tracee::site_words::{SiteCalls, TimedCalls};

/// One entry a process.
fn processes_detail(
    data: &RunData<'_>,
    tallies: &[SyscallTally],
    time: &TickTime,
) -> Vec<ProcessDetail> {
    let (plan, counted) = (data.plan, &data.counted);
    let vdso = |calls: &Calls| {
        let mut rows = vdso_rows(calls, None, time);
        rows.retain(|row| plan.filter.matches(&row.function));
        rows
    };
    let syscalls = |pick: &dyn Fn(&SyscallTally) -> bool| {
        let mut rows = syscall_rows(tallies.iter().filter(|it| pick(it)), &counted.cost, false);
        rows.retain(|row| plan.filter.matches(&row.name));
        rows
    };
    let thread = |process: &Process, tid: i32| ThreadDetail {
        tid,
        name: if process.alive { thread_name(process.pid, tid) } else { Foreign::default() },
        vdso: process.threads.get(&tid).map(&vdso).unwrap_or_default(),
        syscalls: syscalls(&|tally| tally.pid == process.pid && tally.tid == tid),
    };
    let attached = data.attached.iter();
    let mut places: HashMap<i32, Place> =
        attached.map(|row| (row.pid, row.place.clone())).collect();
    let detail = |process: &Process| {
        let own = syscalls(&|tally| tally.pid == process.pid);
        let own_vdso = vdso(&process.calls);
        // A process without a place of its own has its parent's. Parents come before their children.
        let parents = || process.parent.and_then(|parent| places.get(&parent));
        let place = places.get(&process.pid).or_else(parents).cloned();
        places.extend(place.clone().map(|place| (process.pid, place)));
        let threads = || thread_ids(process.pid, &process.threads, tallies).into_iter();
        ProcessDetail {
            pid: process.pid,
            parent: process.parent,
            command: process.command.clone(),
            title: title(process),
            vdso_calls: own_vdso.iter().map(|row| row.calls).sum(),
            syscall_calls: (plan.by_process() && counted.via != Way::None)
                .then(|| own.iter().map(|row| row.calls).sum()),
            vdso: if plan.by_process() { own_vdso } else { Vec::new() },
            syscalls: if plan.by_process() { own } else { Vec::new() },
            threads: if plan.by_thread() {
                threads().map(|tid| thread(process, tid)).collect()
            } else {
                Vec::new()
            },
            place: place.unwrap_or_default(),
        }
    };
    data.processes.all().iter().map(detail).collect()
}

/// The present title of a process; empty if the process has ended.
fn title(process: &Process) -> Foreign {
    // Another process may have the id by now.
    let is_it = process.alive && command_name(process.pid) == process.command;
    if is_it { attach::title(process.pid) } else { Foreign::default() }
}

fn thread_ids(pid: i32, counted: &HashMap<i32, Calls>, tallies: &[SyscallTally]) -> BTreeSet<i32> {
    let called = tallies.iter().filter(|tally| tally.pid == pid && tally.tid != 0);
    counted.keys().copied().chain(called.map(|tally| tally.tid)).collect()
}

/// Results of a run, for the report.
pub(crate) struct RunData<'a> {
    /// The plan, which selects the content of the report.
    pub plan: &'a Plan,
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// The session, which converts ticks.
    pub session: &'a Session,
    /// Start of the program.
    pub started: Instant,
    /// Kind and time of the program's end.
    pub followed: Followed,
    /// The program's processes.
    pub processes: &'a Processes,
    /// The counts of system calls.
    pub counted: counter::Counted,
    /// Cost of reads by system call, measured while the program was not traced.
    pub costs: ReadCosts,
    /// Cost of reads through the kernel's vDSO, measured before the program started; only for a verdict on
    /// the clock.
    pub by_vdso: Option<ReadCosts>,
    /// Upkeep of the clock page.
    pub kept: Option<clockscope_timekeeper::Report>,
    /// The groups of the processes at the start.
    pub throttling: Throttling,
    /// Results of the observers.
    pub seen: Observed,
    /// The processes that were attached to.
    pub attached: Vec<Attached>,
    /// Missing parts of the processes that were attached to.
    pub declines: Vec<DeclineRow>,
}

/// Makes the report.
pub(crate) fn report(mut data: RunData<'_>) -> TraceReport {
    let (plan, processes) = (data.plan, data.processes);
    let seen = std::mem::take(&mut data.seen);
    let by_code = (data.counted.via == Way::Sites).then(|| site_tallies(processes));
    let tallies = by_code.as_ref().unwrap_or(&data.counted.tallies);
    let cost = &data.counted.cost;
    let time = TickTime::of(data.session, &processes.timings);
    let mut vdso = vdso_rows(&processes.total(), Some(&processes.timings), &time);
    vdso.retain(|row| plan.filter.matches(&row.function));
    let mut syscalls = syscall_rows(tallies, cost, plan.syscalls.latency);
    if by_code.is_some() {
        fill_from_sites(&mut syscalls, processes, &time);
    }
    syscalls.retain(|row| plan.filter.matches(&row.name));
    let wall_ns = nanos(data.followed.ended.duration_since(data.started));
    // Children that the program waited for may have escaped the tracer; a program that does not wait has
    // children, too. The larger of the two times counts.
    let cpu_ns = nanos(data.followed.cpu.max(processes.cpu()));
    let tick_ns = u64::try_from(tsc::resolution(ClockId::MonotonicCoarse).0).unwrap_or(0);
    let context = Context {
        wall_ns,
        costs: data.costs,
        tick_ns,
        passed_on: passed_on(&vdso, &syscalls),
        clock: plan.clock,
    };
    let same_tick = same_tick_share(&processes.timings, &time, tick_ns);
    let (exit_code, signal) = exit_code_and_signal(data.followed.end);
    let exact = Exact { processes, tallies, scale: time.scale, cpu_ns, filter: &plan.filter };
    let callers = seen.sampling.map(|sampling| sampling.finish(&exact));
    let timed = vdso.iter().any(|row| row.timed > 0);
    let moments = seen.timeline.map(|moments| moments.until_end(wall_ns, &vdso, &syscalls));
    let in_order = plan.clock == Clock::Tsc;
    let page = |kept| clock_page::report(kept, &vdso, &processes.timings, in_order);
    let mut report = TraceReport {
        schema: 1,
        command: data.command.iter().map(|word| word.as_os_str().into()).collect(),
        exit_code,
        signal,
        wall_ns,
        cpu_ns,
        queued_ns: nanos(processes.queued),
        throttled_ns: data.throttling.since_ns(),
        processes: processes.all().len() as u64,
        threads: processes.threads,
        via: Some(data.counted.via),
        clock_reads: clock_reads(&vdso, &syscalls, same_tick, &context),
        processes_detail: processes_detail(&data, tallies, &time),
        declines: not_counted(&data),
        counters: plan.syscalls.counters.then(|| counter_reads::counted(&processes.counted_reads)),
        counter_reads: seen.counters,
        overhead: Overhead {
            syscall_probe_ps: cost.per_call_ps(),
            bystander_tax_ps: cost.bystander_tax_ps(),
            syscall_subtracted_ps: cost.span_ps.saturating_sub(cost.untraced_ps),
            vdso_bracket_ps: if timed { time.bracket_ps() } else { 0 },
        },
        clock_page: data.kept.as_ref().map(page),
        verdict: data.by_vdso.map(|costs| verdict(&vdso, tick_ns, plan.clock, &costs)),
        by_sites: if by_code.is_some() { Vec::new() } else { compared(&data) },
        vdso,
        syscalls,
        timeline: moments.unwrap_or_default(),
        callers,
        attached: data.attached,
        host: plan.host.then(host::without_tsc_rate),
        ..TraceReport::default()
    };
    report.what_if = plan.what_if.map(|question| what_if::answer(&report, question));
    report
}

/// The counts by code in the programs.
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

/// Fills in the errors and times that code in the programs has seen; unknown where it has not seen all calls.
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

/// The counts by code in the programs beside the kernel's, for each wanted call; empty if code has counted none.
fn compared(data: &RunData<'_>) -> Vec<BySites> {
    let in_program = data.processes.site_words();
    let in_kernel = &data.counted.tallies;
    if in_program.calls().next().is_none() {
        return Vec::new();
    }
    let mut rows: BTreeMap<String, BySites> = BTreeMap::new();
    // With `--counts-only` no tally is timed.
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
    rows.into_values().filter(|row| data.plan.filter.matches(&row.name)).collect()
}

/// The report's list of missing parts, with reasons.
fn not_counted(data: &RunData<'_>) -> Vec<DeclineRow> {
    let of_process = |process: &Process| {
        let row = |(command, why): &(Foreign, Decline)| DeclineRow {
            pid: process.pid,
            command: command.clone(),
            what: Missing::Vdso,
            reason: why.to_string(),
        };
        process.declines.iter().map(row).collect::<Vec<_>>()
    };
    let row = |what, reason: &String| DeclineRow {
        what,
        reason: reason.clone(),
        ..DeclineRow::default()
    };
    let of_counters = data.processes.lost_counters.iter().map(|it| row(Missing::Counter, it));
    let of_sites = data.processes.lost_sites.iter().map(|it| row(Missing::Syscalls, it));
    let all = data.processes.all().iter().flat_map(of_process);
    let all = all.chain(of_counters).chain(data.counted.losses.iter().cloned()).chain(of_sites);
    all.chain(data.declines.iter().cloned()).collect()
}

/// The reads that this host's vDSO passes on, if there were both vDSO calls and reads by system call.
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
