//! Reports of `trace` in the form for comparison: the costs of calls. Counts are exact, but differ from run
//! to run: they are printed, not judged.

use super::host_changes;
use super::judge::Path;
use crate::{costs, latency};
use clockscope_model::compare::Cost;
use clockscope_model::trace::{TraceReport, VdsoRow, Way};
use clockscope_model::{names, reads};
use clockscope_stats::timed::TIMED_MIN;
use clockscope_text::foreign::joined;
use clockscope_text::units;

/// The average clock read, the vDSO functions, and system calls that read a clock; other system calls contain
/// waits.
pub(super) fn paths(report: &TraceReport, with_syscalls: bool) -> Vec<Path> {
    let average =
        a_read(report).into_iter().map(|cost| path("a clock read".to_owned(), Some(cost), true));
    let vdso = report.vdso.iter().filter(|row| row.calls > 0).map(|row| {
        let name = names::with_clock(&row.function, row.clock.as_deref());
        let cost = row.has_time().then(|| cost(row.time_avg_ps, within(row, report)));
        path(name, cost, is_often(row.calls, report))
    });
    let is_read = |name: &str| with_syscalls && reads::source(name, None).is_some();
    let syscalls =
        report.syscalls.iter().filter(|row| row.calls > 0 && is_read(&row.name)).map(|row| {
            // These calls run in the kernel beside all its other work: two runs of one program differ by this much.
            let within = (row.time_avg_ps / 3).saturating_add(row.time_avg_within_ps.unwrap_or(0));
            let is_known = row.time_total_ns > 0 && row.calls >= TIMED_MIN;
            let cost = is_known.then(|| cost(row.time_avg_ps, within));
            let name = format!("{} [syscall]", names::with_clock(&row.name, None));
            path(name, cost, is_often(row.calls, report))
        });
    average.chain(vdso).chain(syscalls).collect()
}

fn path(name: String, cost: Option<Cost>, is_often: bool) -> Path {
    Path { name, cost, is_unusable: !is_often, ..Path::default() }
}

/// Whether the calls find warm caches; if not, their cost depends on the program's other work.
fn is_often(calls: u64, report: &TraceReport) -> bool {
    costs::ratio(calls, report.wall_ns.max(1)) * 1e9 >= costs::ratio(latency::RARE, 1)
}

fn cost(ps: u64, within_ps: u64) -> Cost {
    Cost { ps, low_ps: ps.saturating_sub(within_ps), high_ps: ps.saturating_add(within_ps) }
}

/// Half of the interval of the cost of a vDSO call. It includes half of the cost of timing: that cost is measured once
/// a run and subtracted, and on a busy machine two runs measure costs that differ this much.
fn within(row: &VdsoRow, report: &TraceReport) -> u64 {
    // A known cost is within one half; older reports have no interval.
    let sampled_ps = row.time_avg_within_ps.unwrap_or(row.time_avg_ps / 2);
    sampled_ps.saturating_add(report.overhead.vdso_bracket_ps / 2)
}

/// The average cost of a read, over all clocks that the program reads.
fn a_read(report: &TraceReport) -> Option<Cost> {
    let all = &report.clock_reads;
    if all.time_ns == 0 || all.reads == 0 {
        return None;
    }
    let is_read = |row: &&VdsoRow| {
        row.has_time() && reads::source(&row.function, row.clock.as_deref()).is_some()
    };
    let timed = report.vdso.iter().filter(is_read);
    let sums = timed.map(|row| u128::from(within(row, report)) * u128::from(row.calls));
    let picos = |sum: u128| u64::try_from(sum / u128::from(all.reads)).unwrap_or(u64::MAX);
    Some(cost(picos(u128::from(all.time_ns) * 1_000), picos(sums.fold(0, u128::saturating_add))))
}

/// One clause for each difference between the hosts.
pub(super) fn host_changes(before: &TraceReport, after: &TraceReport) -> Vec<String> {
    match (&before.host, &after.host) {
        (Some(a), Some(b)) => host_changes::between(a, b),
        _ => Vec::new(),
    }
}

/// Number of clock reads of each run, and the limits of the comparison.
pub(super) fn notes(both: [(&String, &TraceReport); 2]) -> Vec<String> {
    let [(_, a), (_, b)] = both;
    let mut notes = vec![
        format!("Clock reads: {}; then {}.", how_often(a), how_often(b)),
        "There is one run of each; a second run may differ by the load of the machine.".to_owned(),
    ];
    let [was, is] = [a, b].map(name);
    if was != is {
        notes.push(format!("The commands differ: {was}, then {is}."));
    }
    if a.via != b.via {
        let [was, is] = [a, b].map(|report| report.via.map_or("unknown means", Way::name));
        notes.push(format!(
            "System calls were counted by {was}, then by {is}, so their costs are not compared."
        ));
    }
    for (file, report) in both {
        if !report.declines.is_empty() {
            notes.push(format!("{file} lacks calls that were not counted; its report says which."));
        }
        if report.host.is_none() {
            notes.push(format!("{file} does not say on which machine it was made."));
        }
    }
    notes
}

fn how_often(report: &TraceReport) -> String {
    let reads = &report.clock_reads;
    let mut text = units::count(reads.reads);
    if let Some(rate) = units::rate(costs::ratio(reads.reads, report.wall_ns.max(1)) * 1e9) {
        text += &format!(", {rate} a second");
    }
    if reads.time_ns > 0 && report.cpu_ns > 0 {
        let share = units::share(costs::ratio(reads.time_ns, report.cpu_ns));
        text += &format!(", {share} of the CPU time");
    }
    text
}

/// The traced programs, without process ids.
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
