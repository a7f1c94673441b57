//! A process's knowledge of a page: private to the process, and rarely changed.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use super::clocks::PageClock;
use super::content::Content;
use super::{Page, Slot};
use crate::decline::Decline;
use crate::line::{Line, TickLength};
use crate::sync::{AtomicI64, AtomicU64, fence};
use crate::units::{Nanos, Ticks};

/// Largest accepted distance from the kernel's clock, whatever the page's bound, ns.
pub(super) const WIDEST: i64 = 1_000_000;
/// Longest time for which a clock stands still rather than go back, ns.
pub(super) const HOLD: i64 = 1_000_000_000;
/// Number of line copies that a process keeps, a power of two.
const KEPT: usize = 4;
/// Mask of a head's count.
const LOW: u64 = 0xffff_ffff;
/// Bit of a reset [`Trust::checked`]: the page was in use.
const IN_USE: u64 = 1 << 32;

/// A process's findings about a page: private to the process, zero in the beginning, and zeroed
/// again in a forked child if the kernel supports that (`MADV_WIPEONFORK`).
#[derive(Debug)]
#[repr(C)]
pub struct Trust {
    /// The head whose content agreed with the kernel's clock. Or, if the low half is 0 (which no
    /// such head has): no head is trusted; bit 32 then tells whether the page was read since the
    /// process last went over to the kernel, and the 31 bits above it make the value unique. The
    /// word changes by compare-exchange: a thread that has compared a head trusts it only if no
    /// other thread has reset the word meanwhile. 0 in the beginning, and once the counter is
    /// forbidden.
    pub(super) checked: AtomicU64,
    /// Number of resets of `checked`.
    resets: AtomicU64,
    /// The trusted head with the highest count so far.
    furthest: AtomicU64,
    /// The head whose content did not agree with the kernel's clock.
    pub(super) rejected: AtomicU64,
    /// The head under which this process went over to the kernel.
    pub(super) fallen: AtomicU64,
    /// Reason for that, a [`Decline`] as a number; written before `fallen`.
    pub(super) why: AtomicU64,
    /// `CLOCK_MONOTONIC` reached by then: the kernel's answers stay at or above it.
    pub(super) floor: AtomicI64,
    /// 0, or a `CLOCK_MONOTONIC` above every answer of the page. If not 0, this process may not
    /// read the counter, and the kernel answers from then on.
    pub(super) forbidden: AtomicI64,
    /// The lines that may be in use.
    used: [Used; KEPT],
    /// The largest compared distance of `CLOCK_BOOTTIME` from `CLOCK_MONOTONIC`, above [`FIRST`];
    /// 0: none.
    boot: AtomicU64,
    /// The heads whose lines are in `lines`.
    heads: [AtomicU64; KEPT],
    /// 1 while a thread writes a copy. A thread that leaves a signal handler by `longjmp` in those
    /// nanoseconds leaves it at 1: the kernel then answers under the heads of that place.
    busy: [AtomicU64; KEPT],
    /// Copies that are compared and read, because the page's owner may change a slot under the same
    /// head.
    lines: [Slot; KEPT],
}

/// A copy of a line that is trusted, or about to be.
///
/// A page that has become garbage cannot tell the latest time of its line. Neither can the copies
/// in [`Trust`]: `H+1` can be copied over `H`'s place, rejected or garbage or not, and 16 attempts
/// can copy heads into every place before one is compared. Then only this copy knows the latest
/// time of `H`.
///
/// A thread that wants to trust a head takes one of these for itself, writes the head's line into
/// it, and trusts the head before it releases the place. While a line may be in use, its copy
/// stays: see [`Trust::takes`].
#[derive(Debug)]
#[repr(C)]
pub(super) struct Used {
    /// 1 while a thread writes here. A thread that leaves a signal handler by `longjmp` in those
    /// nanoseconds leaves it at 1: then there is one place less. Without any place left the page is
    /// not read any more.
    busy: AtomicU64,
    /// The head of this line; 0: none. Written last.
    head: AtomicU64,
    words: [AtomicU64; 5],
}

/// Zero point of [`Trust::boot`].
const FIRST: i64 = i64::MIN;

impl Default for Trust {
    fn default() -> Self {
        Self::new()
    }
}

