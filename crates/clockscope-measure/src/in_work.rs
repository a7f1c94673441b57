//! What one call adds to an iteration of other work.
//!
//! A call that waits for everything before it costs more beside loads that miss the cache than by
//! itself, and one that does not wait costs less, because it runs beside the work. A loop of
//! nothing but calls shows neither.

use std::time::Duration;

use super::batch;
use super::path::Path;
use super::rounds::GATE;
use clockscope_stats::gate::Batch;
use clockscope_stats::gated::Grade;
use clockscope_stats::paired::{self, Judged};
use clockscope_sys::loops::{Loop, Loops};
use clockscope_sys::tsc;
use fastclock::ClockId;

/// How long to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InWorkLimits {
    /// A batch lasts at least this long, in nanoseconds.
    pub batch_ns: u64,
    /// At least this many rounds.
    pub rounds_min: u32,
    /// At most this many.
    pub rounds_max: u32,
    /// No further round after this time.
    pub time: Duration,
}

/// Enough is when each figure is the median of this many undisturbed pairs; looked at after this many
/// rounds again and again.
const ENOUGH: usize = 30;
const LOOKED_AT_EVERY: u32 = 10;

/// What one call adds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InWork {
    /// By itself, back to back.
    pub alone: Judged,
    /// To an iteration of about 10 ns of independent multiplications.
    pub compute: Judged,
    /// To an iteration with one load from a random place of 64 MiB.
    pub memory: Judged,
}

/// The three loops around a call.
const LOOPS: [fn(&Loops) -> &Loop; 3] = [|l| &l.plain, |l| &l.in_compute, |l| &l.in_memory];

/// Measures each path; `None` for one without a single round.
///
/// In each round every path has one batch of each of the three loops, and so has the loop without a
/// call, in an order that turns from round to round. The calling thread should be pinned.
pub fn measure(paths: &[&Path], limits: &InWorkLimits) -> Vec<Option<InWork>> {
    let empty = Loops::around(|| ());
    let loops: Vec<&Loops> = paths.iter().map(|path| &path.loops).chain([&empty]).collect();
    let calls =
        loops.iter().map(|loops| LOOPS.map(|of| batch::calls_for(of(loops), limits.batch_ns)));
    let calls: Vec<[u64; LOOPS.len()]> = calls.collect();
    let clock = || tsc::now(ClockId::MonotonicRaw).0;
    let start = clock();
    let elapsed_ns = || u128::from((clock() - start).unsigned_abs());
    let mut timed = |path: usize, kind: usize| {
        let (calling, calls) = (LOOPS[kind](loops[path]), calls[path][kind]);
        batch::timed(calling, calls).batch
    };
    let batches =
        rounds(loops.len(), limits, &mut timed, &mut || elapsed_ns() < limits.time.as_nanos());
    let (without, with) = batches.split_last().map_or((None, &[][..]), |(e, w)| (Some(e), w));
    with.iter().map(|with| without.and_then(|without| in_work(with, without))).collect()
}

/// The batches of one path: a list for each of [`LOOPS`], one batch a round.
type Batches = [Vec<Batch>; LOOPS.len()];

/// Makes the rounds. `timed` makes a batch of a path (the last is the empty one) in a loop;
/// `goes_on` says whether there is time left.
fn rounds(
    paths: usize,
    limits: &InWorkLimits,
    timed: &mut dyn FnMut(usize, usize) -> Batch,
    goes_on: &mut dyn FnMut() -> bool,
) -> Vec<Batches> {
    let mut batches: Vec<Batches> = (0..paths).map(|_| Batches::default()).collect();
    let mut round = 0;
    let mut enough = false;
    while round < limits.rounds_max && (round < limits.rounds_min || (!enough && goes_on())) {
        for place in 0..paths * LOOPS.len() {
            let (kind, turn) = (place / paths, place % paths);
            let path = (turn + round as usize) % paths;
            batches[path][kind].push(timed(path, kind));
        }
        round += 1;
        enough = round.is_multiple_of(LOOKED_AT_EVERY) && is_enough(&batches);
    }
    batches
}

fn is_enough(batches: &[Batches]) -> bool {
    let Some((without, with)) = batches.split_last() else { return true };
    with.iter().all(|with| {
        in_work(with, without).is_some_and(|found| {
            let figures = [found.alone, found.compute, found.memory];
            figures.iter().all(|one| one.grade != Grade::Unusable && one.ns.samples >= ENOUGH)
        })
    })
}

fn in_work(with: &Batches, without: &Batches) -> Option<InWork> {
    Some(InWork {
        alone: paired::cost(&with[0], GATE)?,
        compute: paired::added(&with[1], &without[1], GATE)?,
        memory: paired::added(&with[2], &without[2], GATE)?,
    })
}

impl InWork {
    /// The worst of the three grades.
    pub(crate) fn grade(&self) -> Grade {
        self.alone.grade.max(self.compute.grade).max(self.memory.grade)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: InWorkLimits =
        InWorkLimits { batch_ns: 1, rounds_min: 4, rounds_max: 50, time: Duration::ZERO };

    /// A call of 20 ns that adds 25 ns to computing and 43 ns to loading.
    fn planted(path: usize, kind: usize) -> Batch {
        let ns = match (path, kind) {
            (0, 0) => 20,
            (0, 1) => 10 + 25,
            (0, _) => 17 + 43,
            (_, 0) => 1,
            (_, 1) => 10,
            (_, _) => 17,
        };
        Batch { thread: 0, calls: 100, ns: ns * 100, control_before_ns: 100, control_after_ns: 100 }
    }

    #[test]
    fn what_was_planted_is_found() {
        let batches = rounds(2, &LIMITS, &mut planted, &mut || true);
        assert_eq!(batches[1][2].len(), 30, "that is enough");
        let found = in_work(&batches[0], &batches[1]).unwrap();
        let medians = (found.alone.ns.median, found.compute.ns.median, found.memory.ns.median);
        assert_eq!(medians, (20.0, 25.0, 43.0));
        assert_eq!(found.grade(), Grade::Quiet);
    }

    /// A disturbed pair does not count towards what is enough, and there is an end to it.
    #[test]
    fn disturbed_rounds_are_made_up_for() {
        let mut made = 0;
        let mut disturbed = |share: u32| {
            let mut timed = |path, kind| {
                made += 1;
                let control_ns = if made % 6 == 0 && made / 6 % share == 0 { 200 } else { 100 };
                Batch { control_before_ns: control_ns, ..planted(path, kind) }
            };
            rounds(2, &LIMITS, &mut timed, &mut || true)[0][0].len()
        };
        assert_eq!(disturbed(4), 40);
        assert_eq!(disturbed(1), 50);
    }

    #[test]
    fn each_round_has_every_loop_of_every_path_and_no_path_is_always_first() {
        let mut order = Vec::new();
        let mut timed = |path, kind| {
            order.push((path, kind));
            planted(path, kind)
        };
        rounds(3, &LIMITS, &mut timed, &mut || false);
        assert_eq!(order.len(), 4 * 3 * 3, "the time is up, but four rounds are made");
        for round in order.chunks(9) {
            let mut all = round.to_vec();
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), 9);
        }
        let first: Vec<usize> = order.chunks(9).map(|round| round[0].0).collect();
        assert_eq!(first, [0, 1, 2, 0]);
    }

    #[test]
    fn no_paths_and_no_rounds_give_no_answers() {
        assert!(measure(&[], &LIMITS).is_empty());
        assert_eq!(in_work(&Batches::default(), &Batches::default()), None);
    }
}
