//! Makes a reading of counts.

use std::time::Duration;

use vdso_image::layout::COUNTERS;

use crate::rows;
use crate::tick_time::TickTime;
use clockscope_model::callers::Called;
use clockscope_model::reads;
use clockscope_model::trace::{SyscallRow, VdsoRow};
use clockscope_report::top::reading::{Reading, Row};
use clockscope_syscalls::filter::Filter;
use clockscope_syscalls::{ProbeCost, SyscallTally};
use clockscope_tracee::processes::Processes;
use clockscope_tracee::session::Session;

/// The present counts of the calls that `filter` accepts.
pub(super) fn of(
    processes: &Processes,
    tallies: &[SyscallTally],
    cost: &ProbeCost,
    session: &Session,
    filter: &Filter,
) -> Reading {
    let (calls, timings) = (processes.snapshot(), processes.timings_so_far());
    let time = TickTime::of(session, &timings);
    let mut rows = Vec::new();
    for counter in (0..COUNTERS).filter(|counter| calls[*counter] > 0) {
        let mut alone = [0; COUNTERS];
        alone[counter] = calls[counter];
        let row = rows::vdso_rows(&alone, Some(&timings), &time).pop();
        rows.extend(row.and_then(|row| vdso(counter, &row)));
    }
    let by_call = rows::syscall_rows(tallies, cost, false);
    rows.extend(by_call.iter().map(syscall));
    rows.retain(|row| filter.matches(function(&row.name)));
    let alive = processes.all().iter().filter(|process| process.alive).count();
    Reading { at: Duration::ZERO, processes: alive as u64, rows }
}

/// A row of the vDSO.
fn vdso(counter: usize, row: &VdsoRow) -> Option<Row> {
    let name = match &row.clock {
        // In the form of the summary.
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

/// The function in a row's name.
fn function(name: &str) -> &str {
    name.split('(').next().unwrap_or(name)
}
