//! Small functions for `slow.rs` that read slots and the process's [`Trust`](super::Trust). Each is
//! a separate call, so that its stack is given back at once. (Methods, so that the vDSO image,
//! which is linked to no library, gets its own copy of the code.)

use core::sync::atomic::Ordering::Relaxed;

use super::clocks::PageClock;
use super::reader::{Counter, Kernel, Reader};
use super::trust::Used;
use super::{Base, Slot};
use crate::decline::Decline;
use crate::line::{Bound, TickLength};
use crate::units::{Nanos, Ticks};

impl<C: Counter, K: Kernel> Reader<'_, C, K> {
    /// Why a slot has no time at this tick.
    #[inline(never)]
    pub(super) fn why_over(slot: &Slot, now: Ticks) -> Decline {
        let begun = now.0 >= slot.base.load(Relaxed);
        slot.why_ended().unwrap_or(if begun { Decline::Expired } else { Decline::Starting })
    }

    /// [`Trust::copy`](super::Trust).
    #[inline(never)]
    pub(super) fn copy(&self, head: u64) -> bool {
        self.trust.copy(self.page, head)
    }

    /// The time of a clock at this tick by a slot, if the slot has one.
    #[inline(never)]
    pub(super) fn time(slot: &Slot, ticks: Ticks, clock: PageClock) -> Option<Nanos> {
        slot.time(ticks, clock)
    }

    /// The time at the end of a slot's line.
    #[inline(never)]
    pub(super) fn time_at_end(slot: &Slot) -> Nanos {
        let line = slot.line();
        line.at(slot.ends()).unwrap_or(line.mono)
    }

    /// Whether a slot's content can be a clock's.
    #[inline(always)]
    pub(super) fn is_sound(slot: &Slot) -> bool {
        Self::is_proper(&slot.mono)
            && Self::is_proper(&slot.real)
            && Self::is_proper(&slot.boot)
            && Self::is_proper(&slot.tai)
            && Self::has_sound_line(slot)
            && Self::has_sound_bound(slot)
            && Self::goes_on(slot)
    }

    #[inline(never)]
    pub(super) fn is_proper(base: &Base) -> bool {
        base.is_proper()
    }

    /// Whether the line can be a clock's, or there is none.
    #[inline(never)]
    pub(super) fn has_sound_line(slot: &Slot) -> bool {
        slot.line().is_sound(slot.lasts())
    }

    /// Whether the slot's bound is sound.
    #[inline(never)]
    pub(super) fn has_sound_bound(slot: &Slot) -> bool {
        if slot.tick() == TickLength::default() {
            return true;
        }
        let bound = Bound { at_base: slot.bound.load(Relaxed), growth: slot.growth.load(Relaxed) };
        bound.is_sound(slot.lasts())
    }

    /// Whether the line starts where the previous one ends, or above.
    #[inline(never)]
    pub(super) fn goes_on(slot: &Slot) -> bool {
        slot.previous().is_none_or(|previous| slot.line().goes_on_from(&previous))
    }

    /// Gap between the end of the previous line and the start of this line, while the previous line
    /// is in use, ns.
    #[inline(never)]
    pub(super) fn gap_at_base(slot: &Slot, now: Ticks) -> i64 {
        let base = Ticks(slot.base.load(Relaxed));
        let end = slot.previous().filter(|_| now < base).and_then(|before| before.at(base));
        end.map_or(0, |end| slot.mono.nanos().0.saturating_sub(end.0))
    }

    /// [`Trust::is_forbidden`](super::Trust).
    #[inline(never)]
    pub(super) fn is_forbidden(&self) -> bool {
        self.trust.is_forbidden()
    }

    /// Latest time that the page may have given to threads of this process until this tick, by the
    /// lines in use.
    #[inline(never)]
    pub(super) fn reached(&self, ticks: Ticks) -> Option<Nanos> {
        self.trust.reached(ticks)
    }

    /// [`Trust::free`](super::Trust).
    #[inline(never)]
    pub(super) fn free(&self) -> Option<&Used> {
        self.trust.free()
    }

    /// [`Trust::trusts`](super::Trust), unless the head has changed meanwhile.
    #[inline(never)]
    pub(super) fn trusts(&self, used: &Used, before: u64, head: u64) {
        self.trust.trusts(used, before, head, || self.is_current(head));
    }

    /// [`Trust::forgets`](super::Trust).
    #[inline(never)]
    pub(super) fn forgets(&self) {
        self.trust.forgets();
    }
}
