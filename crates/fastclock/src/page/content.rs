//! The content of a page: a line and its bound, offsets and state.

use core::sync::atomic::Ordering::Relaxed;

use super::clocks::{PageClock, TimeSpec};
use super::{Base, Slot};
use crate::decline::Decline;
use crate::line::{Bound, Line, Offsets, TickLength};
use crate::sync::AtomicU64;
use crate::units::{Nanos, Ticks};

/// Upper limit of a line's length in nanoseconds and, if a tick is shorter than one nanosecond, in
/// ticks: sums in readers stay far below 2^63.
pub(super) const LONGEST: u64 = 1 << 56;
/// A bound stays below this, ns: a line that can be seconds wrong is of no use.
pub(super) const VAGUEST: u64 = 1 << 31;
/// Upper limit of a tick, ns: counters run at 100 kHz at least.
pub(super) const SLOWEST: u64 = 10_000;
/// Lower limit of a tick, in units of 2^-64 ns: 64 GHz at most.
const FASTEST: u64 = 1 << 58;
/// Upper limit of `CLOCK_MONOTONIC` at a line's base, ns: 73 years after the boot.
pub(super) const LATEST: i64 = i64::MAX / 4;

/// Whether a page is being renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The writer renews the page.
    Running,
    /// The writer has ended the page, for this reason; the line holds to its end.
    Ended(Decline),
}

/// The content that a writer publishes with one store of the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    /// The line.
    pub line: Line,
    /// Ticks from the base in which the line holds; after that, a reader that can renew it does.
    pub span: Ticks,
    /// Ticks after the span in which the line still holds.
    pub grace: Ticks,
    /// The line before, for ticks before the base.
    pub previous: Option<Line>,
    /// The other clocks minus `CLOCK_MONOTONIC`.
    pub offsets: Offsets,
    /// Largest possible error of the line.
    pub bound: Bound,
    /// Whether another content will follow.
    pub state: State,
}

impl Content {
    /// No line, for this reason.
    pub fn none(reason: Decline) -> Self {
        Self {
            line: Line::default(),
            span: Ticks(0),
            grace: Ticks(0),
            previous: None,
            offsets: Offsets::default(),
            bound: Bound::default(),
            state: State::Ended(reason),
        }
    }

    /// Whether this content was ended and its counter has been reset since: the line begins more
    /// than `near` ahead of the counter and never will begin. If it begins within `near`, the line
    /// may be ahead by its lead, with the previous line in use.
    pub(super) fn is_of_the_past(&self, now: Ticks, near: Ticks) -> bool {
        self.state != State::Running && now.0.saturating_add(near.0) < self.line.base.0
    }

    /// Tick at which the line ends.
    #[inline]
    pub fn ends(&self) -> Ticks {
        Ticks(self.line.base.0.saturating_add(self.span.0).saturating_add(self.grace.0))
    }

    /// The line that is in use just before this tick.
    #[inline]
    pub(super) fn line_at(&self, ticks: Ticks) -> &Line {
        match &self.previous {
            Some(previous) if ticks <= self.line.base => previous,
            _ => &self.line,
        }
    }

    /// The time of a clock at this tick; `None` outside of both lines.
    #[inline]
    pub fn time(&self, ticks: Ticks, clock: PageClock) -> Option<Nanos> {
        let mono = if ticks < self.line.base {
            self.previous.as_ref()?.at(ticks)?
        } else if ticks < self.ends() {
            self.line.at(ticks)?
        } else {
            return None;
        };
        Some(Nanos(mono.0.saturating_add(self.offset(clock).0)))
    }

    /// `CLOCK_MONOTONIC` at the line's end: no reader has got a later time from the line.
    #[inline]
    pub fn end_time(&self) -> Nanos {
        self.line.at(self.ends()).unwrap_or(self.line.mono)
    }

