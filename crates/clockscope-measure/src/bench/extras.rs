//! What is measured beside the cost of a call: in work, on threads, and its instructions.

use std::time::Duration;

use super::Request;
use super::chosen::{self, Chosen};
use super::evaluation::picos;
use crate::path::{Path, Route};
use crate::{batch, in_work, instructions, threads};
use clockscope_model::bench::{
    BenchReport, InWorkRow, Instructions, InstructionsRow, PathName, ThreadsRow,
};
use clockscope_stats::gated::Grade;
use clockscope_stats::paired::Judged;
use clockscope_sys::affinity;
use clockscope_sys::own_vdso;
use clockscope_sys::perf_counters::PerfCounters;

/// Repeats of executing a call step by step: a retried pass of the vDSO is rare.
const STEPPED_REPEATS: u32 = 15;
/// Time for all paths on all numbers of threads.
const THREADS_TIME: Duration = Duration::from_secs(6);
const THREADS_TIME_QUICK: Duration = Duration::from_secs(1);
/// Limits of the time for one path on one number of threads.
const WINDOW_MIN: Duration = Duration::from_millis(60);
const WINDOW_MAX: Duration = Duration::from_millis(600);

/// What is wanted beside the cost of a call.
#[derive(Clone, Debug, Default)]
pub struct Extras {
    /// What one call adds inside compute-bound and memory-bound work.
    pub in_work: bool,
    /// Numbers of threads.
    pub threads: Vec<u32>,
    /// The instructions of one call.
    pub instructions: bool,
}

/// Measures what is wanted and adds it to the report. The paths are those of the request, which the threads
/// make anew for themselves. `begin` is told what is measured next.
pub fn add(
    extras: &Extras,
    request: &Request,
    chosen: &Chosen,
    report: &mut BenchReport,
    begin: &dyn Fn(&str),
) {
    if extras.in_work {
        begin("in work");
        let cpu = report.method.cpu;
        report.in_work = on_cpu(cpu, || in_work(&chosen.paths, request.quick));
    }
    if !extras.threads.is_empty() {
        begin("threads");
        let copies = || chosen::choose(request).map(|chosen| chosen.paths).unwrap_or_default();
        let cpus = cpus(report.method.cpu, affinity::allowed().unwrap_or_default());
        let (rows, notes) = threads(&copies, &extras.threads, &cpus, request.quick);
        report.threads = rows;
        report.notes.extend(notes);
    }
    if extras.instructions {
        begin("instructions");
        let (instructions, notes) = instructions(&chosen.paths);
        report.instructions = Some(instructions);
        report.notes.extend(notes);
    }
}

/// Works on one CPU, as the launches did, and gives the thread its CPUs back.
fn on_cpu<T>(cpu: Option<u32>, work: impl FnOnce() -> T) -> T {
    let before = affinity::allowed();
    if let Some(cpu) = cpu {
        // Where pinning is refused the report says so already.
        let _ = affinity::restrict_to(&[cpu]);
    }
    let answer = work();
    if let Ok(before) = before {
        let _ = affinity::restrict_to(&before);
    }
    answer
}

/// The CPUs for threads: the one that was measured on first.
fn cpus(first: Option<u32>, allowed: Vec<u32>) -> Vec<u32> {
    let is_first = |cpu: &u32| Some(*cpu) == first;
    let (first, others): (Vec<u32>, Vec<u32>) = allowed.into_iter().partition(is_first);
    [first, others].concat()
}

/// The paths with a call in them.
fn with_call(paths: &[Path]) -> Vec<&Path> {
    paths.iter().filter(|path| path.route != Route::None).collect()
}

/// What one call of each path adds to work; the calling thread should be pinned.
pub fn in_work(paths: &[Path], quick: bool) -> Vec<InWorkRow> {
    let limits = if quick {
        in_work::InWorkLimits {
            batch_ns: batch::BATCH_NS / 4,
            rounds_min: 30,
            rounds_max: 200,
            time: Duration::from_millis(1_000),
        }
    } else {
        in_work::InWorkLimits {
            batch_ns: batch::BATCH_NS,
            rounds_min: 30,
            rounds_max: 1_000,
            time: Duration::from_secs(6),
        }
    };
    let paths = with_call(paths);
    let found = in_work::measure(&paths, &limits);
    let row = |(path, found): (&&Path, Option<in_work::InWork>)| {
        Some(in_work_row(chosen::name_of(path), &found?))
    };
    paths.iter().zip(found).filter_map(row).collect()
}

fn in_work_row(name: PathName, found: &in_work::InWork) -> InWorkRow {
    let interval = |of: &Judged| (signed_picos(of.ns.low), signed_picos(of.ns.high));
    InWorkRow {
        name,
        alone_ps: picos(found.alone.ns.median),
        compute_ps: signed_picos(found.compute.ns.median),
        compute_ci_ps: interval(&found.compute),
        memory_ps: signed_picos(found.memory.ns.median),
        memory_ci_ps: interval(&found.memory),
        grade: found.grade().name().to_owned(),
    }
}

