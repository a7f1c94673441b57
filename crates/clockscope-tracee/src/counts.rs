//! Adds up the counts of the image.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use vdso_image::histogram::{BUCKETS, bucket_start};
use vdso_image::layout::{COUNTERS, CPU_SLOTS, DECLINES, Header, INTERVALS, SLOTS, Shared, Slot};

use clockscope_stats::timed::{self, Bin};

/// Limit for sums of calls, samples or weights: a thousand years of calls. Another process of the user can write any
/// value into the pages, and results derived from the sums must not overflow.
const MOST: u64 = 1 << 56;

/// Calls by counter.
pub type Calls = [u64; COUNTERS];

/// The times of one counter, in ticks; see `vdso_image::histogram::Histogram`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Number of timed calls.
    pub samples: u64,
    /// Sum of the weights of the timed calls.
    pub weight: u64,
    /// Sum of the squares of the weights.
    pub squared_weights: u64,
    /// Sum of ticks times weight.
    pub weighted_ticks: u128,
    /// Ticks of the longest timed call.
    pub max_ticks: u64,
    /// Weights by bucket; empty if no call was timed.
    pub buckets: Vec<u64>,
}

impl Times {
    /// The cost of a call, in thousandths of a tick, and the half-width of its 95 % interval. The latter is given only
    /// if enough calls were timed. Interrupted calls are left out, because the time until the thread has a CPU again is
    /// not part of the call's cost. 0 if no call was timed.
    pub fn cost_milliticks(&self) -> (u64, Option<u64>) {
        let used = self.buckets.iter().enumerate().filter(|(_, weight)| **weight > 0);
        let bin = |(index, weight): (usize, &u64)| Bin {
            from: bucket_start(index),
            to: bucket_start(index + 1),
            weight: *weight,
        };
        let bins: Vec<Bin> = used.map(bin).collect();
        let exact = self.weighted_ticks as f64 / self.weight.max(1) as f64;
        let cost = timed::cost(&bins, self.samples, self.squared_weights, exact);
        // `as` saturates, so a nonsensical mean does not panic.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
        let milliticks = |ticks: f64| (ticks * 1_000.0).round() as u64;
        (milliticks(cost.mean), cost.is_known.then(|| milliticks(cost.half_width)))
    }
}

/// Times and intervals of all processes together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timings {
    /// By counter.
    pub times: Vec<Times>,
    /// Weight of reads by the base-two logarithm of the ticks since the thread's previous read.
    pub intervals: [u64; INTERVALS],
    /// Number of distances in `intervals`, unweighted.
    pub interval_samples: u64,
    /// Reads that the kernel answered instead of the clock page, by number of the reason.
    pub declined: [u64; DECLINES],
    /// Ticks of empty measurements, timed as calls are, and their number.
    pub empty: (u64, u64),
}

impl Default for Timings {
    fn default() -> Self {
        Self {
            times: vec![Times::default(); COUNTERS],
            intervals: [0; INTERVALS],
            interval_samples: 0,
            declined: [0; DECLINES],
            empty: (0, 0),
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
            total.samples = sum_of(total.samples, histogram.samples.load(Relaxed));
            total.weight = sum_of(total.weight, histogram.weight.load(Relaxed));
            let squares = histogram.squared_weights.load(Relaxed);
            total.squared_weights = total.squared_weights.saturating_add(squares);
            total.weighted_ticks += u128::from(histogram.weighted_ticks.load(Relaxed));
            total.max_ticks = total.max_ticks.max(histogram.max_ticks.load(Relaxed).min(MOST));
            total.buckets.resize(BUCKETS, 0);
            for (sum, bucket) in total.buckets.iter_mut().zip(&histogram.buckets) {
                *sum = sum_of(*sum, bucket.load(Relaxed));
            }
        }
        for (sum, interval) in self.intervals.iter_mut().zip(&shared.header.intervals) {
            *sum = sum_of(*sum, interval.load(Relaxed));
        }
        for (sum, declined) in self.declined.iter_mut().zip(&shared.header.declined) {
            *sum = sum_of(*sum, declined.load(Relaxed));
        }
        let header = &shared.header;
        let intervals = header.interval_samples.load(Relaxed);
        self.interval_samples = sum_of(self.interval_samples, intervals);
        self.empty.0 = sum_of(self.empty.0, header.empty_ticks.load(Relaxed));
        self.empty.1 = sum_of(self.empty.1, header.empty_samples.load(Relaxed));
    }
}

