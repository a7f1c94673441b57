//! A clock page, and beside it the state of this process alone.

use core::ptr;
use core::sync::atomic::Ordering::Relaxed;

use crate::page::{Page, SIZE, Trust};
use crate::sync::AtomicU64;
use crate::sys::LARGEST_PAGE;

const SHARDS: usize = 8;
/// One for each reason, index 0 for negative differences, index 31 for looks at the kernel's clock.
const COUNTERS: usize = 32;

/// Offset of the process's own state: behind the page of memory that holds the clock page. Where
/// pages can be large, the unused addresses between cost no memory.
pub(crate) const OWN_AT: usize = LARGEST_PAGE;

/// A clock page and, in a page of memory after it, the state of this process: one pointer leads to
/// both.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Pair {
    pub(crate) page: Page,
    /// Unused addresses.
    pub(crate) gap: [u8; OWN_AT - SIZE],
    /// Zero in the beginning, and again in a forked child.
    pub(crate) trust: Trust,
    /// Zero in the beginning, and again in a forked child.
    pub(crate) counts: Counts,
}

const _: () = {
    assert!(core::mem::offset_of!(Pair, trust) == OWN_AT);
    assert!(size_of::<Pair>() == OWN_AT + SIZE);
};

/// Counters of reasons and events. Threads that the kernel answers should not wait for each other's
/// cache lines, so each thread counts in one of several shards.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Counts {
    shards: [[AtomicU64; COUNTERS]; SHARDS],
}

impl Counts {
    /// Adds one to `what`, a reason's number.
    pub(crate) fn add(&self, what: usize) {
        if let Some(count) = self.shards[0].get(what) {
            count.fetch_add(1, Relaxed);
        }
    }

    /// Adds one to `what` in a nanosecond instead of six. If two threads add to one place at the
    /// same moment, one addition may be lost.
    pub(crate) fn add_about(&self, what: usize) {
        let here = 0_u8;
        // Each thread has its own stack, a good part of a megabyte apart.
        let place = (ptr::from_ref(&here).addr() >> 16).wrapping_mul(0x9e37_79b9) >> 16;
        if let Some(count) = self.shards[place % SHARDS].get(what) {
            count.store(count.load(Relaxed).wrapping_add(1), Relaxed);
        }
    }

    /// The sum of `what` over all shards.
    pub(crate) fn get(&self, what: usize) -> u64 {
        self.shards.iter().filter_map(|shard| shard.get(what)).map(|n| n.load(Relaxed)).sum()
    }
}
