//! A page under a counter and a kernel that the test moves.

extern crate std;

use core::cell::{Cell, RefCell};
use core::sync::atomic::Ordering::Relaxed;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::clock_id::ClockId;
use crate::line::{Bound, Line, Offsets, TickLength};
use crate::units::{Nanos, Ticks};

pub(crate) mod at_once;
mod content_under_a_head;
mod declined;
mod garbage;
mod interleaving;
mod late_trust;
mod proofs;
mod standing;

/// 2 GHz: a rate for the fast path.
pub(super) const TICK: TickLength = TickLength { whole: 0, fraction: 1 << 63 };
pub(super) const LEAD: Ticks = Ticks(40_000);
pub(super) const OFFSETS: Offsets = Offsets {
    real: Nanos(1_700_000_000_000_000_000),
    boot: Nanos(50_000_000_000),
    tai: Nanos(1_700_000_037_000_000_000),
};

const CLOCKS: [PageClock; 4] =
    [PageClock::Monotonic, PageClock::Realtime, PageClock::Boottime, PageClock::Tai];

/// A machine with a counter and a kernel's clock. Each read of the counter takes some ticks.
#[derive(Default)]
pub(super) struct Machine {
    pub(super) ticks: Cell<u64>,
    pub(super) step: Cell<u64>,
    /// Distance of the kernel's clock from half the ticks, ns.
    pub(super) ahead: Cell<i64>,
    /// Distance by which `CLOCK_REALTIME` was set, ns.
    pub(super) set: Cell<i64>,
    pub(super) declined: RefCell<Vec<Decline>>,
    pub(super) reads: Cell<u64>,
}

impl Machine {
    pub(super) fn new() -> Self {
        Self { ticks: Cell::new(1 << 40), step: Cell::new(20), ..Self::default() }
    }

    pub(super) fn now(&self) -> u64 {
        self.ticks.get()
    }

    pub(super) fn pass(&self, ticks: u64) {
        self.ticks.set(self.ticks.get() + ticks);
    }

    pub(super) fn kernel(&self, clock: ClockId) -> i64 {
        let mono = i64::try_from(self.now() / 2).unwrap_or(i64::MAX) + self.ahead.get();
        match clock {
            ClockId::Realtime => mono + OFFSETS.real.0 + self.set.get(),
            ClockId::Boottime => mono + OFFSETS.boot.0,
            ClockId::Tai => mono + OFFSETS.tai.0 + self.set.get(),
            _ => mono,
        }
    }

    /// A line that is `off` ns ahead of the kernel's clock, from `base` on for `span` ticks.
    pub(super) fn content(&self, base: u64, off: i64, span: u64) -> Content {
        let mono = i64::try_from(base / 2).unwrap_or(i64::MAX) + self.ahead.get() + off;
        Content {
            line: Line { base: Ticks(base), mono: Nanos(mono), tick: TICK },
            span: Ticks(span),
            grace: Ticks(0),
            previous: None,
            offsets: OFFSETS,
            bound: Bound { at_base: off.unsigned_abs() + 10, growth: 1 << 30 },
            state: State::Running,
        }
    }
}

impl Counter for &Machine {
    fn ordered(&self) -> Ticks {
        self.reads.set(self.reads.get() + 1);
        self.pass(self.step.get());
        Ticks(self.now())
    }

    fn unordered(&self) -> Ticks {
        self.ordered()
    }
}

impl Kernel for &Machine {
    fn read(&self, clock: ClockId) -> Nanos {
        self.pass(self.step.get());
        Nanos(self.kernel(clock))
    }

    fn declined(&self, reason: Decline) {
        self.declined.borrow_mut().push(reason);
    }
}

pub(super) fn reader<'a>(
    page: &'a Page,
    trust: &'a Trust,
    machine: &'a Machine,
) -> Reader<'a, &'a Machine, &'a Machine> {
    Reader { page, trust, counter: machine, kernel: machine }
}

/// Reads `CLOCK_MONOTONIC`, ordered, with its bound.
fn mono<'a>(reader: &Reader<'a, &'a Machine, &'a Machine>) -> Bounded {
    reader.bounded(PageClock::Monotonic, Order::Ordered)
}

proptest! {
    #[test]
    fn content_comes_back_from_a_slot_as_it_went_in(
        base: u64, mono in 0..i64::MAX / 4, fraction: u64, whole in 0_u64..100, real in 0..i64::MAX / 4,
        span: u64, previous: bool, raw in 0_u32..25,
    ) {
        let tick = TickLength { whole, fraction };
        let content = Content {
            line: Line { base: Ticks(base), mono: Nanos(mono), tick },
            span: Ticks(span),
            grace: Ticks(span / 2),
            previous: previous.then_some(Line { base: Ticks(5), mono: Nanos(mono / 2), tick }),
            offsets: Offsets { real: Nanos(real), ..OFFSETS },
            bound: Bound { at_base: 5, growth: 6 },
            state: Decline::from_raw(raw).map_or(State::Running, State::Ended),
        };
        let page = Page::new();
        content.store(&page.slots[1]);
        prop_assert_eq!(Content::load(&page.slots[1]), content);
    }

    /// Counters around the wrap of their low half, and slow counters.
    #[test]
    fn the_fast_path_is_the_same_function_as_the_line(
        base in 0_u64..1 << 50, passed in 0_u64..1 << 34, whole in 0_u64..3, fraction in 1_u64 << 58..,
        growth in 0_u64..1 << 50,
    ) {
        let machine = Machine::new();
        machine.step.set(0);
        let content = Content {
            line: Line { base: Ticks(base), mono: Nanos(123_456_789_012), tick: TickLength { whole, fraction } },
            bound: Bound { at_base: 77, growth },
            ..machine.content(base, 0, 1 << 34)
        };
        prop_assert!(content.is_sound());
        let (page, trust) = (Page::new(), Trust::new());
        let mut writer = Writer::create(&page, [0; 2], 1);
        writer.publish(content);
        trust.keep(&page, page.head.load(Relaxed));
        machine.ticks.set(base + passed);
        let reader = reader(&page, &trust, &machine);
        for clock in CLOCKS {
            let expected = content.time(Ticks(base + passed), clock).unwrap();
            for order in [Order::Ordered, Order::Unordered] {
                prop_assert_eq!(reader.nanos(clock, order), expected);
                prop_assert_eq!(reader.timespec(clock, order), TimeSpec::from_nanos(expected));
                let bounded = reader.bounded(clock, order);
                prop_assert_eq!(bounded.time, expected);
                let exact = content.bound_at(Ticks(base + passed)).0;
                let more = bounded.bound.0 - exact;
                prop_assert!((0..=5).contains(&more), "{} for {}", bounded.bound.0, exact);
            }
        }
        prop_assert!(machine.declined.borrow().is_empty());
    }
}
