//! Reading the time from a page.

use core::sync::atomic::Ordering::{Acquire, Relaxed};

use super::clocks::{PageClock, TimeSpec};
use super::trust::Trust;
use super::{Base, Page, Slot};
use crate::arch::{TICKS_ARE_SHORT, along};
use crate::clock_id::ClockId;
use crate::decline::Decline;
use crate::line::Bound;
use crate::points;
use crate::sync::fence;
use crate::units::{Nanos, Ticks};

const SECOND: u64 = 1_000_000_000;
/// Mask of the low half of a counter.
const LOW: u64 = 0xffff_ffff;

/// Whether the CPU may read the counter early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The counter is read after all earlier instructions are done: two threads never see time run
    /// backwards.
    Ordered,
    /// The CPU may read the counter early: cheaper, but other threads may see readings out of
    /// order.
    Unordered,
}

/// A counter that all CPUs share.
pub trait Counter {
    /// The counter, read after all earlier instructions are done.
    fn ordered(&self) -> Ticks;
    /// The counter, read whenever the CPU likes.
    fn unordered(&self) -> Ticks;
    /// [`ordered`](Self::ordered) as its low and high 32 bits, and the value of this line at the
    /// low half. The instructions after the counter is read are the cost of an ordered read, so
    /// each CPU's own version does all other work before and the multiplication first.
    #[inline(always)]
    fn ordered_on(&self, line: Steep) -> ([u64; 2], u64) {
        let ticks = self.ordered().0;
        ([ticks & LOW, ticks >> 32], line.at(ticks & LOW))
    }
    /// The value of this line of the slot at [`ordered`](Self::ordered).
    #[inline(always)]
    fn ordered_in(&self, line: Steep, slot: &Slot) -> u64 {
        slot.value(line, self.ordered())
    }
}

/// A line over the low half of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steep {
    /// The line's value at zero, modulo 2^64 ns: units of 2^-64 ns, then whole nanoseconds.
    pub intercept: [u64; 2],
    /// The line's rise per tick, 2^-64 ns.
    pub fraction: u64,
}

impl Steep {
    /// The line that has the value `origin` at `from`.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "the two halves")]
    pub(super) const fn through(from: u64, origin: u64, fraction: u64) -> Self {
        let wide = ((origin as u128) << 64).wrapping_sub(from as u128 * fraction as u128);
        Self { intercept: [wide as u64, (wide >> 64) as u64], fraction }
    }

    /// The line's value at `ticks`, rounded down.
    #[inline(always)]
    pub(super) const fn at(self, ticks: u64) -> u64 {
        let [low, high] = self.intercept;
        let wide = (high as u128) << 64 | low as u128;
        (wide.wrapping_add(ticks as u128 * self.fraction as u128) >> 64) as u64
    }
}

/// The kernel's clock, which answers when the page does not.
pub trait Kernel {
    /// The time of `clock` from the kernel.
    fn read(&self, clock: ClockId) -> Nanos;
    /// Notes that the kernel answered, and why.
    fn declined(&self, reason: Decline);
    /// Renews the page if this process keeps it; true if the page was renewed.
    fn renew(&self) -> bool {
        false
    }
}

/// A time in nanoseconds, with its distance from the kernel's clock.
pub type Bounded = points::Bounded<Nanos>;

/// A page with all that is needed to read it.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a, C, K> {
    /// The page.
    pub page: &'a Page,
    /// This process's knowledge of the page.
    pub trust: &'a Trust,
    /// The counter.
    pub counter: C,
    /// The kernel's clock.
    pub kernel: K,
}

/// The parts of a reading that the caller needs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Want {
    Nanos,
    /// Seconds apart from nanoseconds.
    Seconds,
    Bound,
}

/// A reading of the line.
struct Hit {
    /// Whole seconds to be added, if the caller wants them apart.
    sec: i64,
    nanos: u64,
    /// Zero if the caller does not want it.
    bound: u64,
}

