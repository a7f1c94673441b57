//! Timing one call in N, in place.
//!
//! The first calls of a thread are all timed, then N doubles until about `gap_ticks` lie between
//! two timed calls. N is spread at random, so that a program whose calls alternate in a pattern
//! gives every one of them its share. After a timed call the time until the thread's next call is
//! taken too: how many reads would a coarse clock have answered alike?
//!
//! Nothing here is exact and nothing here needs to be: the counts are kept elsewhere.

use core::arch::x86_64::{__rdtscp, _mm_lfence, _rdtsc};
use core::sync::atomic::Ordering::Relaxed;

use crate::layout::{
    CONFIG_OFFSET, COUNTER_GETCPU, COUNTER_GETRES, COUNTER_GETTIMEOFDAY, COUNTER_TIME, CPU_SLOTS,
    Config, Function, Slot, bucket_of,
};
use crate::slots::{image_base, session, shared};

/// Every call of a thread is timed until this many have been.
const EAGER_SAMPLES: u64 = 32;
/// N never grows beyond this.
const PERIOD_MAX: u32 = 1 << 16;
/// In a robust futex: the owner has died.
const FUTEX_OWNER_DIED: u32 = 0x4000_0000;

type Call = extern "C" fn(usize, usize, usize, usize, usize) -> usize;

/// Makes a call and times it: any function with up to five arguments, whatever the registers of
/// the others hold. The last argument is the address of the slot plus the number of the counter
/// (slots are aligned to 128 bytes).
pub(crate) extern "C" fn sample(
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    slot_and_counter: usize,
) -> usize {
    let counter = slot_and_counter % align_of::<Slot>();
    // SAFETY: the entries pass the address of a slot in the shared pages.
    let slot = unsafe { &*((slot_and_counter - counter) as *const Slot) };
    // SAFETY: the word holds the address of this function, as the installer wrote it.
    let call = unsafe { core::mem::transmute::<u64, Call>(target(function_of(counter))) };
    timed(slot, counter, || call(a, b, c, d, e))
}

/// The function that a counter of timed calls belongs to.
fn function_of(counter: usize) -> Function {
    match counter {
        0..COUNTER_GETRES => Function::ClockGettime,
        COUNTER_GETRES..COUNTER_GETTIMEOFDAY => Function::ClockGetres,
        COUNTER_GETTIMEOFDAY => Function::Gettimeofday,
        COUNTER_TIME => Function::Time,
        COUNTER_GETCPU => Function::Getcpu,
        _ => Function::Getrandom,
    }
}

/// Where a function's entries jump to.
fn target(function: Function) -> u64 {
    // SAFETY: the page is mapped behind the image and read-only since the installation.
    unsafe {
        let config = (image_base() + CONFIG_OFFSET) as *const Config;
        *(&raw const (*config).target).cast::<u64>().add(function as usize)
    }
}

/// Makes the call, timed if that is still allowed.
#[inline(always)]
fn timed(slot: &Slot, counter: usize, call: impl FnOnce() -> usize) -> usize {
    if !may_time() {
        slot.countdown.store(0, Relaxed); // the next one is 2^32 calls away
        return call();
    }
    if after_timed(slot, tsc_before()) {
        return call();
    }
    let start = tsc_before();
    let result = call();
    let ticks = tsc_after().wrapping_sub(start);
    if ticks < 1 << 62 {
        record(counter, ticks, u64::from(slot.period.load(Relaxed)));
    }
    result
}

/// Timing needs a tracer that lives, because it emulates the counter for programs that forbid it.
fn may_time() -> bool {
    let tracer = session().tracer.load(Relaxed);
    tracer != 0 && tracer & FUTEX_OWNER_DIED == 0 && shared().header.no_timing.load(Relaxed) == 0
}

/// The counter, before the call: read when everything before it is done.
#[inline(always)]
fn tsc_before() -> u64 {
    // SAFETY: both instructions exist on every x86-64; a program may have forbidden `rdtsc` to
    // itself, in which case the tracer, which lives, goes on behind the instruction.
    unsafe {
        _mm_lfence();
        _rdtsc()
    }
}