impl Trust {
    /// Offset in this struct that a tracer writes when the process has forbidden itself the counter
    /// (`PR_SET_TSC`). The tracer first stores here a `CLOCK_MONOTONIC` in nanoseconds above every
    /// answer of the page, then 0 at [`CHECKED_OFFSET`](Self::CHECKED_OFFSET). After that the
    /// counter is not read any more.
    pub const FORBIDDEN_OFFSET: usize = core::mem::offset_of!(Self, forbidden);
    /// Offset in this struct of the trusted head.
    pub const CHECKED_OFFSET: usize = core::mem::offset_of!(Self, checked);

    /// Nothing is known yet.
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
    /// Index of the copy for this head's line. A renewal publishes twice, an announcement and then
    /// the line; only the line is read for long. Usually the two have different places. After a
    /// pause, when a line begins without an announcement, the parity changes and they share a
    /// place.
    #[inline(always)]
    const fn place(head: u64) -> usize {
        (head >> 1) as usize & (KEPT - 1)
    }

    /// The line to read under this head, if it was compared.
    #[inline(always)]
    pub(super) fn line(&self, head: u64) -> Option<&Slot> {
        // A low half of 0 is a reset, even if such a value is written into the page's head.
        let trusted = self.checked.load(Acquire) == head && head & LOW != 0;
        if trusted { Some(&self.lines[Self::place(head)]) } else { None }
    }

    /// Zero if the words read from [`line`](Self::line) so far, before an acquire fence, belong to
    /// the copy of a head that is still trusted: the head in the page can be moved on and back
    /// meanwhile.
    #[inline(always)]
    pub(super) fn moved(&self, head: u64) -> u64 {
        self.checked.load(Relaxed) ^ head
    }

    /// Whether, by a value of [`checked`](Self::checked), the page was read since the process last
    /// went over to the kernel.
    #[inline(always)]
    pub(super) const fn is_in_use(checked: u64) -> bool {
        checked & LOW != 0 || checked & IN_USE != 0
    }

    /// A place for a line that is about to be trusted. It belongs to the caller until
    /// [`trusts`](Self::trusts) releases it.
    #[inline(always)]
    pub(super) fn free(&self) -> Option<&Used> {
        self.used.iter().find(|used| self.takes(used))
    }

    /// Trusts a compared head whose copy `is_whole`, if [`checked`](Self::checked) still has the
    /// value `before` that it had before the comparison.
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

    /// Frees the places of lines that are no longer in use.
    #[inline(always)]
    pub(super) fn forgets(&self) {
        for used in &self.used {
            if self.takes(used) {
                used.busy.store(0, Release);
            }
        }
    }