impl<C: Counter, K: Kernel> Reader<'_, C, K> {
    /// The time in nanoseconds.
    #[inline(always)]
    pub fn nanos(&self, clock: PageClock, order: Order) -> Nanos {
        self.at_once(clock, order).unwrap_or_else(|| self.slow(clock).time)
    }

    /// The time in nanoseconds and its bound.
    #[inline(always)]
    pub fn bounded(&self, clock: PageClock, order: Order) -> Bounded {
        match self.bounded_at_once(clock, order) {
            Some((time, bound)) => Bounded { time, bound, declined: None },
            None => self.slow(clock),
        }
    }

    /// The time in nanoseconds if the fast path has it; otherwise call [`slow`](Self::slow).
    #[inline(always)]
    pub fn at_once(&self, clock: PageClock, order: Order) -> Option<Nanos> {
        self.hit(clock, order, Want::Nanos).map(|hit| Nanos(hit.nanos as i64))
    }

    /// The time in nanoseconds and its bound if the fast path has them; otherwise call
    /// [`slow`](Self::slow).
    #[inline(always)]
    pub fn bounded_at_once(&self, clock: PageClock, order: Order) -> Option<(Nanos, Nanos)> {
        let hit = self.hit(clock, order, Want::Bound)?;
        Some((Nanos(hit.nanos as i64), Nanos(hit.bound as i64)))
    }

    /// The time in seconds and nanoseconds.
    #[inline(always)]
    pub fn timespec(&self, clock: PageClock, order: Order) -> TimeSpec {
        match self.hit(clock, order, Want::Seconds) {
            Some(Hit { sec, nanos: nsec, .. }) if nsec < SECOND => {
                TimeSpec { sec, nsec: nsec as i64 }
            }
            Some(Hit { sec, nanos: nsec, .. }) => {
                let (sec, nsec) = (sec.wrapping_add(1), nsec - SECOND);
                if nsec < SECOND {
                    TimeSpec { sec, nsec: nsec as i64 }
                } else {
                    Self::carried(sec, nsec)
                }
            }
            None => self.slow_timespec(clock),
        }
    }

    #[cold]
    #[inline(never)]
    fn slow_timespec(&self, clock: PageClock) -> TimeSpec {
        TimeSpec::from_nanos(self.slow(clock).time)
    }

    /// The time in seconds and nanoseconds if the shortest path gives it; otherwise call
    /// [`timespec`](Self::timespec).
    #[inline(always)]
    pub fn try_timespec(&self, clock: PageClock, order: Order) -> Option<TimeSpec> {
        let head = self.page.head.load(Acquire);
        let slot = self.trust.line(head)?;
        // Ticks of one nanosecond or more take the long form.
        if slot.whole.load(Relaxed) != 0 {
            return None;
        }
        let base = slot.of(clock);
        let from = slot.base.load(Relaxed) & LOW;
        let line = Steep::through(from, base.nsec.load(Relaxed), slot.fraction.load(Relaxed));
        let nsec = match order {
            Order::Ordered => self.counter.ordered_in(line, slot),
            Order::Unordered => slot.value(line, self.counter.unordered()),
        };
        let sec = base.sec.load(Relaxed);
        fence(Acquire);
        if (self.page.head.load(Relaxed) ^ head) | self.trust.moved(head) != 0 {
            return None;
        }
        let time = |sec, nsec: u64| Some(TimeSpec { sec, nsec: nsec as i64 });
        if nsec < SECOND {
            return time(sec, nsec);
        }
        let nsec = nsec - SECOND;
        if nsec < SECOND { time(sec.wrapping_add(1), nsec) } else { None }
    }

    /// Reads the line.
    ///
    /// The time is `origin + (ticks - base) * fraction`, rounded down once. Multiplied out, every
    /// term but `low half of ticks * fraction` is known before the counter is read. Then the chain
    /// of instructions that the next ordered read waits for is one multiplication and one addition.
    #[inline(always)]
    #[allow(clippy::cast_sign_loss, reason = "modulo 2^64")]
    fn hit(&self, clock: PageClock, order: Order, want: Want) -> Option<Hit> {
        let head = self.page.head.load(Acquire);
        let slot = self.trust.line(head)?;
        let [base, span] = [slot.base.load(Relaxed), slot.span.load(Relaxed)];
        let tick = slot.tick();
        let Base { sec, nsec } = slot.of(clock);
        let (sec, nsec) = (sec.load(Relaxed), nsec.load(Relaxed));
        let (sec, origin) = match want {
            Want::Seconds => (sec, nsec),
            _ => (0, (sec as u64).wrapping_mul(SECOND).wrapping_add(nsec)),
        };
        let bound = match want {
            Want::Bound => {
                Bound { at_base: slot.bound.load(Relaxed), growth: slot.growth.load(Relaxed) }
            }
            _ => Bound::default(),
        };
        if order == Order::Unordered {
            // No later instruction waits for this result: the short chain below is not needed.
            let passed = self.counter.unordered().0.wrapping_sub(base);
            let nanos = origin.wrapping_add(tick.nanos(passed));
            let bound = if want == Want::Bound { bound.after(passed) } else { 0 };
            fence(Acquire);
            let moved = (self.page.head.load(Relaxed) ^ head) | self.trust.moved(head);
            return (passed < span && moved == 0).then_some(Hit { sec, nanos, bound });
        }
        let [from, above] = [base & LOW, base >> 32];
        let line = Steep::through(from, origin, tick.fraction);
        let steep = steepness(bound.growth);
        let grown = (bound.at_base.wrapping_add(1) << 32).wrapping_sub(from.wrapping_mul(steep));
        // Ticks of one nanosecond or more take the long form.
        let plain = TICKS_ARE_SHORT && tick.whole == 0;
        let near = if plain { span } else { 0 };
        let ([ticks, ticks_above], nanos) = self.counter.ordered_on(line);
        let bounds = grown.wrapping_add(ticks.wrapping_mul(steep)) >> 32;
        fence(Acquire);
        let moved = (self.page.head.load(Relaxed) ^ head) | self.trust.moved(head);
        if ticks.wrapping_sub(from) < near && (ticks_above ^ above) | moved == 0 {
            return Some(Hit { sec, nanos, bound: bounds });
        }
        // Counters below 1 GHz, and the second or so after the low half of the counter has wrapped
        // since the line's base.
        let passed = (ticks_above << 32 | ticks).wrapping_sub(base);
        if moved != 0 || passed >= span {
            return None;
        }
        let nanos = origin.wrapping_add(along::<Self>(tick, passed));
        Some(Hit { sec, nanos, bound: bound.after(passed) })
    }

    /// Carries when `nsec` holds one second or more. (A method, so that the vDSO image, which is
    /// linked to no library, gets its own copy of the code.)
    #[cold]
    #[inline(never)]
    fn carried(sec: i64, nsec: u64) -> TimeSpec {
        let more = (nsec / SECOND) as i64;
        TimeSpec { sec: sec.wrapping_add(more), nsec: (nsec % SECOND) as i64 }
    }
}

/// A bound's growth with 32 fraction bits, rounded up.
#[inline(always)]
pub(super) const fn steepness(growth: u64) -> u64 {
    (growth >> 32) + 1
}

impl Slot {
    /// Marks that a line has no value at a tick.
    pub const NOWHERE: u64 = u64::MAX;

    /// The value at this tick of a line over the low half of the counter, also where that half has
    /// wrapped since the slot's base; [`NOWHERE`](Self::NOWHERE) outside of the span.
    #[inline(always)]
    pub(crate) fn value(&self, line: Steep, ticks: Ticks) -> u64 {
        let base = self.base.load(Relaxed);
        let holds = ticks.0.wrapping_sub(base) < self.span.load(Relaxed);
        if holds { line.at(ticks.0.wrapping_sub(base & !LOW)) } else { Self::NOWHERE }
    }
}
