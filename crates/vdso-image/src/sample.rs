//! Times one call in N in place, and passes one in M of these through the sample probe.
//!
//! The first calls of a kind (function and clock) in a thread are all timed. Then N doubles until about `gap_ticks` lie
//! between two timed calls. The timed calls are drawn at random (`plan.rs`), so that a program whose calls alternate in
//! a pattern gives each kind of call its share. After a timed call, the image also takes the time until the thread's
//! next call of the same kind. From these distances the report estimates how many reads a coarse clock would have
//! answered with the same value. Reads without a coarse form are left out.
//!
//! Nothing here needs to be exact: the exact counts are kept in the slots.
//!
//! After each timed call, two counter readings with nothing in between measure the cost of the timing on the same CPU.
//!
//! The sample probe is a `nop` at which the command may set a breakpoint. A call passes it after it has been made and
//! timed, so the breakpoint's cost is not part of any measured time. The start times from which later distances are
//! measured are moved forward by that cost.
//!
//! An interpreter's frames lie in its heap and change with the next instruction. If the tracer asks for it, the call
//! therefore waits behind the sample probe until the tracer has read the frames: at most 2 ms until the tracer begins, and
//! 20 ms more until it has finished.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use fastclock::arch::CpuCounter;
use fastclock::page::Counter;

use crate::arch::sample::empty_ticks;
use crate::histogram::bucket_of;
use crate::layout::{
    CONFIG_OFFSET, COUNTER_GETCPU, COUNTER_GETRES, COUNTER_GETTIMEOFDAY, COUNTER_TIME, CPU_SLOTS,
    Config, Function, Slot,
};
use crate::plan::{HAS_COARSE_FORM, HOLD_GAPS, Plan, plan, shown, wait, wait_is_over};
use crate::slots::{image_base, live, session, shared, threads};

/// Counter pairs with at least this many ticks between them were interrupted.
const EMPTY_MOST: u64 = 1 << 13;
/// Bit of a robust futex: its owner has died.
const FUTEX_OWNER_DIED: u32 = 0x4000_0000;

/// Slot and counter of a call.
fn slot_of(slot_and_counter: usize) -> (&'static Slot, usize) {
    let counter = slot_and_counter % align_of::<Slot>();
    // SAFETY: the entries pass the address of a slot in the shared pages, which stay mapped.
    (unsafe { &*((slot_and_counter - counter) as *const Slot) }, counter)
}

/// Instructions for a call, returned in two registers.
#[repr(C)]
pub(crate) struct Due {
    /// [`Plan::packed`]; 0: the call is not timed.
    plan: u64,
    /// Address of the function to call.
    function: u64,
}

/// Runs before a call. Calls are timed only while the tracer lives, because the tracer emulates the counter for
/// programs that forbid it.
pub(crate) extern "C" fn before(slot_and_counter: usize) -> Due {
    let (slot, counter) = slot_of(slot_and_counter);
    let function = target(function_of(counter));
    if !may_time() {
        slot.countdown[counter & 31].store(0, Relaxed); // the next one is 2^32 calls away
        return Due { plan: 0, function };
    }
    let plan = plan(slot, counter, tsc_before(), slot_is_of_cpu(slot), session().gap_ticks);
    if plan.distance != 0 && HAS_COARSE_FORM >> (counter & 31) & 1 == 1 {
        let bucket = 63 - plan.distance.leading_zeros() as usize;
        if let Some(count) = shared().header.intervals.get(bucket) {
            count.fetch_add(u64::from(plan.distance_weight), Relaxed);
            shared().header.interval_samples.fetch_add(1, Relaxed);
        }
    }
    Due { plan: plan.packed(), function }
}

/// Instructions after a call, returned in two registers.
#[repr(C)]
pub(crate) struct Shown {
    /// The word to show at the sample probe; 0: the call does not pass it.
    value: u64,
    /// Number of the wait behind the probe; 0: the call does not wait.
    hold: u64,
}

/// Runs after a call.
pub(crate) extern "C" fn after(slot_and_counter: usize, packed: u64, ticks: u64) -> Shown {
    let (slot, counter) = slot_of(slot_and_counter);
    let plan = Plan::unpacked(packed);
    let mut own_ticks = ticks;
    if plan.weight != 0 && ticks < 1 << 62 {
        record(counter, ticks, u64::from(plan.weight));
        own_ticks = ticks.saturating_sub(record_empty());
    }
    let (one_in, holds) = one_in(slot);
    let value = shown(slot, counter, &plan, one_in);
    let hold = if value != 0 && holds { begin_hold() } else { 0 };
    if value != 0 || plan.weight != 0 {
        let (now, since) = (tsc_before(), slot.waiting_since.load(Relaxed));
        slot.probe_at.store(now, Relaxed);
        // The distance to the next call is without the time that was taken here.
        if since != 0 && since == slot.last_timed.load(Relaxed) {
            slot.waiting_since.store(now.saturating_sub(own_ticks).max(since), Relaxed);
        }
    }
    Shown { value, hold }
}

