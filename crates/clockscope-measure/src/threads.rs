//! How a path scales with threads on different CPUs.
//!
//! A counter of the CPU is each CPU's own. A device such as hpet or acpi_pm is one for all, and so
//! is a lock or a counter of references in the kernel: threads wait for one another there.

use std::io;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use fastclock::ClockId;

use super::batch;
use super::path::Path;
use super::rounds::GATE;
use clockscope_stats::scaling::{self, Placed, Together};
use clockscope_sys::loops::Loop;
use clockscope_sys::{affinity, tsc};

/// Batches are longer here than elsewhere: the control loops between them, in which a thread leaves
/// the others undisturbed, take a twentieth of the time.
const BATCH_NS: u64 = 400_000;
/// The time for each number of threads is made in this many parts, in turn.
const PARTS: u32 = 3;

/// A path on a number of threads.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaling {
    /// The path, as an index of the list that was given.
    pub path: usize,
    /// CPU of each thread.
    pub cpus: Vec<u32>,
    /// What the threads did while all of them ran.
    pub together: Together,
    /// Calls a second divided by those of one thread and the number of threads.
    pub efficiency: f64,
}

/// Why a number of threads cannot be measured; prints as a clause.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ThreadsDecline {
    /// Each thread needs a CPU of its own.
    #[error(
        "{threads} threads need {threads} CPUs, and this process may use {cpus} \
         CPU{}",
        if *cpus == 1 { "" } else { "s" }
    )]
    TooFewCpus {
        /// How many threads were asked for.
        threads: usize,
        /// CPUs that this process may use.
        cpus: usize,
    },
    /// No threads at all.
    #[error("no threads make no calls")]
    None,
    /// There was no time in which all threads ran; the name of the path.
    #[error("the host is so busy that the threads never ran {0} at the same time")]
    NeverTogether(String),
    /// A thread could not be started or pinned.
    #[error("a thread could not be pinned to its CPU: {0}")]
    Refused(io::Error),
}

/// What was measured of what was asked for.
#[derive(Debug, Default)]
pub struct Scalings {
    /// For each path, one entry a number of threads, beginning with one.
    pub measured: Vec<Scaling>,
    /// Numbers of threads that were not measured, and why.
    pub declined: Vec<(u32, ThreadsDecline)>,
}

/// Measures every path on each number of threads of `counts`, and on one thread in any case.
///
/// `copies` gives the paths anew for each thread, in the same order, so that threads do not share
/// file descriptors and their positions. The threads run on the first of `cpus`, and each for `time`
/// with each number.
pub fn measure(
    copies: &dyn Fn() -> Vec<Path>,
    counts: &[u32],
    cpus: &[u32],
    time: Duration,
) -> Scalings {
    let mut scalings = Scalings::default();
    let mut possible = vec![1];
    for count in counts {
        match decline(*count, cpus.len()) {
            Some(reason) => scalings.declined.push((*count, reason)),
            None => possible.push(*count as usize),
        }
    }
    possible.sort_unstable();
    possible.dedup();
    let most = possible.last().copied().unwrap_or(1);
    let copies: Vec<Vec<Path>> = (0..most).map(|_| copies()).collect();
    for path in 0..copies.first().map_or(0, Vec::len) {
        let loops: Vec<&Loop> = copies.iter().map(|paths| &paths[path].loops.plain).collect();
        match of_path(&loops, &possible, cpus, time) {
            Ok(measured) => {
                let never = never_together(&possible, &measured);
                let reason = || ThreadsDecline::NeverTogether(copies[0][path].to_string());
                scalings.declined.extend(never.into_iter().map(|count| (count, reason())));
                scalings.measured.extend(with_efficiency(path, measured));
            }
            Err(error) => {
                scalings.declined.extend(
                    counts.iter().map(|count| (*count, ThreadsDecline::Refused(clone(&error)))),
                );
                break;
            }
        }
    }
    scalings
}

/// The same error again.
fn clone(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error)
}

fn decline(threads: u32, cpus: usize) -> Option<ThreadsDecline> {
    match threads as usize {
        0 => Some(ThreadsDecline::None),
        threads if threads > cpus => Some(ThreadsDecline::TooFewCpus { threads, cpus }),
        _ => None,
    }
}

/// The numbers of threads that have no answer.
fn never_together(counts: &[usize], measured: &[(Vec<u32>, Together)]) -> Vec<u32> {
    let is_missing = |count: &&usize| measured.iter().all(|(cpus, _)| cpus.len() != **count);
    counts.iter().filter(is_missing).filter_map(|count| u32::try_from(*count).ok()).collect()
}

/// Adds what each number of threads makes of one thread; without that nothing can be said.
fn with_efficiency(path: usize, measured: Vec<(Vec<u32>, Together)>) -> Vec<Scaling> {
    let one = measured.iter().find(|(cpus, _)| cpus.len() == 1);
    let Some(one) = one.map(|(_, together)| together.calls_per_second) else { return Vec::new() };
    let scaling = |(cpus, together): (Vec<u32>, Together)| {
        let ideal = one * cpus.len() as f64;
        let efficiency = together.calls_per_second / ideal;
        Scaling { path, cpus, together, efficiency }
    };
    measured.into_iter().map(scaling).collect()
}

