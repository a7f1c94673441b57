//! Loop of this process in turn: each round of a loop is the best of several chunks timed by the
//! thread's CPU time, so that neither other programs nor a slow phase of the machine are in a figure.

use std::hint::black_box;

use clockscope_sys::loops::Loop;
use clockscope_sys::tsc;
use fastclock::ClockId;

use crate::series::Series;

/// A loop to be timed: the argument says how many turns.
pub(crate) struct Subject {
    pub(crate) name: String,
    run: Box<dyn FnMut(u64)>,
}

impl Subject {
    /// A loop around one reading of a clock, compiled into the loop as a user's would be.
    pub(crate) fn reading<T>(name: &str, mut read: impl FnMut() -> T + 'static) -> Self {
        let run = move |turns| {
            for _ in 0..turns {
                black_box(read());
            }
        };
        Self { name: name.to_owned(), run: Box::new(run) }
    }

    /// A loop of clockscope's own.
    pub(crate) fn of_loop(name: &str, one: Loop) -> Self {
        Self { name: name.to_owned(), run: Box::new(move |turns| one.run(turns)) }
    }
}

/// How long to measure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) rounds: usize,
    /// Chunks of each subject in a round; the best one counts.
    pub(crate) chunks: usize,
    /// About how long a chunk is.
    pub(crate) chunk_ns: u64,
}

/// Measures all subjects in turn: nanoseconds a turn, one figure a round.
pub(crate) fn measure(subjects: &mut [Subject], plan: Plan) -> Vec<Series> {
    let turns: Vec<u64> =
        subjects.iter_mut().map(|subject| turns_for(subject, plan.chunk_ns)).collect();
    let mut found: Vec<Vec<Option<f64>>> = vec![Vec::new(); subjects.len()];
    for round in 0..plan.rounds {
        let mut best = vec![f64::INFINITY; subjects.len()];
        for chunk in 0..plan.chunks {
            for place in 0..subjects.len() {
                // None is always behind the same other one, which may leave the caches cold.
                let index = (place + chunk + round) % subjects.len();
                let ns = chunk_ns(&mut subjects[index], turns[index]);
                best[index] = best[index].min(ns as f64 / turns[index] as f64);
            }
        }
        for (values, best) in found.iter_mut().zip(best) {
            values.push(Some(best));
        }
    }
    let named = subjects.iter().zip(found);
    named.map(|(subject, values)| Series::ungated(subject.name.clone(), values)).collect()
}

/// How many turns take about this long.
fn turns_for(subject: &mut Subject, target_ns: u64) -> u64 {
    let mut turns = 64;
    loop {
        let ns = (0..3).map(|_| chunk_ns(subject, turns)).min().unwrap_or(0);
        if ns >= target_ns / 4 {
            return (turns * target_ns / ns.max(1)).max(1);
        }
        turns *= 2;
    }
}

/// CPU time of this many turns, after a few that are not timed.
fn chunk_ns(subject: &mut Subject, turns: u64) -> u64 {
    (subject.run)(turns.div_ceil(16));
    let start = cpu_time_ns();
    (subject.run)(turns);
    cpu_time_ns().saturating_sub(start)
}

fn cpu_time_ns() -> u64 {
    tsc::now_by_syscall(ClockId::ThreadCputime).0.unsigned_abs()
}
