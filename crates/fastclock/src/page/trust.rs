//! What a process knows of a page: private to it, and rarely changed.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use super::content::Content;
use super::reader::PageClock;
use super::slow::{HOLD, WIDEST};
use super::{Page, Slot};
use crate::decline::Decline;
use crate::line::{Line, TickLength};
use crate::sync::{AtomicI64, AtomicU64, fence};
use crate::units::{Nanos, Ticks};

/// Copies of lines that a process keeps, a power of two.
const KEPT: usize = 4;
/// The half of a head that counts.
const LOW: u64 = 0xffff_ffff;
/// Bit of a reset [`Trust::checked`].
const IN_USE: u64 = 1 << 32;

/// What a process has found out about a page: private to it, zero in the beginning, and zeroed
/// again in a forked child if that can be had (`MADV_WIPEONFORK`).
#[derive(Debug)]
#[repr(C)]
pub struct Trust {
    /// The head whose content was compared with the kernel's clock and agreed; or, with a low half of
    /// 0, which no such head has, that none is trusted. Bit 32 then says that the page was read since
    /// the process went over to the kernel last, and the 31 bits above it make the value one that was
    /// not there before. It changes by compare-exchange, so whoever has compared a head trusts it only
    /// if nobody has reset this word meanwhile. 0 in the beginning, and once the counter is forbidden.
    pub(super) checked: AtomicU64,
    /// How often `checked` was reset.
    resets: AtomicU64,
    /// The head furthest on of those that were ever trusted.
    furthest: AtomicU64,
    /// The head whose content did not agree.
    pub(super) rejected: AtomicU64,
    /// The head after which this process went over to the kernel.
    pub(super) fallen: AtomicU64,
    /// Why, a [`Decline`] as a number; written before.
    pub(super) why: AtomicU64,
    /// `CLOCK_MONOTONIC` that was reached by then: the kernel's answers stay at or above it.
    pub(super) floor: AtomicI64,
    /// 0, or a `CLOCK_MONOTONIC` above every answer of the page: from then on this process may not
    /// read the counter, and the kernel answers for good.
    pub(super) forbidden: AtomicI64,
    /// The line that was checked last.
    used: Used,
    /// The heads whose lines are kept.
    heads: [AtomicU64; KEPT],
    /// 1 while somebody writes a copy. A thread that leaves a signal handler by `longjmp` in those
    /// nanoseconds leaves it at 1: the kernel answers then under the heads that belong there.
    busy: [AtomicU64; KEPT],
    /// What is compared, and read: the page's owner may write into a slot under the same head.
    lines: [Slot; KEPT],
}

/// A copy of the line that was checked last, with a sum that tells if two threads have mixed it.
///
/// A page that has become garbage cannot say how far its line had come, and neither can the copies
/// in [`Trust`]: `H+1` is copied over `H`'s place, rejected or garbage or not, and 16 attempts can
/// copy heads of every place before one is compared. Then only this knows how far `H` had come.
#[derive(Debug)]
#[repr(C)]
struct Used {
    words: [AtomicU64; 6],
    sum: AtomicU64,
}

/// What [`Used`] holds.
#[derive(Clone, Copy)]
struct Usage {
    line: Line,
    ends: Ticks,
    boot: Nanos,
}

impl Default for Trust {
    fn default() -> Self {
        Self::new()
    }
}

impl Trust {
    /// Where a tracer writes, from the start of the struct, when the process has forbidden itself
    /// the counter (`PR_SET_TSC`): first here a `CLOCK_MONOTONIC` in nanoseconds above every answer
    /// of the page, then 0 at [`CHECKED_OFFSET`](Self::CHECKED_OFFSET). The counter is not read any
    /// more then.
    pub const FORBIDDEN_OFFSET: usize = core::mem::offset_of!(Self, forbidden);
    /// Where the head stands that the process trusts.
    pub const CHECKED_OFFSET: usize = core::mem::offset_of!(Self, checked);

    /// Nothing is known yet.
    #[must_use]
    #[allow(clippy::declare_interior_mutable_const, reason = "each use makes a new one")]
    pub const fn new() -> Self {
        const ZERO: AtomicU64 = AtomicU64::new(0);
        Self {
            checked: ZERO,
            resets: ZERO,
            furthest: ZERO,
            rejected: ZERO,
            fallen: ZERO,
            why: ZERO,
            floor: AtomicI64::new(0),
            forbidden: AtomicI64::new(0),
            used: Used { words: [ZERO; 6], sum: ZERO },
            heads: [ZERO; KEPT],
            busy: [ZERO; KEPT],
            lines: [const { Slot::new() }; KEPT],
        }
    }
}

impl Trust {
    /// Where the line of this head is kept. Of the two publications of a renewal, an announcement and
    /// the line that follows it, only the line is read for long; usually they have different places. After
    /// a pause, when a line begins without an announcement, the parity changes and they share one.
    #[inline(always)]
    const fn place(head: u64) -> usize {
        (head >> 1) as usize & (KEPT - 1)
    }