/// One path on each number of threads.
fn of_path(
    loops: &[&Loop],
    counts: &[usize],
    cpus: &[u32],
    time: Duration,
) -> io::Result<Vec<(Vec<u32>, Together)>> {
    let calls = loops.first().map_or(1, |one| batch::calls_for(one, BATCH_NS));
    let mut batches: Vec<Vec<Vec<_>>> =
        counts.iter().map(|count| vec![Vec::new(); *count]).collect();
    for _part in 0..PARTS {
        for (count, batches) in counts.iter().zip(&mut batches) {
            let placed = at_once(&loops[..*count], cpus, calls, time / PARTS)?;
            for (all, part) in batches.iter_mut().zip(scaling::while_all_ran(&placed)) {
                all.extend(part);
            }
        }
    }
    let sums = counts.iter().zip(batches).filter_map(|(count, batches)| {
        Some((cpus[..*count].to_vec(), scaling::together(&batches, GATE)?))
    });
    Ok(sums.collect())
}

/// One thread for each loop, all at the same time.
fn at_once(
    loops: &[&Loop],
    cpus: &[u32],
    calls: u64,
    time: Duration,
) -> io::Result<Vec<Vec<Placed>>> {
    let ready = Barrier::new(loops.len());
    thread::scope(|scope| {
        let started: Vec<_> = loops
            .iter()
            .zip(cpus)
            .map(|(calling, cpu)| scope.spawn(|| on_cpu(calling, *cpu, calls, time, &ready)))
            .collect();
        let ended = started.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread panicked")))
        });
        ended.collect()
    })
}

/// Batches on one CPU, from when all threads are there until the time is over.
fn on_cpu(
    calling: &Loop,
    cpu: u32,
    calls: u64,
    time: Duration,
    ready: &Barrier,
) -> io::Result<Vec<Placed>> {
    let pinned = affinity::restrict_to(&[cpu]);
    calling.run(calls);
    // Also a thread that could not be pinned comes here, or the others would wait for ever.
    ready.wait();
    pinned?;
    let first_ns = now_ns();
    let mut batches = Vec::new();
    let mut start_ns = first_ns;
    while u128::from(start_ns - first_ns) < time.as_nanos() || batches.is_empty() {
        let batch = batch::timed(calling, calls).batch;
        let now_ns = now_ns();
        batches.push(Placed { start_ns, end_ns: now_ns, batch });
        start_ns = now_ns;
    }
    Ok(batches)
}

fn now_ns() -> u64 {
    tsc::now(ClockId::MonotonicRaw).0.max(0).cast_unsigned()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::path::{Route, Subject};
    use clockscope_stats::gated::Grade;
    use clockscope_sys::loops::Loops;

    const TIME: Duration = Duration::from_millis(30);

    fn path(call: impl Fn() + Send + Sync + Clone + 'static) -> Path {
        let loops = Loops::around(call);
        Path { subject: Subject::Clock("planted"), route: Route::Libc, loops }
    }

    #[test]
    fn one_thread_is_ideal_by_definition_and_its_cpu_is_named() {
        let cpus = affinity::allowed().unwrap();
        let found = measure(&|| vec![path(|| ())], &[1], &cpus, TIME);
        assert!(found.declined.is_empty());
        assert_eq!(found.measured.len(), 1);
        assert_eq!(found.measured[0].efficiency, 1.0);
        assert_eq!(found.measured[0].cpus, cpus[..1]);
    }

    #[test]
    fn more_threads_than_cpus_and_none_are_declined() {
        let found = measure(&|| vec![path(|| ())], &[0, 1, 5000], &[0], TIME);
        let clauses: Vec<String> =
            found.declined.iter().map(|(count, why)| format!("{count}: {why}")).collect();
        assert_eq!(
            clauses,
            [
                "0: no threads make no calls",
                "5000: 5000 threads need 5000 CPUs, and this process may use 1 CPU"
            ]
        );
    }

    #[test]
    fn a_cpu_that_does_not_exist_is_refused_and_nobody_waits_for_ever() {
        let cpus = [affinity::allowed().unwrap()[0], 8191];
        let found = measure(&|| vec![path(|| ())], &[2], &cpus, TIME);
        assert!(found.measured.is_empty());
        assert!(found.declined[0].1.to_string().starts_with("a thread could not be pinned"));
    }

    #[test]
    fn each_thread_has_a_copy_of_its_own() {
        let cpus = affinity::allowed().unwrap();
        let made = Arc::new(Mutex::new(0));
        let counter = Arc::clone(&made);
        let copies = move || {
            *counter.lock().unwrap() += 1;
            vec![path(|| ())]
        };
        let most = u32::try_from(cpus.len()).unwrap();
        measure(&copies, &[1, most], &cpus, TIME);
        assert_eq!(*made.lock().unwrap(), most);
    }

    #[test]
    fn efficiency_compares_with_that_many_times_one_thread() {
        let together = |calls_per_second| Together {
            calls_per_second,
            median_ns: Vec::new(),
            min_ns: Vec::new(),
            grade: Grade::Quiet,
        };
        let measured = vec![(vec![0], together(100.0)), (vec![0, 1], together(150.0))];
        let found = with_efficiency(3, measured);
        assert_eq!((found[1].path, found[1].efficiency), (3, 0.75));
        assert!(with_efficiency(3, vec![(vec![0, 1], together(150.0))]).is_empty());
        let measured = vec![(vec![0, 1], together(150.0))];
        assert_eq!(never_together(&[1, 2, 4], &measured), [1, 4]);
        let clause = ThreadsDecline::NeverTogether("read by syscall".to_owned()).to_string();
        assert!(clause.contains("never ran read by syscall at the same time"), "{clause}");
    }
}
