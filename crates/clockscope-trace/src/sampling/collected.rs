//! Distinct stacks seen so far, and pairs of successive calls. Pure.

use std::collections::HashMap;

use clockscope_callers::frames::{End, FrameAddress, Unwound};
use clockscope_callers::sample::{Called, Sample};

/// Number of distinct stacks kept; of later ones only the caller is kept.
const STACKS_MAX: usize = 50_000;
/// Distances of a pair that are kept for the median.
const GAPS_MAX: usize = 1_000;
/// Pairs that are kept.
const PAIRS_MAX: usize = 10_000;

/// A stack of a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Stack {
    /// The called function.
    pub called: Called,
    /// Process id.
    pub pid: i32,
    /// Frames, the caller first.
    pub frames: Vec<FrameAddress>,
    /// Whether the stack reaches the first function of the thread.
    pub complete: bool,
}

/// Samples of one stack, and their weights.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Seen {
    /// Samples.
    pub samples: u64,
    /// Sum of their weights.
    pub weight: u64,
    /// Sum of the squares of their weights.
    pub squares: f64,
}

impl Seen {
    /// Effective number of samples: as many samples of equal weight give the same certainty. The square of
    /// the sum of the weights divided by the sum of their squares (L. Kish, Survey Sampling, 1965, 8.2); 0
    /// without samples.
    pub(crate) fn effective(&self) -> f64 {
        if self.squares > 0.0 { (self.weight as f64).powi(2) / self.squares } else { 0.0 }
    }
}

/// A call followed by another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pair {
    /// Times seen.
    pub samples: u64,
    /// Ticks between the two calls, for the first [`GAPS_MAX`] pairs.
    pub gaps: Vec<u64>,
}

/// All stacks and pairs so far.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    /// Index of each stack.
    known: HashMap<Stack, usize>,
    /// The stacks with their samples, in the order of first sight.
    pub(crate) stacks: Vec<(Stack, Seen)>,
    pairs: HashMap<(usize, usize), Pair>,
    /// The stack of each thread's last sampled call, by thread and called function; the next sample may form
    /// a pair with it.
    last: HashMap<(i32, Called), usize>,
    /// Stacks that end early, by reason.
    cut: HashMap<End, u64>,
}

impl Collected {
    /// Adds a sample whose stack has been unwound.
    pub(crate) fn add(&mut self, sample: &Sample, unwound: Unwound) {
        let index = self.index_of(Stack {
            called: sample.called,
            pid: sample.pid,
            complete: unwound.end.is_complete(),
            frames: unwound.frames,
        });
        let thread = (sample.tid, sample.called);
        if let (Some(ticks), Some(first)) = (sample.after_ticks, self.last.remove(&thread)) {
            self.add_pair(first, index, ticks);
        }
        if sample.weight == 0 {
            return; // this sample counts only as the second call of a pair
        }
        let seen = &mut self.stacks[index].1;
        seen.samples += 1;
        seen.weight = seen.weight.saturating_add(sample.weight);
        seen.squares += (sample.weight as f64).powi(2);
        if matches!(sample.called, Called::Vdso(_)) {
            self.last.insert(thread, index);
        }
        if !unwound.end.is_complete() {
            *self.cut.entry(unwound.end).or_insert(0) += 1;
        }
    }

    fn index_of(&mut self, mut stack: Stack) -> usize {
        if let Some(index) = self.known.get(&stack) {
            return *index;
        }
        if self.stacks.len() >= STACKS_MAX {
            stack.frames.truncate(1);
            stack.complete = false;
            if let Some(index) = self.known.get(&stack) {
                return *index;
            }
        }
        self.known.insert(stack.clone(), self.stacks.len());
        self.stacks.push((stack, Seen::default()));
        self.stacks.len() - 1
    }