    /// The bound at this tick.
    #[inline]
    pub fn bound_at(&self, ticks: Ticks) -> Nanos {
        let bound = self.bound.after(ticks.0.saturating_sub(self.line.base.0));
        Nanos(i64::try_from(bound).unwrap_or(i64::MAX))
    }

    /// This clock minus `CLOCK_MONOTONIC`.
    #[inline]
    pub fn offset(&self, clock: PageClock) -> Nanos {
        match clock {
            PageClock::Monotonic => Nanos::ZERO,
            PageClock::Realtime => self.offsets.real,
            PageClock::Boottime => self.offsets.boot,
            PageClock::Tai => self.offsets.tai,
        }
    }

    /// [`offset`](Self::offset) computed from a slot, with the result that [`load`](Self::load)
    /// gives.
    #[inline]
    pub(super) fn offset_in(slot: &Slot, clock: PageClock) -> Nanos {
        Nanos(slot.of(clock).nanos().0.saturating_sub(slot.mono.nanos().0))
    }

    /// Whether there is a line at all.
    #[inline]
    pub fn has_line(&self) -> bool {
        self.line.tick != TickLength::default()
    }

    /// Whether the numbers can be those of a clock. Then the sums in readers stay within range.
    #[inline]
    pub fn is_sound(&self) -> bool {
        let ticks = self.span.0.checked_add(self.grace.0);
        self.line.is_sound(ticks)
            && (!self.has_line() || self.bound.is_sound(ticks))
            && self.previous.as_ref().is_none_or(|previous| self.line.goes_on_from(previous))
    }

    /// Writes a slot. (Inlined for the vDSO image, as [`load`](Self::load) is.)
    #[inline(always)]
    pub(super) fn store(&self, slot: &Slot) {
        let store = |word: &AtomicU64, value: u64| word.store(value, Relaxed);
        store(&slot.base, self.line.base.0);
        store(&slot.span, self.span.0);
        store(&slot.whole, self.line.tick.whole);
        store(&slot.fraction, self.line.tick.fraction);
        slot.mono.store(self.line.mono);
        store(&slot.bound, self.bound.at_base);
        store(&slot.growth, self.bound.growth);
        for (base, clock) in [
            (&slot.real, PageClock::Realtime),
            (&slot.boot, PageClock::Boottime),
            (&slot.tai, PageClock::Tai),
        ] {
            base.store(Nanos(self.line.mono.0.saturating_add(self.offset(clock).0)));
        }
        store(&slot.grace, self.grace.0);
        let reason = match self.state {
            State::Running => 0,
            State::Ended(reason) => u64::from(reason.as_raw()),
        };
        store(&slot.reason, reason);
        let previous = self.previous.unwrap_or_default();
        store(&slot.previous_base, previous.base.0);
        store(&slot.previous_whole, previous.tick.whole);
        store(&slot.previous_fraction, previous.tick.fraction);
        slot.previous_mono.store(previous.mono.0, Relaxed);
    }

    /// Reads a slot. The result is consistent only if the head was the same before and after.
    #[inline(always)]
    pub(super) fn load(slot: &Slot) -> Self {
        let load = |word: &AtomicU64| word.load(Relaxed);
        let proper = [&slot.mono, &slot.real, &slot.boot, &slot.tai].map(Base::is_proper);
        // If one of the times is not proper: a tick length that no line has.
        let tick = match proper {
            [true, true, true, true] => {
                TickLength { whole: load(&slot.whole), fraction: load(&slot.fraction) }
            }
            _ => TickLength { whole: u64::MAX, fraction: 0 },
        };
        let mono = slot.mono.nanos();
        let offset = |base: &Base| Nanos(base.nanos().0.saturating_sub(mono.0));
        Self {
            line: Line { base: Ticks(load(&slot.base)), mono, tick },
            span: Ticks(load(&slot.span)),
            grace: Ticks(load(&slot.grace)),
            previous: slot.previous(),
            offsets: Offsets {
                real: offset(&slot.real),
                boot: offset(&slot.boot),
                tai: offset(&slot.tai),
            },
            bound: Bound { at_base: load(&slot.bound), growth: load(&slot.growth) },
            state: State::from_word(load(&slot.reason)),
        }
    }
}