/// The paths on each number of threads, and a sentence about each number that was not possible.
/// `copies` makes the paths anew.
pub fn threads(
    copies: &dyn Fn() -> Vec<Path>,
    counts: &[u32],
    cpus: &[u32],
    quick: bool,
) -> (Vec<ThreadsRow>, Vec<String>) {
    let names: Vec<PathName> = with_call(&copies()).into_iter().map(chosen::name_of).collect();
    let copies =
        || -> Vec<Path> { copies().into_iter().filter(|path| path.route != Route::None).collect() };
    let all = if quick { THREADS_TIME_QUICK } else { THREADS_TIME };
    let parts = u32::try_from(names.len() * (counts.len() + 1)).unwrap_or(u32::MAX).max(1);
    let found =
        threads::measure(&copies, counts, cpus, (all / parts).clamp(WINDOW_MIN, WINDOW_MAX));
    let rows = found.measured.iter().map(|row| threads_row(names[row.path].clone(), row)).collect();
    let note = |(count, reason): &(u32, threads::ThreadsDecline)| {
        format!("--threads {count} was not measured: {reason}")
    };
    (rows, found.declined.iter().map(note).collect())
}

fn threads_row(name: PathName, found: &threads::Scaling) -> ThreadsRow {
    let all = |ns: &[f64]| ns.iter().map(|ns| picos(*ns)).collect();
    ThreadsRow {
        name,
        threads: u32::try_from(found.cpus.len()).unwrap_or(u32::MAX),
        cpus: found.cpus.clone(),
        calls_per_second: found.together.calls_per_second,
        efficiency: found.efficiency,
        cost_ps_by_thread: all(&found.together.median_ns),
        cost_ps_min_by_thread: all(&found.together.min_ns),
        grade: Grade::name(found.together.grade).to_owned(),
    }
}

/// The instructions of one call of each path, and sentences about what could not be counted.
pub fn instructions(paths: &[Path]) -> (Instructions, Vec<String>) {
    let paths = with_call(paths);
    let mut notes = Vec::new();
    let stepped = instructions::step(&paths, &own_vdso::code(), STEPPED_REPEATS);
    let rows: Vec<InstructionsRow> = paths
        .iter()
        .zip(stepped)
        .map(|(path, stepped)| {
            let mut row = InstructionsRow { name: chosen::name_of(path), ..Default::default() };
            match stepped {
                Ok(found) => {
                    row.user = Some(found.user);
                    row.in_vdso = Some(found.in_vdso);
                    row.syscalls = Some(found.syscalls);
                    row.agreeing = Some((found.agreeing, found.repeats));
                }
                Err(reason) => notes.push(format!("{path} could not be stepped: {reason}")),
            }
            row
        })
        .collect();
    let counted = PerfCounters::open()
        .map_err(|error| instructions::no_counters(&error))
        .and_then(|mut counters| instructions::count(&paths, &mut counters));
    (with_counts(rows, counted), notes)
}

/// Adds what the counters say, or why they say nothing.
fn with_counts(
    mut rows: Vec<InstructionsRow>,
    counted: Result<Vec<instructions::CountedPerCall>, String>,
) -> Instructions {
    let no_counters = match counted {
        Ok(counted) => {
            for (row, found) in rows.iter_mut().zip(counted) {
                row.counted = Some(found.instructions);
                row.counted_user = Some(found.user);
                row.cycles = Some(found.cycles);
                row.ipc = found.per_cycle();
            }
            None
        }
        Err(reason) => Some(reason),
    };
    Instructions { no_counters, rows }
}

/// Nanoseconds in whole picoseconds.
#[expect(clippy::cast_possible_truncation, reason = "a cost of a call is below 2^53 picoseconds")]
fn signed_picos(ns: f64) -> i64 {
    (ns * 1000.0).round() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_fill_all_rows_or_none() {
        let rows = || vec![InstructionsRow::default(); 2];
        let counted =
            instructions::CountedPerCall { instructions: 1005.0, user: 75.0, cycles: 500.0 };
        let with = with_counts(rows(), Ok(vec![counted; 2]));
        assert_eq!((with.no_counters, with.rows[1].ipc), (None, Some(2.01)));
        let without = with_counts(rows(), Err("there are none".to_owned()));
        assert_eq!(without.no_counters.as_deref(), Some("there are none"));
        assert_eq!(without.rows, rows(), "never zeros");
    }

    #[test]
    fn threads_begin_on_the_cpu_that_was_measured_on() {
        assert_eq!(cpus(Some(2), vec![0, 1, 2, 3]), [2, 0, 1, 3]);
        assert_eq!(cpus(None, vec![0, 1]), [0, 1]);
        assert_eq!(cpus(Some(7), vec![0, 1]), [0, 1]);
    }

    #[test]
    fn picoseconds_are_rounded_and_costs_are_not_negative() {
        assert_eq!((signed_picos(-0.0126), signed_picos(21.6006)), (-13, 21_601));
        assert_eq!((picos(-0.1), picos(1.0)), (0, 1000));
    }
}
