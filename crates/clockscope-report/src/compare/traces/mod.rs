//! Two reports of `trace`, compared: what a clock read costs in each, which calls came, went and changed, and who
//! makes them.
//!
//! There is one run of each. Calls are counted, so that they differ is certain; whether they would differ again is
//! not. Costs are compared by intervals that contain what timing is known to be wrong by.

mod callers;
mod costs;
mod notes;
pub mod sentences;
pub mod text;
pub mod trace_file;

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::{answers, latency};
use clockscope_model::reads;
use clockscope_model::trace::TraceReport;
use clockscope_model::trace_compare::{
    CallChange, CallSide, Change, Cost, CostChange, SCHEMA, TraceCompareReport, TraceSide,
};

/// A saved report of `trace`.
#[derive(Clone, Debug, Default)]
pub struct TraceSource {
    /// Name of its file, `-` for standard input.
    pub file: String,
    /// The report.
    pub report: TraceReport,
}

/// Compares the second report with the first. What differs by less than `min_effect_percent` is no change.
pub fn compare(
    before: &TraceSource,
    after: &TraceSource,
    min_effect_percent: f64,
) -> TraceCompareReport {
    let matters = Matters(min_effect_percent / 100.0);
    let mut report = TraceCompareReport {
        schema: SCHEMA,
        min_effect_percent,
        before: side(before),
        after: side(after),
        rows: rows(&before.report, &after.report, matters),
        callers: callers::compare(&before.report, &after.report, matters),
        host_changes: notes::host_changes(before, after),
        ..TraceCompareReport::default()
    };
    report.notes = notes::notes(before, after, &report);
    report.conclusion = sentences::conclusion(&report);
    report
}

fn side(source: &TraceSource) -> TraceSide {
    let report = &source.report;
    let reads = &report.clock_reads;
    let share = answers::ratio(reads.time_ns, report.cpu_ns);
    TraceSide {
        file: source.file.clone(),
        command: report.command.clone(),
        wall_ns: report.wall_ns,
        cpu_ns: report.cpu_ns,
        reads: reads.reads,
        reads_per_second: per_second(reads.reads, report),
        read_cost: costs::of_a_read(report),
        cpu_share: (reads.time_ns > 0 && report.cpu_ns > 0).then_some(share),
        falls_back: (reads.clocksource_reads > 0).then(|| answers::has_fallen_back(reads)),
    }
}

/// Calls a second of the time that was counted; 0 if that is not known.
fn per_second(calls: u64, report: &TraceReport) -> f64 {
    if report.wall_ns == 0 { 0.0 } else { answers::ratio(calls, report.wall_ns) * 1e9 }
}

/// The smallest change that matters, as a share of the lesser value.
#[derive(Clone, Copy, Debug)]
struct Matters(f64);

impl Matters {
    /// Whether `after` is beyond `before`, by as much as matters.
    fn is_more(self, before: f64, after: f64) -> bool {
        after > before * (1.0 + self.0)
    }

    /// How calls changed: both their number and their rate must have, because one of the two differs between any
    /// two runs that did not take equally long.
    fn change(self, before: (f64, f64), after: (f64, f64)) -> Change {
        let direction = |before: f64, after: f64| {
            i8::from(self.is_more(before, after)) - i8::from(self.is_more(after, before))
        };
        match (direction(before.0, after.0), direction(before.1, after.1)) {
            (1, 1) => Change::More,
            (-1, -1) => Change::Fewer,
            (1, -1) | (-1, 1) => Change::Mixed,
            _ => Change::Same,
        }
    }

    /// How a cost changed: by as much as matters, and beyond both intervals.
    fn cost_change(self, before: &Cost, after: &Cost) -> CostChange {
        let (Some(a), Some(b)) = (costs::ends(before), costs::ends(after)) else {
            return CostChange::NotKnown;
        };
        let averages = [before, after].map(|cost| answers::ratio(cost.average_ps, 1));
        if b.0 > a.1 && self.is_more(averages[0], averages[1]) {
            CostChange::Dearer
        } else if a.0 > b.1 && self.is_more(averages[1], averages[0]) {
            CostChange::Cheaper
        } else {
            CostChange::Same
        }
    }
}

/// What was called, in one report.
struct Row<'a> {
    via: &'static str,
    name: &'a str,
    clock: Option<&'a str>,
    side: CallSide,
}

fn rows_of(report: &TraceReport, with_syscalls: bool) -> Vec<Row<'_>> {
    let vdso = report.vdso.iter().map(|row| Row {
        via: "vdso",
        name: &row.function,
        clock: row.clock.as_deref(),
        side: CallSide {
            calls: row.calls,
            per_second: per_second(row.calls, report),
            cost: costs::of_vdso(row, report),
        },
    });
    let syscalls = report.syscalls.iter().filter(|_| with_syscalls).map(|row| Row {
        via: "syscall",
        name: &row.name,
        clock: None,
        side: CallSide {
            calls: row.calls,
            per_second: per_second(row.calls, report),
            cost: costs::of_syscall(row),
        },
    });
    vdso.chain(syscalls).filter(|row| row.side.calls > 0).collect()
}

/// Whether both reports have counted system calls.
fn have_syscalls(before: &TraceReport, after: &TraceReport) -> bool {
    [before, after].iter().all(|report| report.via != "none")
}

fn rows(before: &TraceReport, after: &TraceReport, matters: Matters) -> Vec<CallChange> {
    let with_syscalls = have_syscalls(before, after);
    let mut rows: Vec<CallChange> = Vec::new();
    let mut known: HashMap<_, usize> = HashMap::new();
    for (is_first, report) in [(true, before), (false, after)] {
        for row in rows_of(report, with_syscalls) {
            let index = *known.entry((row.via, row.name, row.clock)).or_insert_with(|| {
                rows.push(CallChange {
                    via: row.via.to_owned(),
                    name: row.name.to_owned(),
                    clock: row.clock.map(str::to_owned),
                    is_read: reads::source(row.name, row.clock).is_some(),
                    ..CallChange::default()
                });
                rows.len() - 1
            });
            let side = if is_first { &mut rows[index].before } else { &mut rows[index].after };
            *side = row.side;
        }
    }
    let is_timed_alike = before.via == after.via;
    for row in &mut rows {
        judge(row, matters, is_timed_alike);
    }
    rows.sort_by_key(|row| {
        let time = |side: &CallSide| {
            let each = side.cost.map_or(1, |cost| u128::from(cost.average_ps));
            u128::from(side.calls) * each
        };
        (!row.is_read, Reverse(time(&row.before).max(time(&row.after))))
    });
    rows
}

fn judge(row: &mut CallChange, matters: Matters, is_timed_alike: bool) {
    let (before, after) = (&row.before, &row.after);
    row.change = match (before.calls, after.calls) {
        (0, _) => Change::Came,
        (_, 0) => Change::Went,
        (a, b) => {
            let calls = (answers::ratio(a, 1), answers::ratio(b, 1));
            matters.change((calls.0, before.per_second), (calls.1, after.per_second))
        }
    };
    let is_often = |side: &CallSide| side.per_second >= answers::ratio(latency::RARE, 1);
    if let (Some(a), Some(b)) = (&before.cost, &after.cost)
        && (row.via == "vdso" || is_timed_alike)
        && is_often(before)
        && is_often(after)
    {
        row.cost_change = matters.cost_change(a, b);
    }
}

#[cfg(test)]
mod tests;
