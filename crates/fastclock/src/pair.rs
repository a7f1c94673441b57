//! A clock page, and beside it what this process alone knows.

use core::fmt;
use core::ptr;
use core::sync::atomic::Ordering::Relaxed;

use crate::page::{Page, SIZE, Trust};
use crate::sync::AtomicU64;
use crate::sys::LARGEST_PAGE;

const SHARDS: usize = 8;
/// Reasons, and at 0 the negative differences.
const COUNTERS: usize = 32;

/// Where what this process knows begins: behind the page of memory that the clock page is in. Where pages can be
/// large, the addresses between cost no memory.
pub(crate) const OWN_AT: usize = LARGEST_PAGE;

/// A clock page and, in a page of memory after it, what this process knows: one pointer leads to both.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Pair {
    pub(crate) page: Page,
    gap: Gap,
    /// Zero in the beginning, and again in a forked child.
    pub(crate) trust: Trust,
    /// Zero in the beginning, and again in a forked child.
    pub(crate) counts: Counts,
}

const _: () = {
    assert!(core::mem::offset_of!(Pair, trust) == OWN_AT);
    assert!(size_of::<Pair>() == OWN_AT + SIZE);
};

/// Addresses that nothing is at.
struct Gap([u8; OWN_AT - SIZE]);

impl Default for Gap {
    fn default() -> Self {
        Self([0; OWN_AT - SIZE])
    }
}

impl fmt::Debug for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// How often what happened. Threads that the kernel answers should not wait for each other's
/// cache lines: each counts in one of some places.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Counts {
    shards: [[AtomicU64; COUNTERS]; SHARDS],
}

impl Counts {
    /// Counts one more of `what`, which is a reason's number.
    pub(crate) fn add(&self, what: usize) {
        if let Some(count) = self.shards[0].get(what) {
            count.fetch_add(1, Relaxed);
        }
    }

    /// Counts one more of `what` for a nanosecond instead of six; two threads that meet at one
    /// place at the same moment may count one.
    pub(crate) fn add_about(&self, what: usize) {
        let here = 0_u8;
        // Threads have stacks of their own, a good part of a megabyte apart.
        let place = (ptr::from_ref(&here).addr() >> 16).wrapping_mul(0x9e37_79b9) >> 16;
        if let Some(count) = self.shards[place % SHARDS].get(what) {
            count.store(count.load(Relaxed).wrapping_add(1), Relaxed);
        }
    }

    /// How often `what` was counted.
    pub(crate) fn get(&self, what: usize) -> u64 {
        self.shards.iter().filter_map(|shard| shard.get(what)).map(|n| n.load(Relaxed)).sum()
    }
}