impl Slot {
    /// Copies the content of another slot.
    #[inline(always)]
    pub(super) fn copy_from(&self, other: &Self) {
        let copy = |to: &AtomicU64, from: &AtomicU64| to.store(from.load(Relaxed), Relaxed);
        let copy_base = |to: &Base, from: &Base| {
            to.sec.store(from.sec.load(Relaxed), Relaxed);
            copy(&to.nsec, &from.nsec);
        };
        copy(&self.base, &other.base);
        copy(&self.span, &other.span);
        copy(&self.whole, &other.whole);
        copy(&self.fraction, &other.fraction);
        copy_base(&self.mono, &other.mono);
        copy(&self.bound, &other.bound);
        copy(&self.growth, &other.growth);
        copy_base(&self.real, &other.real);
        copy_base(&self.boot, &other.boot);
        copy_base(&self.tai, &other.tai);
        copy(&self.grace, &other.grace);
        copy(&self.reason, &other.reason);
        copy(&self.previous_base, &other.previous_base);
        copy(&self.previous_whole, &other.previous_whole);
        copy(&self.previous_fraction, &other.previous_fraction);
        self.previous_mono.store(other.previous_mono.load(Relaxed), Relaxed);
    }

    #[inline(always)]
    pub(super) fn of(&self, clock: PageClock) -> &Base {
        match clock {
            PageClock::Monotonic => &self.mono,
            PageClock::Realtime => &self.real,
            PageClock::Boottime => &self.boot,
            PageClock::Tai => &self.tai,
        }
    }

    #[inline(always)]
    pub(super) fn tick(&self) -> TickLength {
        TickLength { whole: self.whole.load(Relaxed), fraction: self.fraction.load(Relaxed) }
    }

    #[inline(always)]
    pub(super) fn previous(&self) -> Option<Line> {
        let load = |word: &AtomicU64| word.load(Relaxed);
        let previous = Line {
            base: Ticks(load(&self.previous_base)),
            mono: Nanos(self.previous_mono.load(Relaxed)),
            tick: TickLength {
                whole: load(&self.previous_whole),
                fraction: load(&self.previous_fraction),
            },
        };
        (previous != Line::default()).then_some(previous)
    }

    #[inline(always)]
    pub(super) fn line(&self) -> Line {
        Line { base: Ticks(self.base.load(Relaxed)), mono: self.mono.nanos(), tick: self.tick() }
    }

    /// Number of ticks in which the line holds.
    #[inline(always)]
    pub(super) fn lasts(&self) -> Option<u64> {
        self.span.load(Relaxed).checked_add(self.grace.load(Relaxed))
    }

    /// Tick at which the line ends; [`Content::ends`].
    #[inline(always)]
    pub(super) fn ends(&self) -> Ticks {
        let [base, span, grace] =
            [&self.base, &self.span, &self.grace].map(|word| word.load(Relaxed));
        Ticks(base.saturating_add(span).saturating_add(grace))
    }

    /// [`Content::time`], of a slot that is [sound](Content::is_sound).
    #[inline(always)]
    pub(super) fn time(&self, ticks: Ticks, clock: PageClock) -> Option<Nanos> {
        let load = |word: &AtomicU64| word.load(Relaxed);
        let (base, mono, whole, fraction) = if ticks.0 >= load(&self.base) {
            if ticks >= self.ends() {
                return None;
            }
            (&self.base, self.mono.nanos().0, &self.whole, &self.fraction)
        } else {
            let words = [&self.previous_base, &self.previous_whole, &self.previous_fraction];
            let mono = self.previous_mono.load(Relaxed);
            if mono == 0 && words.iter().all(|word| load(word) == 0) {
                return None;
            }
            (&self.previous_base, mono, &self.previous_whole, &self.previous_fraction)
        };
        let elapsed = ticks.0.checked_sub(load(base))?;
        let tick = TickLength { whole: load(whole), fraction: load(fraction) };
        let nanos = i64::try_from(tick.nanos(elapsed)).unwrap_or(i64::MAX);
        let time = mono.saturating_add(nanos);
        Some(Nanos(time.saturating_add(Content::offset_in(self, clock).0)))
    }

