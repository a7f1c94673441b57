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
    /// The lines that may be in use.
    used: [Used; KEPT],
    /// The greatest distance of `CLOCK_BOOTTIME` from `CLOCK_MONOTONIC` that was compared, above [`FIRST`]; 0: none.
    boot: AtomicU64,
    /// The heads whose lines are kept.
    heads: [AtomicU64; KEPT],
    /// 1 while somebody writes a copy. A thread that leaves a signal handler by `longjmp` in those
    /// nanoseconds leaves it at 1: the kernel answers then under the heads that belong there.
    busy: [AtomicU64; KEPT],
    /// What is compared, and read: the page's owner may write into a slot under the same head.
    lines: [Slot; KEPT],
}

/// A copy of a line that is trusted, or about to be.
///
/// A page that has become garbage cannot say how far its line had come, and neither can the copies
/// in [`Trust`]: `H+1` is copied over `H`'s place, rejected or garbage or not, and 16 attempts can
/// copy heads of every place before one is compared. Then only this knows how far `H` had come.
///
/// A thread that wants to trust a head writes its line into one of these, which nobody else writes then, and
/// gives the head its trust while it still has it. As long as a line may be in use, its copy stays:
/// see [`Trust::takes`].
#[derive(Debug)]
#[repr(C)]
pub(super) struct Used {
    /// 1 while a thread writes here. A thread that leaves a signal handler by `longjmp` in those nanoseconds
    /// leaves it at 1: there is one less then, and with the last one the page is not read any more.
    busy: AtomicU64,
    /// The head whose line this is; 0: none's. Written last.
    head: AtomicU64,
    words: [AtomicU64; 5],
}

