//! What differs between the hosts of two traces, and what is not certain about the comparison.

use super::{TraceSource, callers, have_syscalls};
use crate::answers;
use crate::compare::host_changes;
use clockscope_model::trace::TraceReport;
use clockscope_model::trace_compare::TraceCompareReport;
use clockscope_text::foreign::joined;
use clockscope_text::units;

/// Costs of a system call that differ by less say nothing about the hosts: they are the cheapest of a few batches.
const SYSCALL_DIFFERS: f64 = 1.25;
/// Numbers of reads that differ by less are taken for those of the same work.
const SAME_WORK: f64 = 0.01;
/// Fewer reads are alike by chance.
const READS_LEAST: u64 = 1_000;

/// One clause for each difference.
pub(super) fn host_changes(before: &TraceSource, after: &TraceSource) -> Vec<String> {
    let (a, b) = (&before.report, &after.report);
    let mut clauses = match (&a.host, &b.host) {
        (Some(a), Some(b)) => host_changes::between(a, b),
        _ => Vec::new(),
    };
    let (reads_a, reads_b) = (&a.clock_reads, &b.clock_reads);
    let is_known = reads_a.clocksource_reads > 0 && reads_b.clocksource_reads > 0;
    let by =
        |falls_back| if falls_back { "passed on to the kernel" } else { "answered in user space" };
    let [was, is] = [reads_a, reads_b].map(answers::has_fallen_back);
    let has_said = clauses.iter().any(|clause| clause.starts_with("vDSO: "));
    if is_known && was != is && !has_said {
        clauses.push(format!("clock reads: {}, then {}", by(was), by(is)));
    }
    let [was, is] = [reads_a, reads_b].map(|reads| reads.syscall_read_ps);
    if was > 0 && is > 0 && answers::ratio(was.max(is), was.min(is)) >= SYSCALL_DIFFERS {
        let (was, is) = (units::picos(was), units::picos(is));
        clauses.push(format!("a clock read by system call: {was}, then {is}"));
    }
    let [was, is] = [reads_a, reads_b].map(|reads| reads.tick_ns);
    let is_said = a.host.is_some() && b.host.is_some();
    if !is_said && was > 0 && is > 0 && was != is {
        clauses.push(format!("timer tick: {}, then {}", units::nanos(was), units::nanos(is)));
    }
    clauses
}

/// What to bear in mind, one sentence each.
pub(super) fn notes(
    before: &TraceSource,
    after: &TraceSource,
    report: &TraceCompareReport,
) -> Vec<String> {
    let both = [before, after];
    let mut notes = vec![work(report)];
    let names = both.map(|source| name(&source.report));
    if names[0] != names[1] {
        notes.push(format!("The commands differ: {}, then {}.", names[0], names[1]));
    }
    let (a, b) = (&before.report, &after.report);
    if a.via != b.via {
        notes.push(if have_syscalls(a, b) {
            format!(
                "System calls were counted by {}, then by {}, so their times cannot be held against each other.",
                a.via, b.via
            )
        } else {
            "One report did not count system calls, so they are not compared.".to_owned()
        });
    }
    for source in both.into_iter().filter(|source| !source.report.declines.is_empty()) {
        let file = &source.file;
        notes.push(format!("{file} lacks calls that were not counted; its report says which."));
    }
    for source in both.into_iter().filter(|source| source.report.host.is_none()) {
        notes.push(format!("{} does not say on which machine it was made.", source.file));
    }
    match [a, b].map(|report| report.callers.is_some()) {
        [true, true] if callers::has_unnamed(a) || callers::has_unnamed(b) => notes.push(
            "Callers without a name are matched by file and offset, so both must be of one build."
                .to_owned(),
        ),
        [false, true] => {
            notes.push(format!("{} has no callers; trace with --callers.", before.file))
        }
        [true, false] => {
            notes.push(format!("{} has no callers; trace with --callers.", after.file))
        }
        _ => {}
    }
    notes
}

/// Whether totals and rates can be held against each other.
fn work(report: &TraceCompareReport) -> String {
    let (a, b) = (report.before.reads, report.after.reads);
    let least = answers::ratio(a.min(b), 1);
    if a.min(b) >= READS_LEAST && answers::ratio(a.abs_diff(b), 1) <= least * SAME_WORK {
        "Both read the clock as often in all, as two runs of the same work do: compare numbers of calls."
            .to_owned()
    } else {
        "They did not read the clock equally often, or hardly at all: unless both did the same work, compare calls a second and shares."
            .to_owned()
    }
}

/// What was traced, without the numbers of processes.
fn name(report: &TraceReport) -> String {
    if report.attached.is_empty() {
        return joined(&report.command, " ");
    }
    let mut names: Vec<String> =
        report.attached.iter().map(|attached| attached.command.printable()).collect();
    names.sort();
    names.dedup();
    names.join(", ")
}
