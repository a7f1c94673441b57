//! What threads do at the same time: only what falls into the time in which all of them run counts.

use super::gate::Batch;
use super::gated::Grade;
use super::paired::cost;

/// A batch and when it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Before its first control loop, in nanoseconds of a clock that all threads share.
    pub start_ns: u64,
    /// After its last control loop.
    pub end_ns: u64,
    /// The batch, between its control loops.
    pub batch: Batch,
}

/// Threads that ran at the same time.
#[derive(Clone, Debug, PartialEq)]
pub struct Together {
    /// Calls a second of all threads, each by its cheapest batch.
    pub calls_per_second: f64,
    /// Median cost of a call on each thread, in nanoseconds.
    pub median_ns: Vec<f64>,
    /// Cost of a call in the cheapest batch of each thread, in nanoseconds.
    pub min_ns: Vec<f64>,
    /// The worst of the threads' grades.
    pub grade: Grade,
}

/// The batches of each thread that lie between the last thread's first start and the first thread's
/// last end.
pub fn while_all_ran(threads: &[Vec<Placed>]) -> Vec<Vec<Batch>> {
    let start =
        threads.iter().map(|batches| batches.first().map_or(u64::MAX, |b| b.start_ns)).max();
    let end = threads.iter().map(|batches| batches.last().map_or(0, |b| b.end_ns)).min();
    let (Some(start), Some(end)) = (start, end) else { return Vec::new() };
    let inside = |placed: &&Placed| placed.start_ns >= start && placed.end_ns <= end;
    threads
        .iter()
        .map(|batches| batches.iter().filter(inside).map(|placed| placed.batch).collect())
        .collect()
}

/// Sums up the batches of each thread, of which those count whose control loops took at most
/// `1 + tolerance` times the best; `None` if a thread has none.
pub fn together(threads: &[Vec<Batch>], tolerance: f64) -> Option<Together> {
    let mut sum = Together {
        calls_per_second: 0.0,
        median_ns: Vec::new(),
        min_ns: Vec::new(),
        grade: Grade::Quiet,
    };
    for batches in threads {
        let judged = cost(batches, tolerance)?;
        let least = batches.iter().map(Batch::call_ns).min_by(f64::total_cmp)?;
        sum.calls_per_second += 1e9 / least.max(f64::MIN_POSITIVE);
        sum.median_ns.push(judged.ns.median);
        sum.min_ns.push(least);
        sum.grade = sum.grade.max(judged.grade);
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(start_ns: u64, ns: u64) -> Placed {
        let batch =
            Batch { thread: 0, calls: 10, ns, control_before_ns: 100, control_after_ns: 100 };
        Placed { start_ns, end_ns: start_ns + ns + 200, batch }
    }

    #[test]
    fn batches_made_while_a_thread_did_not_run_do_not_count() {
        let early: Vec<Placed> = (0..10).map(|n| placed(n * 1000, 500)).collect();
        let late: Vec<Placed> = (0..10).map(|n| placed(3500 + n * 1000, 600)).collect();
        let kept = while_all_ran(&[early.clone(), late]);
        // The late one starts at 3500, the early one ends at 9700.
        assert_eq!((kept[0].len(), kept[1].len()), (6, 6));
        assert_eq!(while_all_ran(&[early, Vec::new()]), [vec![], vec![]]);
        assert!(while_all_ran(&[]).is_empty());
    }

    #[test]
    fn rates_add_up_and_the_worst_grade_counts() {
        let of = |ns: u64, count| vec![placed(0, ns).batch; count];
        let two = together(&[of(200, 10), of(400, 10)], 0.03).unwrap();
        assert_eq!((two.median_ns, two.min_ns), (vec![20.0, 40.0], vec![20.0, 40.0]));
        assert!((two.calls_per_second - 75e6).abs() < 1.0);
        assert_eq!(two.grade, Grade::Quiet);
        assert_eq!(together(&[of(200, 10), of(400, 9)], 0.03).unwrap().grade, Grade::Unusable);
        assert_eq!(together(&[of(200, 10), Vec::new()], 0.03), None);
    }
}