/// Where [`Trust::boot`] begins to count.
const FIRST: i64 = i64::MIN;

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
            used: [const { Used { busy: ZERO, head: ZERO, words: [ZERO; 5] } }; KEPT],
            boot: ZERO,
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

    /// A place for a line that is about to be trusted: the caller's until [`trusts`](Self::trusts) gives it back.
    #[inline(always)]
    pub(super) fn free(&self) -> Option<&Used> {
        self.used.iter().find(|used| self.takes(used))
    }

    /// Trusts a head that was compared, and whose copy `is_whole`, if `before` is what stood in
    /// [`checked`](Self::checked) before the comparison, and still does.
    #[inline(always)]
    pub(super) fn trusts(&self, used: &Used, before: u64, head: u64, is_whole: impl Fn() -> bool) {
        let slot = &self.lines[Self::place(head)];
        used.copy_from(slot);
        let boot = Content::offset_in(slot, PageClock::Boottime).0;
        if is_whole() && self.notes(head) {
            self.boot.fetch_max(boot.abs_diff(FIRST), Relaxed);
            used.head.store(head, Release);
            if self.checked.compare_exchange(before, head, AcqRel, Relaxed).is_err() {
                used.head.store(0, Relaxed);
            }
        }
        used.busy.store(0, Release);
    }

    /// Frees the places of lines that are in use no more.
    #[inline(always)]
    pub(super) fn forgets(&self) {
        for used in &self.used {
            if self.takes(used) {
                used.busy.store(0, Release);
            }
        }
    }

    /// Takes the place of a line that is in use by no thread. It is not the line of the head that is trusted,
    /// nor, if none is, of one that was: that is in use until the floor has been raised to it. And no thread
    /// trusts a head whose line's place it has not taken. So whoever finds the same in `checked` before
    /// and after it looked at the lines has seen the one in use.
    #[inline(always)]
    fn takes(&self, used: &Used) -> bool {
        if used.busy.compare_exchange(0, 1, Acquire, Relaxed).is_err() {
            return false;
        }
        let head = used.head.load(Relaxed);
        let is_needed = || {
            let checked = self.checked.load(Acquire);
            head == checked || checked & LOW == 0 && Self::is_in_use(checked)
        };
        if head != 0 && is_needed() {
            used.busy.store(0, Release);
            return false;
        }
        used.head.store(0, Relaxed);
        // Whoever sees what is written here next, sees that.
        fence(Release);
        true
    }

    /// Remembers how far heads were trusted; `false` if another thread is faster.
    #[inline(always)]
    fn notes(&self, head: u64) -> bool {
        let furthest = self.furthest.load(Relaxed);
        Self::is_behind(head, furthest)
            || self.furthest.compare_exchange(furthest, head, Relaxed, Relaxed).is_ok()
    }

    /// Whether a head's count lies before that of one that was trusted.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "the half that counts")]
    const fn is_behind(head: u64, trusted: u64) -> bool {
        trusted != 0 && ((head as u32).wrapping_sub(trusted as u32) as i32) < 0
    }

    /// Trusts no head any more, if `checked` is what stands there still; gives what stands there then.
    #[inline(always)]
    pub(super) fn reset(&self, checked: u64, in_use: bool) -> Option<u64> {
        let fresh = self.resets.fetch_add(1, Relaxed).wrapping_add(1);
        let fresh = fresh << 33 | if in_use { IN_USE } else { 0 };
        self.checked.compare_exchange(checked, fresh, AcqRel, Relaxed).is_ok().then_some(fresh)
    }

    /// Trusts no head any more. The floor is yet to be raised to what was read of the page, if it
    /// [was](Self::is_in_use): no reading counts that is not done by now.
    #[inline(always)]
    pub(super) fn withdraw(&self) -> u64 {
        loop {
            let checked = self.checked.load(Relaxed);
            if let Some(fresh) = self.reset(checked, Self::is_in_use(checked)) {
                return fresh;
            }
        }
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
            self.withdraw();
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
        if floor != 0 && self.has_used() {
            self.floor.fetch_max(floor, Relaxed);
        }
        floor != 0
    }

    /// Whether this process may ever have read the page.
    #[inline(always)]
    pub(super) fn has_used(&self) -> bool {
        self.furthest.load(Relaxed) != 0
    }

    /// `CLOCK_MONOTONIC` that a reader of a line in use can have got at most until this tick.
    #[inline(always)]
    pub(super) fn reached(&self, ticks: Ticks) -> Option<Nanos> {
        self.used.iter().filter_map(|used| used.reached(ticks)).max()
    }

    /// The kernel's time of a clock, or the floor if that is above it. `offset` is that of
    /// `CLOCK_REALTIME` or `CLOCK_TAI` from `CLOCK_MONOTONIC`, if it is known.
    #[inline(always)]
    pub(super) fn held(&self, clock: PageClock, offset: Option<Nanos>, kernel: Nanos) -> Nanos {
        let (offset, limit) = match clock {
            PageClock::Monotonic => (Nanos::ZERO, HOLD),
            PageClock::Boottime => {
                (Nanos(FIRST.saturating_add_unsigned(self.boot.load(Relaxed))), HOLD)
            }
            // These are set back now and then, and rightly so.
            PageClock::Realtime | PageClock::Tai => (offset.unwrap_or(Nanos(i64::MIN)), WIDEST),
        };
        let floor = self.floor.load(Acquire).saturating_add(offset.0);
        let behind = floor.saturating_sub(kernel.0);
        if (1..limit).contains(&behind) { Nanos(floor) } else { kernel }
    }
}

impl Used {
    #[inline(always)]
    #[allow(clippy::cast_sign_loss, reason = "modulo 2^64")]
    fn copy_from(&self, slot: &Slot) {
        // One by one: arrays of them would lie on the stack.
        let [base, mono, whole, fraction, ends] = &self.words;
        base.store(slot.base.load(Relaxed), Relaxed);
        mono.store(slot.mono.nanos().0 as u64, Relaxed);
        whole.store(slot.whole.load(Relaxed), Relaxed);
        fraction.store(slot.fraction.load(Relaxed), Relaxed);
        ends.store(slot.ends().0, Relaxed);
    }

    /// What the line has reached at this tick.
    #[inline(always)]
    fn reached(&self, ticks: Ticks) -> Option<Nanos> {
        let head = self.head.load(Acquire);
        let [base, mono, whole, fraction, ends] = &self.words;
        let tick = TickLength { whole: whole.load(Relaxed), fraction: fraction.load(Relaxed) };
        let mono = Nanos(mono.load(Relaxed) as i64);
        let line = Line { base: Ticks(base.load(Relaxed)), mono, tick };
        let ends = Ticks(ends.load(Relaxed));
        fence(Acquire);
        let is_whole = head != 0 && self.head.load(Relaxed) == head;
        is_whole.then(|| line.at(ticks.min(ends)).unwrap_or(mono))
    }
}