    /// Takes a place whose line no thread uses. A line is in use if its head is trusted or, if no
    /// head is trusted, until the floor has been raised to it. A thread trusts a head only after it
    /// has taken the place of the head's line. So if `checked` is the same before and after a
    /// thread looks at the lines, the thread has seen the line in use.
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
        // A thread that sees a later write to this place also sees the store of 0.
        fence(Release);
        true
    }

    /// Stores the furthest trusted head; `false` if another thread was faster.
    #[inline(always)]
    fn notes(&self, head: u64) -> bool {
        let furthest = self.furthest.load(Relaxed);
        Self::is_behind(head, furthest)
            || self.furthest.compare_exchange(furthest, head, Relaxed, Relaxed).is_ok()
    }

    /// Whether a head's count lies before the count of a trusted head.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "the half that counts")]
    const fn is_behind(head: u64, trusted: u64) -> bool {
        trusted != 0 && ((head as u32).wrapping_sub(trusted as u32) as i32) < 0
    }

    /// Replaces the trust in a head by a fresh reset value, if the word still is `checked`; returns
    /// the new value.
    #[inline(always)]
    pub(super) fn reset(&self, checked: u64, in_use: bool) -> Option<u64> {
        let fresh = self.resets.fetch_add(1, Relaxed).wrapping_add(1);
        let fresh = fresh << 33 | if in_use { IN_USE } else { 0 };
        self.checked.compare_exchange(checked, fresh, AcqRel, Relaxed).is_ok().then_some(fresh)
    }

    /// Ends the trust in any head. If the page [was in use](Self::is_in_use), the caller must still
    /// raise the floor to the latest time read from it. Readings that are not done by now do not
    /// count.
    #[inline(always)]
    pub(super) fn withdraw(&self) -> u64 {
        loop {
            let checked = self.checked.load(Relaxed);
            if let Some(fresh) = self.reset(checked, Self::is_in_use(checked)) {
                return fresh;
            }
        }
    }

    /// The content under this head: the copy, if there is one.
    #[inline(always)]
    pub(super) fn slot<'a>(&'a self, page: &'a Page, head: u64) -> &'a Slot {
        if self.is_kept(head) {
            &self.lines[Self::place(head)]
        } else {
            &page.slots[(head & 1) as usize]
        }
    }

    /// Whether there is a copy of the content under this head.
    #[inline(always)]
    pub(super) fn is_kept(&self, head: u64) -> bool {
        head != 0 && self.heads[Self::place(head)].load(Acquire) == head
    }

    /// Copies the content under a head, to be compared and read; `false` if another thread is doing
    /// so or the head has changed.
    ///
    /// Only one thread at a time writes a copy, and only while its head is current: a thread that
    /// still reads the previous line in this place finds another head in the page afterwards. A
    /// second thread goes without the copy. A thread that loses its CPU here must not write later.
    ///
    /// The page's owner may set the head back to the one whose line was in this place. So first the
    /// place is marked empty, then no head is trusted any more, and only then is the line
    /// overwritten. A thread that loads `checked`, then finds the place filled, compares the line,
    /// and trusts it by exchanging the loaded value has compared one copy: if another thread had
    /// begun to write a copy, the place would have been empty or the exchange would fail.
    ///
    /// A trusted head is not copied a second time, nor is a head before it. So a reader that finds
    /// the head trusted before and after a reading, however long that took, has read one copy.
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
            // A thread that sees a word of the new line also sees the new head and the reset.
            fence(Release);
            self.lines[place].copy_from(&page.slots[(head & 1) as usize]);
            if is_current() {
                self.heads[place].store(head, Release);
            }
        }
        self.busy[place].store(0, Release);
        self.is_kept(head)
    }

    /// Puts the copies under the model checker.
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

    /// The reason why the process has gone over to the kernel.
    #[inline]
    pub(super) fn reason(&self) -> Option<Decline> {
        Decline::from_raw(u32::try_from(self.why.load(Relaxed)).ok()?)
    }

    /// Whether the process may not read the counter. If so, raises the floor above the page's
    /// earlier answers.
    #[inline(always)]
    pub(super) fn is_forbidden(&self) -> bool {
        let floor = self.forbidden.load(Relaxed);
        if floor != 0 && self.has_used() {
            self.floor.fetch_max(floor, Relaxed);
        }
        floor != 0
    }

    /// Whether this process may have read the page at any time.
    #[inline(always)]
    pub(super) fn has_used(&self) -> bool {
        self.furthest.load(Relaxed) != 0
    }

    /// Latest `CLOCK_MONOTONIC` that a reader of a line in use can have got until this tick.
    #[inline(always)]
    pub(super) fn reached(&self, ticks: Ticks) -> Option<Nanos> {
        self.used.iter().filter_map(|used| used.reached(ticks)).max()
    }

    /// The kernel's time of a clock, or the floor if that is above it. `offset` is the offset of
    /// `CLOCK_REALTIME` or `CLOCK_TAI` from `CLOCK_MONOTONIC`, if known.
    #[inline(always)]
    pub(super) fn held(&self, clock: PageClock, offset: Option<Nanos>, kernel: Nanos) -> Nanos {
        let (offset, limit) = match clock {
            PageClock::Monotonic => (Nanos::ZERO, HOLD),
            PageClock::Boottime => {
                (Nanos(FIRST.saturating_add_unsigned(self.boot.load(Relaxed))), HOLD)
            }
            // These clocks are legitimately set back at times.
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
        // One by one: arrays would lie on the stack.
        let [base, mono, whole, fraction, ends] = &self.words;
        base.store(slot.base.load(Relaxed), Relaxed);
        mono.store(slot.mono.nanos().0 as u64, Relaxed);
        whole.store(slot.whole.load(Relaxed), Relaxed);
        fraction.store(slot.fraction.load(Relaxed), Relaxed);
        ends.store(slot.ends().0, Relaxed);
    }

    /// The line's time at this tick, at most that of its end.
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