    /// The line to be read under this head, if it was compared.
    #[inline(always)]
    pub(super) fn line(&self, head: u64) -> Option<&Slot> {
        // What has a low half of 0 is a reset, also if somebody writes it into the page's head.
        let trusted = self.checked.load(Acquire) == head && head & LOW != 0;
        if trusted { Some(&self.lines[Self::place(head)]) } else { None }
    }

    /// Zero if what was read of [`line`](Self::line) until now, and before an acquire fence, is the
    /// copy of a head that is still trusted: a head in the page can be set on and back meanwhile.
    #[inline(always)]
    pub(super) fn moved(&self, head: u64) -> u64 {
        self.checked.load(Relaxed) ^ head
    }

    /// Whether the page was read since the process went over to the kernel last, by a value of
    /// [`checked`](Self::checked).
    #[inline(always)]
    pub(super) const fn is_in_use(checked: u64) -> bool {
        checked & LOW != 0 || checked & IN_USE != 0
    }

    /// Trusts a head that was compared, if `before` is what stood in [`checked`](Self::checked) before the
    /// comparison, and still does.
    #[inline(always)]
    pub(super) fn trusts(&self, before: u64, head: u64) {
        let furthest = self.furthest.load(Relaxed);
        let is_noted = Self::is_behind(head, furthest)
            || self.furthest.compare_exchange(furthest, head, Relaxed, Relaxed).is_ok();
        if is_noted {
            let _ = self.checked.compare_exchange(before, head, AcqRel, Relaxed);
        }
    }

    /// Whether a head's count lies before that of one that was trusted.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "the half that counts")]
    const fn is_behind(head: u64, trusted: u64) -> bool {
        trusted != 0 && ((head as u32).wrapping_sub(trusted as u32) as i32) < 0
    }

    /// Trusts no head any more, if `checked` is what stands there still.
    #[inline(always)]
    pub(super) fn reset(&self, checked: u64, in_use: bool) -> bool {
        let fresh = self.resets.fetch_add(1, Relaxed).wrapping_add(1);
        let fresh = fresh << 33 | if in_use { IN_USE } else { 0 };
        self.checked.compare_exchange(checked, fresh, AcqRel, Relaxed).is_ok()
    }

    /// What stands under this head: the copy, once there is one.
    #[inline(always)]
    pub(super) fn slot<'a>(&'a self, page: &'a Page, head: u64) -> &'a Slot {
        if self.is_kept(head) {
            &self.lines[Self::place(head)]
        } else {
            &page.slots[(head & 1) as usize]
        }
    }

    /// Whether there is a copy of what stands under this head.
    #[inline(always)]
    pub(super) fn is_kept(&self, head: u64) -> bool {
        head != 0 && self.heads[Self::place(head)].load(Acquire) == head
    }

    /// Keeps a copy of what stands under a head, to be compared and read; `false` if another thread is
    /// doing so, or the head is another one by now.
    ///
    /// Only one thread at a time writes a copy, and only while its head is current: whoever still
    /// reads the line that was there before finds another head in the page afterwards. Who comes
    /// second goes without; a thread that was kept from its CPU here must not write later.
    ///
    /// The page's owner may set the head back to the one whose line was there. So first the place is
    /// said to be empty, then no head is trusted any more, and only then is the line overwritten.
    /// Whoever loads `checked`, finds the place filled after that, compares what is there, and then
    /// trusts it by exchanging what it had loaded has compared one copy: had anybody begun to write
    /// another, the place would have been empty, or the exchange fail.
    ///
    /// And a head that was trusted is copied no second time, nor one before it. So a reader that
    /// finds it trusted before and after a reading, however long that took, has read one copy.
    #[inline(always)]
    pub(super) fn copy(&self, page: &Page, head: u64) -> bool {
        if self.is_kept(head) {
            return true;
        }
        let place = Self::place(head);
        if self.busy[place].compare_exchange(0, 1, Acquire, Relaxed).is_err() {
            return false;
        }
        let is_current = || {
            fence(Acquire);
            page.head.load(Acquire) == head
        };
        let furthest = self.furthest.load(Relaxed);
        let is_past = head == furthest || Self::is_behind(head, furthest);
        if is_current() && self.heads[place].load(Relaxed) != head && !is_past {
            self.heads[place].store(0, Relaxed);
            loop {
                let checked = self.checked.load(Relaxed);
                // The floor is yet to be raised to what was read of the page.
                if self.reset(checked, Self::is_in_use(checked)) {
                    break;
                }
            }
            // Nothing of the new line is seen by those who do not see the new head, and the reset.
            fence(Release);
            self.lines[place].copy_from(&page.slots[(head & 1) as usize]);
            if is_current() {
                self.heads[place].store(head, Release);
            }
        }
        self.busy[place].store(0, Release);
        self.is_kept(head)
    }

