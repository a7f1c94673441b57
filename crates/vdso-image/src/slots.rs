//! Gives a thread a slot, and counts calls of threads without a slot in the slot of their CPU.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

pub(crate) use crate::arch::slots::image_base;
use crate::arch::slots::{count_in, spread, thread_key};
use crate::layout::{
    CPU_SLOTS, Constants, LIVE_OFFSET, Live, ONLY_THREAD, POISON, PROBES, SESSION_OFFSET,
    SHARED_OFFSET, SLOTS, Shared, Slot, THREADS_OFFSET, ThreadEntry, Threads, thread_hash,
};
use crate::plan::seed;

/// Value of [`Constants::counting`]: every thread counts in the slot of its CPU.
const COUNT_BY_CPU: u64 = 2;

/// Key of an entry that a thread is claiming.
const CLAIMING: u64 = POISON - 1;

#[inline(always)]
pub(crate) fn session() -> &'static Constants {
    // SAFETY: the page lies behind the image in every process that has the image. The image never unmaps it, and
    // nothing in it changes.
    unsafe { &*((image_base() + SESSION_OFFSET) as *const Constants) }
}

/// The tracer's settings.
#[inline(always)]
pub(crate) fn live() -> &'static Live {
    // SAFETY: as for `shared`; the page consists of atomics.
    unsafe { &*((image_base() + LIVE_OFFSET) as *const Live) }
}

/// The pages shared with the tracer.
#[inline(always)]
pub(crate) fn shared() -> &'static Shared {
    // SAFETY: only counting entries call this, and the program finds them only after the installer has mapped the
    // shared pages; all fields that change are atomics.
    unsafe { &*((image_base() + SHARED_OFFSET) as *const Shared) }
}

/// The slots of the process's threads, and the words for waiting behind the sample probe.
pub(crate) fn threads() -> &'static Threads {
    // SAFETY: as for `shared`.
    unsafe { &*((image_base() + THREADS_OFFSET) as *const Threads) }
}

/// Counts one call and returns the slot's address if the call is to be timed, otherwise 0.
pub(crate) extern "C" fn count(counter: u32) -> usize {
    let counter = counter as usize;
    match own_slot() {
        Some(slot) if count_in(slot, counter) => core::ptr::from_ref(slot) as usize,
        Some(_) => 0,
        None => count_by_cpu(counter),
    }
}

/// Counts in the slot of the CPU, which several threads may use at the same time.
fn count_by_cpu(counter: usize) -> usize {
    let index = spread() & (CPU_SLOTS - 1);
    let slot = &shared().slots[index];
    mark(&shared().header.slots_used, index);
    slot.calls[counter & 31].fetch_add(1, Relaxed);
    if slot.countdown[counter & 31].fetch_sub(1, Relaxed) <= 1 {
        core::ptr::from_ref(slot) as usize
    } else {
        0
    }
}

/// Key of a thread whose thread pointer is not set yet.
const NO_POINTER: u64 = 1;

/// The thread's slot: found behind the first two entries, or claimed now.
fn own_slot() -> Option<&'static Slot> {
    if session().counting == COUNT_BY_CPU {
        return None;
    }
    let key = thread_key()?;
    let threads = threads();
    let first = thread_hash(key) / size_of::<ThreadEntry>();
    for entry in threads.entries.iter().skip(first).take(PROBES) {
        let found = entry.key.load(Acquire);
        if found == key {
            // SAFETY: the address of a slot was stored in this word before the key was.
            return Some(unsafe { &*(entry.slot.load(Relaxed) as *const Slot) });
        }
        if found == 0 && entry.key.compare_exchange(0, CLAIMING, Relaxed, Relaxed).is_ok() {
            return claim(entry, key, threads);
        }
    }
    None
}

/// Takes a slot and writes its address into the entry. No other thread uses the entry while its key is [`CLAIMING`]. A
/// signal handler of this thread that interrupts this function finds the next entry free and the same slot. If it makes
/// a task with the same thread pointer, the tracer writes [`POISON`] into the entry, which stays. If it forks, the child
/// finds zeroes in [`Threads`] and a number of its own, and takes nothing of what its parent took.
fn claim(entry: &ThreadEntry, key: u64, threads: &Threads) -> Option<&'static Slot> {
    let process = process(&threads.process);
    let taken = if threads.full.load(Relaxed) == 0 { take_slot(process, key) } else { None };
    let Some((index, slot)) = taken else {
        threads.full.store(1, Relaxed);
        let _ = entry.key.compare_exchange(CLAIMING, 0, Relaxed, Relaxed);
        return None;
    };
    mark(&shared().header.slots_used, index);
    let address = core::ptr::from_ref(slot) as u64;
    let before = entry.slot.load(Relaxed);
    if forked(process) {
        return None;
    }
    entry.slot.compare_exchange(before, address, Relaxed, Relaxed).ok()?;
    entry.key.compare_exchange(CLAIMING, key, Release, Relaxed).ok()?;
    if key != NO_POINTER {
        // The tracer's zero stays, and its word for a child.
        let only_thread = ONLY_THREAD | process;
        let _ = threads.only_slot.compare_exchange(only_thread, address, Relaxed, Relaxed);
    }
    Some(slot)
}

/// Whether a signal handler has forked since the process's number was read, and this is the child.
fn forked(process: u64) -> bool {
    threads().process.load(Relaxed) != process
}

/// The slot that this thread took before, or a free slot, which becomes its own.
fn take_slot(process: u64, key: u64) -> Option<(usize, &'static Slot)> {
    let owner = process << 1 | 1;
    let slots = &shared().slots;
    let mut index = CPU_SLOTS;
    while index < SLOTS {
        let slot = &slots[index];
        let taken = slot.owner.load(Relaxed);
        if taken == owner && slot.key.load(Relaxed) == key {
            return Some((index, slot));
        }
        if taken == 0 && slot.owner.compare_exchange(0, owner, Relaxed, Relaxed).is_ok() {
            slot.random.store(seed(key, owner), Relaxed);
            for calls in &slot.calls {
                // A context from before the session may have added to the slot, or the parent that took it.
                let stale = calls.load(Relaxed);
                if stale != 0 && !forked(process) {
                    let _ = calls.compare_exchange(stale, 0, Relaxed, Relaxed);
                }
            }
            slot.countdown.iter().for_each(|countdown| countdown.store(1, Relaxed));
            // From here on a signal handler of this thread finds the slot and counts in it.
            slot.key.store(key, Release);
            return Some((index, slot));
        }
        index += 1;
    }
    None
}

/// The session's number for this process: from the tracer, or counted down from the top if the tracer gave none.
fn process(word: &AtomicU64) -> u64 {
    let known = word.load(Relaxed);
    if known != 0 {
        return known;
    }
    let own = u64::from(u32::MAX - shared().header.anonymous.fetch_add(1, Relaxed));
    match word.compare_exchange(0, own, Relaxed, Relaxed) {
        Ok(_) => own,
        Err(other) => other,
    }
}

/// Sets a bit in a bitmap, if it is not yet set.
#[inline(always)]
fn mark(bitmap: &[AtomicU64], index: usize) {
    let bit = 1 << (index % 64);
    if let Some(word) = bitmap.get(index / 64)
        && word.load(Relaxed) & bit == 0
    {
        word.fetch_or(bit, Relaxed);
    }
}