/// N of the one in N timed calls that passes the sample probe, and whether these calls wait behind it. A call in a
/// CPU's slot never waits, because the slot does not identify the thread.
fn one_in(slot: &Slot) -> (u32, bool) {
    let (of_all, threads) = (live().callers_one_in.load(Relaxed), threads());
    match threads.hold_one_in.load(Relaxed) {
        0 => (of_all, false),
        _ if of_all == 0 || slot_is_of_cpu(slot) => (of_all, false),
        _ if threads.left.load(Relaxed) != threads.seen.load(Relaxed) => (0, false),
        own => (own as u32, true),
    }
}

/// The number of this call's wait; 0 if another call waits.
fn begin_hold() -> u64 {
    let threads = threads();
    let (held, released) = (threads.held.load(Relaxed), threads.released.load(Relaxed));
    let number = wait(held, released, threads.reading.load(Relaxed), tsc_before(), hold_ticks());
    match threads.held.compare_exchange(held, number.unwrap_or(held), Relaxed, Relaxed) {
        Ok(_) => number.unwrap_or(0),
        Err(_) => 0,
    }
}

/// Longest wait, in ticks.
fn hold_ticks() -> u64 {
    session().gap_ticks.saturating_mul(HOLD_GAPS)
}

/// Waits until the tracer has read the thread's stack, but not longer than [`wait_is_over`] allows. The wait spins without
/// a system call, because a seccomp filter of the program could forbid any call.
fn hold(number: u64) {
    let threads = threads();
    // Another call may begin a wait if this one was released but its thread did not run.
    while threads.released.load(Acquire) != number && threads.held.load(Relaxed) == number {
        let is_read = threads.reading.load(Relaxed) == number;
        if wait_is_over(number, is_read, tsc_before(), hold_ticks()) {
            // The tracer checks this word after it has read the stack. Until then no other call waits.
            threads.left.store(number, Release);
            break;
        }
        core::hint::spin_loop();
    }
}

/// Runs behind the sample probe: removes the time spent there from later distances.
pub(crate) extern "C" fn passed(slot_and_counter: usize, result: usize, number: u64) -> usize {
    if number != 0 {
        hold(number);
    }
    let (slot, _) = slot_of(slot_and_counter);
    let ticks = tsc_before().saturating_sub(slot.probe_at.load(Relaxed));
    slot.probe_ticks.store(ticks, Relaxed);
    for clock in [&slot.last_timed, &slot.waiting_since] {
        let since = clock.load(Relaxed);
        if since != 0 {
            clock.store(since + ticks, Relaxed);
        }
    }
    result
}

/// The function of a counter of timed calls.
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

/// The address that a function's entries jump to.
fn target(function: Function) -> u64 {
    // SAFETY: the page lies behind the image and is read-only since the installation.
    unsafe {
        let config = (image_base() + CONFIG_OFFSET) as *const Config;
        *(&raw const (*config).target).cast::<u64>().add(function as usize)
    }
}

/// Whether calls may be timed.
fn may_time() -> bool {
    let tracer = live().tracer.load(Relaxed);
    tracer != 0 && tracer & FUTEX_OWNER_DIED == 0 && shared().header.no_timing.load(Relaxed) == 0
}

/// Reads the counter after all earlier instructions are done. If the program has forbidden itself the counter, the
/// living tracer resumes the thread behind the instruction.
#[inline(always)]
fn tsc_before() -> u64 {
    CpuCounter.ordered().0
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
    histogram.squared_weights.fetch_add(weight.saturating_mul(weight), Relaxed);
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

/// Measures the cost of the timing, in ticks: reads the counter twice as `sample` does, with no call in between. The cost
/// changes with the speed of the CPU and with the load on its sibling thread, so it is measured on the same CPU right
/// after the call. 0 if it was interrupted.
fn record_empty() -> u64 {
    let ticks = empty_ticks();
    if ticks >= EMPTY_MOST {
        return 0;
    }
    let header = &shared().header;
    header.empty_ticks.fetch_add(ticks, Relaxed);
    header.empty_samples.fetch_add(1, Relaxed);
    ticks
}

/// Whether this is a CPU's slot. Several threads use such a slot, so distances between its calls mean nothing.
fn slot_is_of_cpu(slot: &Slot) -> bool {
    let first = &raw const shared().slots as usize;
    (core::ptr::from_ref(slot) as usize - first) / size_of::<Slot>() < CPU_SLOTS
}