    /// [`Content::bound_at`].
    #[inline(always)]
    pub(super) fn bound_at(&self, ticks: Ticks) -> Nanos {
        let bound = Bound { at_base: self.bound.load(Relaxed), growth: self.growth.load(Relaxed) };
        let bound = bound.after(ticks.0.saturating_sub(self.base.load(Relaxed)));
        Nanos(i64::try_from(bound).unwrap_or(i64::MAX))
    }

    /// The writer's reason for ending the line, if it has ended it.
    #[inline(always)]
    pub(super) fn why_ended(&self) -> Option<Decline> {
        match State::from_word(self.reason.load(Relaxed)) {
            State::Ended(reason) => Some(reason),
            State::Running => None,
        }
    }
}

impl Bound {
    /// Whether the bound stays below [`VAGUEST`] over this many ticks.
    #[inline(always)]
    pub(super) fn is_sound(self, ticks: Option<u64>) -> bool {
        let grown = |ticks: u64| (u128::from(ticks) * u128::from(self.growth)) >> 64;
        let at_end = |ticks| grown(ticks).saturating_add(u128::from(self.at_base));
        ticks.is_some_and(|ticks| at_end(ticks) < u128::from(VAGUEST))
    }
}

impl Line {
    /// Whether a line that holds for so many ticks can be a clock's, or there is none.
    #[inline(always)]
    pub(super) fn is_sound(&self, ticks: Option<u64>) -> bool {
        let Some(ticks) = ticks else { return false };
        if self.tick == TickLength::default() {
            return ticks == 0;
        }
        let nanos = self.tick.whole.checked_add(1).and_then(|tick| tick.checked_mul(ticks));
        self.is_plausible()
            && self.base.0.checked_add(ticks).is_some()
            && nanos.is_some_and(|nanos| nanos <= LONGEST)
    }

    /// Whether this line starts at the time that `previous` has reached, or above.
    #[inline(always)]
    pub(super) fn goes_on_from(&self, previous: &Self) -> bool {
        self.tick == TickLength::default()
            || previous.is_plausible()
                && previous.base <= self.base
                && previous.at(self.base).is_some_and(|end| end <= self.mono)
    }

    #[inline(always)]
    fn is_plausible(&self) -> bool {
        let TickLength { whole, fraction } = self.tick;
        whole < SLOWEST && (whole > 0 || fraction >= FASTEST) && (0..LATEST).contains(&self.mono.0)
    }
}

impl State {
    #[inline(always)]
    fn from_word(word: u64) -> Self {
        let reason = || u32::try_from(word).ok().and_then(Decline::from_raw);
        if word == 0 {
            Self::Running
        } else {
            Self::Ended(reason().unwrap_or(Decline::PageDamaged))
        }
    }
}

impl Base {
    #[inline(always)]
    pub(super) fn store(&self, time: Nanos) {
        let TimeSpec { sec, nsec } = TimeSpec::from_nanos(time);
        self.sec.store(sec, Relaxed);
        self.nsec.store(nsec.unsigned_abs(), Relaxed);
    }

    /// Whether this is a time within 146 years of its origin.
    #[inline]
    pub(super) fn is_proper(&self) -> bool {
        let sec = self.sec.load(Relaxed);
        sec.unsigned_abs() < (1 << 62) / 1_000_000_000 && self.nsec.load(Relaxed) < 1_000_000_000
    }

    #[inline]
    pub(super) fn nanos(&self) -> Nanos {
        let nsec = i64::try_from(self.nsec.load(Relaxed)).unwrap_or(i64::MAX);
        Nanos::from_timespec(self.sec.load(Relaxed), nsec)
    }
}