/// The counter, after the call: read when the call is done.
#[inline(always)]
fn tsc_after() -> u64 {
    let mut cpu = 0;
    // SAFETY: as above; the command lets calls be timed only where the CPU has `rdtscp`.
    unsafe { __rdtscp(&raw mut cpu) }
}

/// Decides when the next call is looked at, and notes the distance to the call before if that was
/// timed. True if this call is only there for that distance.
fn after_timed(slot: &Slot, now: u64) -> bool {
    let last = slot.last.swap_relaxed(now);
    let period = slot.period.load(Relaxed).max(1);
    let by_cpu = slot_is_of_cpu(slot);
    if last != 0 && !by_cpu {
        let distance = now.saturating_sub(last) | 1;
        let bucket = 63 - distance.leading_zeros() as usize;
        if let Some(count) = shared().header.intervals.get(bucket) {
            count.fetch_add(u64::from(period), Relaxed);
        }
        if period > 1 {
            slot.last.store(0, Relaxed);
            slot.countdown.store(spread(slot, period), Relaxed);
            return true;
        }
    }
    let period = adapted(slot, now, period);
    let next = if by_cpu { spread(slot, period) } else { 1 };
    slot.countdown.store(next, Relaxed);
    false
}

/// The number of calls between timed ones from now on.
fn adapted(slot: &Slot, now: u64, period: u32) -> u32 {
    let samples = slot.samples.load(Relaxed) + 1;
    slot.samples.store(samples, Relaxed);
    let gap = now.saturating_sub(slot.last_timed.load(Relaxed));
    slot.last_timed.store(now, Relaxed);
    let aim = session().gap_ticks;
    let period = if samples <= EAGER_SAMPLES {
        1
    } else if gap < aim {
        (period * 2).min(PERIOD_MAX)
    } else if gap / 4 > aim {
        (period / 2).max(1)
    } else {
        period
    };
    slot.period.store(period, Relaxed);
    period
}

/// A number of calls around `period`: half to one and a half times.
fn spread(slot: &Slot, period: u32) -> u32 {
    let mut state = slot.random.load(Relaxed) | 1;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    slot.random.store(state, Relaxed);
    let share = ((state >> 32) * u64::from(period)) >> 32;
    (period / 2 + share as u32).max(1)
}

/// Adds a timed call to its histogram.
fn record(counter: usize, ticks: u64, weight: u64) {
    let shared = shared();
    let Some(histogram) = shared.histograms.get(counter) else { return };
    let bit = 1 << counter;
    if shared.header.histograms_used.load(Relaxed) & bit == 0 {
        shared.header.histograms_used.fetch_or(bit, Relaxed);
    }
    histogram.samples.fetch_add(1, Relaxed);
    histogram.weight.fetch_add(weight, Relaxed);
    histogram.weighted_ticks.fetch_add(ticks.saturating_mul(weight), Relaxed);
    if let Some(bucket) = histogram.buckets.get(bucket_of(ticks)) {
        bucket.fetch_add(weight, Relaxed);
    }
    let mut max = histogram.max_ticks.load(Relaxed);
    while ticks > max {
        match histogram.max_ticks.compare_exchange_weak(max, ticks, Relaxed, Relaxed) {
            Ok(_) => break,
            Err(newer) => max = newer,
        }
    }
}

/// Slots of CPUs are used by several threads: distances between their calls mean nothing.
fn slot_is_of_cpu(slot: &Slot) -> bool {
    let first = &raw const shared().slots as usize;
    (core::ptr::from_ref(slot) as usize - first) / size_of::<Slot>() < CPU_SLOTS
}

/// A swap without a lock: the slot belongs to one thread.
trait SwapRelaxed {
    fn swap_relaxed(&self, value: u64) -> u64;
}

impl SwapRelaxed for core::sync::atomic::AtomicU64 {
    fn swap_relaxed(&self, value: u64) -> u64 {
        let before = self.load(Relaxed);
        self.store(value, Relaxed);
        before
    }
}
