//! Timing one call in N, in place.
//!
//! The first calls of a kind (function and clock) in a thread are all timed, then N doubles until about `gap_ticks` lie between
//! two timed calls. N is spread at random, so that a program whose calls alternate in a pattern
//! gives every one of them its share. After a timed call the time until the thread's next call of the kind is
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

/// Every call of a thread is timed until this many of the same kind have been.
const EAGER_SAMPLES: u32 = 32;
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
        slot.countdown[counter & 31].store(0, Relaxed); // the next one is 2^32 calls away
        return call();
    }
    let Some(weight) = plan(slot, counter & 31, tsc_before()) else { return call() };
    let start = tsc_before();
    let result = call();
    let ticks = tsc_after().wrapping_sub(start);
    if ticks < 1 << 62 {
        record(counter, ticks, u64::from(weight));
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

/// Decides when the next call of this counter is looked at, and notes the distance to the call
/// before if that was timed. Gives the number of calls that this one stands for, or `None` if it
/// is only there for that distance.
fn plan(slot: &Slot, counter: usize, now: u64) -> Option<u32> {
    let by_cpu = slot_is_of_cpu(slot);
    let eager = u32::from(slot.samples[counter].load(Relaxed)) < EAGER_SAMPLES;
    let period = if eager { 1 } else { slot.period.load(Relaxed).max(1) };
    let since = slot.waiting_since.load(Relaxed);
    if since != 0 && slot.waiting.load(Relaxed) as usize == counter && !by_cpu {
        slot.waiting_since.store(0, Relaxed);
        let distance = now.saturating_sub(since) | 1;
        let bucket = 63 - distance.leading_zeros() as usize;
        if let Some(count) = shared().header.intervals.get(bucket) {
            count.fetch_add(u64::from(period), Relaxed);
        }
        if period > 1 {
            slot.countdown[counter].store(spread(slot, period), Relaxed);
            return None;
        }
    }
    let gap = now.saturating_sub(slot.last_timed.load(Relaxed));
    slot.last_timed.store(now, Relaxed);
    if eager {
        slot.samples[counter].fetch_add(1, Relaxed);
    } else {
        slot.period.store(adapted(period, gap), Relaxed);
    }
    slot.waiting_since.store(now, Relaxed);
    slot.waiting.store((counter & 31) as u32, Relaxed);
    slot.countdown[counter].store(if by_cpu { spread(slot, period) } else { 1 }, Relaxed);
    Some(period)
}

/// The number of calls between timed ones, after two that lay `gap` ticks apart.
fn adapted(period: u32, gap: u64) -> u32 {
    let aim = session().gap_ticks;
    if gap < aim {
        (period * 2).min(PERIOD_MAX)
    } else if gap / 4 > aim {
        (period / 2).max(1)
    } else {
        period
    }
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