    /// Gives the copies to the model checker.
    #[cfg(fastclock_model)]
    pub(super) fn model_copies(&self, model: impl Fn(&Slot)) {
        self.heads.iter().chain(&self.busy).for_each(AtomicU64::model);
        self.lines.iter().for_each(model);
    }

    /// Trusts the head of a page without a comparison.
    #[cfg(test)]
    pub(super) fn keep(&self, page: &Page, head: u64) {
        assert!(self.copy(page, head));
        self.checked.store(head, Release);
    }

    /// Why the process has gone over to the kernel.
    #[inline]
    pub(super) fn reason(&self) -> Option<Decline> {
        Decline::from_raw(u32::try_from(self.why.load(Relaxed)).ok()?)
    }

    /// Whether the process may not read the counter. Then no answer lies below the page's from before.
    #[inline(always)]
    pub(super) fn is_forbidden(&self) -> bool {
        let floor = self.forbidden.load(Relaxed);
        if floor != 0 && self.used.load().is_some() {
            self.floor.fetch_max(floor, Relaxed);
        }
        floor != 0
    }

    /// Whether this process has ever read the page.
    #[inline(always)]
    pub(super) fn has_used(&self) -> bool {
        self.used.sum.load(Relaxed) != 0
    }

    /// Keeps the line of a slot, if it is whole: then, whether it still is, is asked once more.
    #[inline(always)]
    pub(super) fn uses(&self, slot: &Slot, is_whole: impl Fn() -> bool) -> bool {
        let usage = Usage::of(slot);
        let whole = is_whole();
        if whole {
            self.used.store(&usage);
        }
        whole
    }

    /// `CLOCK_MONOTONIC` that a reader of the line that was used last can have got at most until this
    /// tick.
    #[inline(always)]
    pub(super) fn reached(&self, ticks: Ticks) -> Option<Nanos> {
        let used = self.used.load()?;
        Some(used.line.at(ticks.min(used.ends)).unwrap_or(used.line.mono))
    }

    /// The kernel's time of a clock, or the floor if that is above it. `offset` is that of
    /// `CLOCK_REALTIME` or `CLOCK_TAI` from `CLOCK_MONOTONIC`, if it is known.
    #[inline(always)]
    pub(super) fn held(&self, clock: PageClock, offset: Option<Nanos>, kernel: Nanos) -> Nanos {
        let Some(used) = self.used.load() else { return kernel };
        let (offset, limit) = match clock {
            PageClock::Monotonic => (Nanos::ZERO, HOLD),
            PageClock::Boottime => (used.boot, HOLD),
            // These are set back now and then, and rightly so.
            PageClock::Realtime | PageClock::Tai => (offset.unwrap_or(Nanos(i64::MIN)), WIDEST),
        };
        let floor = self.floor.load(Acquire).saturating_add(offset.0);
        let behind = floor.saturating_sub(kernel.0);
        if (1..limit).contains(&behind) { Nanos(floor) } else { kernel }
    }
}

impl Usage {
    /// What stands in a slot.
    #[inline(always)]
    fn of(slot: &Slot) -> Self {
        Self {
            line: slot.line(),
            ends: slot.ends(),
            boot: Content::offset_in(slot, PageClock::Boottime),
        }
    }
}

impl Used {
    #[inline(always)]
    #[allow(clippy::cast_sign_loss, reason = "modulo 2^64")]
    fn store(&self, usage: &Usage) {
        let Usage { line, ends, boot } = usage;
        let mut sum = SEED;
        let mut store = |index: usize, value: u64| {
            self.words[index].store(value, Relaxed);
            sum = mixed(sum, value);
        };
        store(0, line.base.0);
        store(1, line.mono.0 as u64);
        store(2, line.tick.whole);
        store(3, line.tick.fraction);
        store(4, ends.0);
        store(5, boot.0 as u64);
        self.sum.store(sum | 1, Relaxed);
    }

    #[inline(always)]
    fn load(&self) -> Option<Usage> {
        // One by one: arrays of them would lie on the stack.
        let [base, mono, whole, fraction, ends, boot] = &self.words;
        let (base, mono) = (base.load(Relaxed), mono.load(Relaxed));
        let (whole, fraction) = (whole.load(Relaxed), fraction.load(Relaxed));
        let (ends, boot) = (ends.load(Relaxed), boot.load(Relaxed));
        let sum = mixed(mixed(mixed(SEED, base), mono), whole);
        // Never zero by chance only: zero says that there is nothing.
        let sum = mixed(mixed(mixed(sum, fraction), ends), boot) | 1;
        (self.sum.load(Relaxed) == sum).then_some(Usage {
            line: Line {
                base: Ticks(base),
                mono: Nanos(mono as i64),
                tick: TickLength { whole, fraction },
            },
            ends: Ticks(ends),
            boot: Nanos(boot as i64),
        })
    }
}

/// What a sum of [`Used::words`] begins with.
const SEED: u64 = 1;

#[inline(always)]
const fn mixed(sum: u64, word: u64) -> u64 {
    (sum.rotate_left(7) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