    fn add_pair(&mut self, first: usize, second: usize, ticks: u64) {
        if self.pairs.len() >= PAIRS_MAX && !self.pairs.contains_key(&(first, second)) {
            return;
        }
        let pair = self.pairs.entry((first, second)).or_default();
        pair.samples += 1;
        if pair.gaps.len() < GAPS_MAX {
            pair.gaps.push(ticks);
        }
    }

    /// Forgets the last calls of a process that has ended: its number may be used again.
    pub(crate) fn forget_process(&mut self, pid: i32) {
        let stacks = &self.stacks;
        self.last.retain(|_, index| stacks[*index].0.pid != pid);
    }

    /// Pairs of stacks, by the indices of the two.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = ((usize, usize), &Pair)> {
        self.pairs.iter().map(|(indices, pair)| (*indices, pair))
    }

    /// Reasons why stacks end early, with the number of samples.
    pub(crate) fn cut(&self) -> impl Iterator<Item = (End, u64)> {
        self.cut.iter().map(|(end, samples)| (*end, *samples))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clockscope_callers::sample::Registers;

    fn sample(tid: i32, counter: u8, weight: u64, after_ticks: Option<u64>) -> Sample {
        Sample {
            called: Called::Vdso(counter),
            pid: 7,
            tid,
            time_ns: 0,
            weight,
            after_ticks,
            registers: Registers::default(),
            stack: Vec::new(),
            frame_pointers: Vec::new(),
        }
    }

    fn at(address: u64) -> Unwound {
        Unwound { frames: vec![FrameAddress::Unknown { at: address }], end: End::Complete }
    }

    #[test]
    fn the_same_stack_is_kept_once() {
        let mut all = Collected::default();
        for weight in [2, 3] {
            all.add(&sample(1, 4, weight, None), at(9));
        }
        all.add(&sample(1, 5, 1, None), at(9));
        let seen = all.stacks.iter().map(|(_, seen)| (seen.samples, seen.weight, seen.squares));
        assert_eq!(seen.collect::<Vec<_>>(), [(2, 5, 13.0), (1, 1, 1.0)]);
        assert_eq!(all.cut().count(), 0);
    }

    #[test]
    fn a_second_follows_the_first_of_its_own_thread_and_call() {
        let mut all = Collected::default();
        all.add(&sample(1, 4, 2, None), at(10));
        all.add(&sample(2, 4, 2, None), at(20));
        all.add(&sample(2, 4, 0, Some(55)), at(21));
        all.add(&sample(1, 4, 3, Some(66)), at(11));
        all.add(&sample(1, 4, 0, Some(77)), at(12));
        all.add(&sample(3, 4, 0, Some(88)), at(30));
        let mut pairs: Vec<_> = all.pairs().map(|(at, pair)| (at, pair.gaps.clone())).collect();
        pairs.sort_unstable();
        assert_eq!(pairs, [((0, 3), vec![66]), ((1, 2), vec![55]), ((3, 4), vec![77])]);
        let samples: u64 = all.stacks.iter().map(|(_, seen)| seen.samples).sum();
        assert_eq!(samples, 3);
    }

    #[test]
    fn of_a_process_that_is_gone_nothing_is_followed() {
        let mut all = Collected::default();
        all.add(&sample(1, 4, 2, None), at(10));
        all.forget_process(7);
        all.add(&sample(1, 4, 0, Some(5)), at(11));
        assert_eq!(all.pairs().count(), 0);
    }

    #[test]
    fn there_is_an_end_to_the_stacks_that_are_kept() {
        let mut all = Collected::default();
        for address in 0..STACKS_MAX as u64 + 10 {
            let mut unwound = at(1);
            unwound.frames.push(FrameAddress::Unknown { at: address });
            all.add(&sample(1, 4, 1, None), unwound);
        }
        assert_eq!(all.stacks.len(), STACKS_MAX + 1);
        assert_eq!(all.stacks[STACKS_MAX].1.samples, 10);
    }
}
