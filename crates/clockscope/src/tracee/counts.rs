//! Adding up what the image has counted.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use vdso_image::layout::{
    BUCKETS, COUNTERS, CPU_SLOTS, DECLINES, Header, INTERVALS, SLOTS, Shared, Slot,
};

/// Calls by counter.
pub type Calls = [u64; COUNTERS];

/// The times of one counter, in ticks; see `vdso_image::layout::Histogram`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Times {
    /// Number of timed calls.
    pub samples: u64,
    /// Sum of their weights.
    pub weight: u64,
    /// Sum of ticks times weight.
    pub weighted_ticks: u128,
    /// The longest.
    pub max_ticks: u64,
    /// Weights by bucket; empty if there are none.
    pub buckets: Vec<u64>,
}

impl Times {
    const NONE: Self =
        Self { samples: 0, weight: 0, weighted_ticks: 0, max_ticks: 0, buckets: Vec::new() };
}

/// Times and intervals of all processes together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timings {
    /// By counter.
    pub times: Vec<Times>,
    /// Weight of reads by the base-two logarithm of the ticks since the thread's read before.
    pub intervals: [u64; INTERVALS],
    /// Reads that the kernel answered in place of the clock page, by the number of the reason.
    pub declined: [u64; DECLINES],
}

impl Default for Timings {
    fn default() -> Self {
        Self {
            times: vec![Times::NONE; COUNTERS],
            intervals: [0; INTERVALS],
            declined: [0; DECLINES],
        }
    }
}

impl Timings {
    /// Adds the histograms of shared pages.
    pub fn add(&mut self, shared: &Shared) {
        let used = shared.header.histograms_used.load(Relaxed);
        for (index, total) in self.times.iter_mut().enumerate() {
            if used >> index & 1 == 0 {
                continue;
            }
            let histogram = &shared.histograms[index];
            total.samples += histogram.samples.load(Relaxed);
            total.weight += histogram.weight.load(Relaxed);
            total.weighted_ticks += u128::from(histogram.weighted_ticks.load(Relaxed));
            total.max_ticks = total.max_ticks.max(histogram.max_ticks.load(Relaxed));
            total.buckets.resize(BUCKETS, 0);
            for (sum, bucket) in total.buckets.iter_mut().zip(&histogram.buckets) {
                *sum += bucket.load(Relaxed);
            }
        }
        for (sum, interval) in self.intervals.iter_mut().zip(&shared.header.intervals) {
            *sum += interval.load(Relaxed);
        }
        for (sum, declined) in self.declined.iter_mut().zip(&shared.header.declined) {
            *sum += declined.load(Relaxed);
        }
    }
}

/// Whose slots are taken together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Those of the process with this number.
    Process(u64),
    /// Those of processes that the tracer did not see in time, and those of CPUs.
    Nobody,
}

/// Numbers of processes that the tracer gives lie below this; the image takes others from the top.
const ANONYMOUS_FROM: u64 = 1 << 31;

impl Whose {
    fn owns(self, index: usize, slot: &Slot) -> bool {
        let number = slot.owner.load(Relaxed) >> 1;
        match self {
            Self::Process(own) => index >= CPU_SLOTS && number == own,
            Self::Nobody => index < CPU_SLOTS || number >= ANONYMOUS_FROM,
        }
    }
}

/// The calls in the slots of `whose`, and the FS base of the thread that made them.
pub fn slots_of(shared: &Shared, whose: Whose) -> impl Iterator<Item = (u64, Calls)> {
    used(&shared.header).filter_map(move |index| {
        let slot = &shared.slots[index];
        whose.owns(index, slot).then(|| {
            let calls = std::array::from_fn(|counter| slot.calls[counter].load(Relaxed));
            (slot.key.load(Relaxed).wrapping_sub(1), calls)
        })
    })
}

/// Frees the slots of a process that has ended or executed another program: no thread of it can
/// be counting any more.
pub fn release(shared: &Shared, number: u64) {
    for index in used(&shared.header) {
        let slot = &shared.slots[index];
        if Whose::Process(number).owns(index, slot) {
            clear(&slot.last_timed);
            clear(&slot.waiting_since);
            slot.samples.iter().for_each(|samples| samples.store(0, Relaxed));
            slot.period.store(0, Relaxed);
            slot.calls.iter().for_each(clear);
            slot.key.store(0, Relaxed);
            slot.owner.store(0, Relaxed);
        }
    }
}

/// The calls counted under one FS base of a process, which are set back to zero.
pub fn take_key(shared: &Shared, number: u64, key: u64) -> Option<Calls> {
    let whose = Whose::Process(number);
    let index = used(&shared.header).find(|index| {
        let slot = &shared.slots[*index];
        whose.owns(*index, slot) && slot.key.load(Relaxed).wrapping_sub(1) == key
    })?;
    Some(std::array::from_fn(|counter| shared.slots[index].calls[counter].swap(0, Relaxed)))
}

fn clear(word: &AtomicU64) {
    word.store(0, Relaxed);
}

/// Numbers of the slots that were ever used. Looking at the others would make the kernel give
/// them memory.
fn used(header: &Header) -> impl Iterator<Item = usize> {
    (0..SLOTS).filter(|index| header.slots_used[index / 64].load(Relaxed) >> (index % 64) & 1 == 1)
}

/// Adds calls to a sum.
pub fn add(sum: &mut Calls, calls: &Calls) {
    for (sum, calls) in sum.iter_mut().zip(calls) {
        *sum += calls;
    }
}
