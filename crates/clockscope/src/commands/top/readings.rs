//! From counts to a reading.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use vdso_image::layout::COUNTERS;

use super::super::groups;
use clockscope_containers::files::Lookup;
use clockscope_model::callers::Called;
use clockscope_model::reads;
use clockscope_model::trace::{SyscallRow, VdsoRow};
use clockscope_report::top::reading::{ProcessRow, Reading, Row};
use clockscope_sys::access;
use clockscope_syscalls::filter::Filter;
use clockscope_syscalls::{ProbeCost, SyscallTally};
use clockscope_trace::summary::{self, TickTime};
use clockscope_tracee::attach;
use clockscope_tracee::counts::Calls;
use clockscope_tracee::processes::Processes;
use clockscope_tracee::session::Session;

/// More processes than a screen has lines.
const PROCESSES_MAX: usize = 200;

/// What was counted until now.
pub(super) struct Counted<'a> {
    /// By the image.
    pub(super) processes: &'a Processes,
    /// By the kernel, or at stops.
    pub(super) tallies: &'a [SyscallTally],
    /// What that costs.
    pub(super) cost: &'a ProbeCost,
    /// Whether anybody looks at the processes: asking for them takes time while programs may wait.
    pub(super) shows_processes: bool,
}

/// The rows that `filter` picks.
pub(super) fn of(
    counted: &Counted<'_>,
    session: &Session,
    filter: &Filter,
    containers: &mut Lookup,
) -> Reading {
    let processes = counted.processes;
    let (calls, timings) = (processes.snapshot(), processes.timings_so_far());
    let time = TickTime::of(session, &timings);
    let mut rows = Vec::new();
    for counter in (0..COUNTERS).filter(|counter| calls[*counter] > 0) {
        let mut alone = [0; COUNTERS];
        alone[counter] = calls[counter];
        let row = summary::vdso_rows(&alone, Some(&timings), &time).pop();
        rows.extend(row.and_then(|row| vdso(counter, &row)));
    }
    let by_call = summary::syscall_rows(counted.tallies, counted.cost, false);
    rows.extend(by_call.iter().map(syscall));
    rows.retain(|row| filter.matches(function(&row.name)));
    let alive = processes.all().iter().filter(|process| process.alive).count();
    Reading {
        at: Duration::ZERO,
        processes: alive as u64,
        rows,
        by_process: if counted.shows_processes {
            by_process(processes, &time, filter, containers)
        } else {
            Vec::new()
        },
    }
}

/// The living processes that read clocks most.
fn by_process(
    processes: &Processes,
    time: &TickTime,
    filter: &Filter,
    containers: &mut Lookup,
) -> Vec<ProcessRow> {
    let reads_clocks = |row: &VdsoRow| {
        reads::source(&row.function, row.clock.as_deref()).is_some()
            && filter.matches(&row.function)
    };
    let clock_reads = |calls: &Calls| -> u64 {
        let rows = summary::vdso_rows(calls, None, time);
        rows.iter().filter(|row| reads_clocks(row)).map(|row| row.calls).sum()
    };
    let living = processes.all().iter().enumerate().filter(|(_, process)| process.alive);
    let mut all: Vec<(u64, i32)> = living
        .map(|(index, process)| (clock_reads(&processes.calls_so_far(index)), process.pid))
        .collect();
    all.sort_by(|a, b| b.cmp(a));
    let row = |(clock_reads, pid)| ProcessRow {
        pid,
        title: attach::title(pid).to_string(),
        container: groups::place_of(pid, containers).container_name(),
        clock_reads,
        cpu: access::cpu_time(pid),
    };
    all.into_iter().take(PROCESSES_MAX).map(row).collect()
}

/// A row of the vDSO.
fn vdso(counter: usize, row: &VdsoRow) -> Option<Row> {
    let name = match &row.clock {
        // As the summary has it.
        Some(clock) => {
            let clock = clock.strip_prefix("CLOCK_").unwrap_or(clock);
            format!("{}({clock})", row.function)
        }
        None => row.function.clone(),
    };
    Some(Row {
        key: Called::Vdso(u8::try_from(counter).ok()?),
        name,
        calls: row.calls,
        time_ns: if row.has_time() { row.time_total_ns } else { 0 },
        is_clock: reads::source(&row.function, row.clock.as_deref()).is_some(),
        waits: false,
    })
}

/// A row of system calls.
fn syscall(row: &SyscallRow) -> Row {
    Row {
        key: Called::Syscall(row.number),
        name: row.name.clone(),
        calls: row.calls,
        time_ns: row.time_total_ns,
        is_clock: reads::source(&row.name, None).is_some(),
        waits: row.waits,
    }
}

/// The function of a row's name.
fn function(name: &str) -> &str {
    name.split('(').next().unwrap_or(name)
}

/// Seconds since 1970, UTC.
pub(super) fn unix_seconds() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