/// Selects slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Slots of the process with this number.
    Process(u64),
    /// Slots of processes that the tracer did not number in time, and slots of CPUs.
    Nobody,
    /// All slots. Released slots are empty.
    Anybody,
}

/// The tracer's numbers for processes lie below this; the image takes its own from the top.
const ANONYMOUS_FROM: u64 = 1 << 31;

impl Whose {
    fn owns(self, index: usize, slot: &Slot) -> bool {
        let number = slot.owner.load(Relaxed) >> 1;
        match self {
            Self::Process(own) => index >= CPU_SLOTS && number == own,
            Self::Nobody => index < CPU_SLOTS || number >= ANONYMOUS_FROM,
            Self::Anybody => true,
        }
    }
}

/// The calls in the slots of `whose`, each with the FS base of its thread.
pub(crate) fn slots_of(shared: &Shared, whose: Whose) -> impl Iterator<Item = (u64, Calls)> {
    used(&shared.header).filter_map(move |index| {
        let slot = &shared.slots[index];
        whose.owns(index, slot).then(|| {
            let calls = std::array::from_fn(|counter| slot.calls[counter].load(Relaxed));
            (slot.key.load(Relaxed).wrapping_sub(1), calls)
        })
    })
}

/// Frees the slots of a process that has ended or executed another program. None of its threads can still be counting.
pub fn release(shared: &Shared, number: u64) {
    for index in used(&shared.header) {
        let slot = &shared.slots[index];
        if Whose::Process(number).owns(index, slot) {
            clear(&slot.last_timed);
            clear(&slot.waiting_since);
            slot.stands_for.iter().for_each(|power| power.store(0, Relaxed));
            slot.samples.iter().for_each(|samples| samples.store(0, Relaxed));
            slot.period.store(0, Relaxed);
            slot.calls.iter().for_each(clear);
            slot.key.store(0, Relaxed);
            slot.owner.store(0, Relaxed);
        }
    }
}

/// Takes the calls counted under an FS base of a process, and sets them to zero.
pub(crate) fn take_key(shared: &Shared, number: u64, key: u64) -> Option<Calls> {
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

/// Numbers of the slots that were ever used. Reading the other slots would make the kernel allocate memory for them.
fn used(header: &Header) -> impl Iterator<Item = usize> {
    (0..SLOTS).filter(|index| header.slots_used[index / 64].load(Relaxed) >> (index % 64) & 1 == 1)
}

fn sum_of(a: u64, b: u64) -> u64 {
    a.saturating_add(b).min(MOST)
}

/// Adds calls to a sum.
pub fn add(sum: &mut Calls, calls: &Calls) {
    for (sum, calls) in sum.iter_mut().zip(calls) {
        *sum = sum_of(*sum, *calls);
    }
}

#[cfg(test)]
mod tests {
    use vdso_image::histogram::bucket_of;

    use super::*;

    fn times(calls: &[(u64, u64)]) -> Times {
        let mut times = Times { buckets: vec![0; BUCKETS], ..Times::default() };
        for (ticks, weight) in calls {
            times.buckets[bucket_of(*ticks)] += weight;
            times.weight += weight;
            times.squared_weights += weight.pow(2);
            times.weighted_ticks += u128::from(*ticks) * u128::from(*weight);
        }
        times
    }

    #[test]
    fn the_average_is_exact_where_nothing_was_interrupted() {
        assert_eq!(times(&[(60, 3), (90, 1)]).cost_milliticks().0, 67_500);
        assert_eq!(times(&[(60, 99), (900, 1)]).cost_milliticks().0, 68_400);
        assert_eq!(Times::default().cost_milliticks().0, 0);
    }

    #[test]
    fn a_call_whose_thread_lost_the_cpu_is_not_a_thousand_times_as_long() {
        let interrupted = times(&[(63, 4_000_000), (12_000_000, 4_000)]);
        assert!(interrupted.weighted_ticks / u128::from(interrupted.weight) > 10_000);
        let average = interrupted.cost_milliticks().0;
        assert!((60_000..66_000).contains(&average), "{average}");
    }

    #[test]
    fn two_speeds_are_no_interruption() {
        let two = times(&[(60, 900), (3_000, 100)]);
        assert_eq!(two.cost_milliticks().0, 354_000);
    }
}
