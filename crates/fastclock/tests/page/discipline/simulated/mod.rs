//! A simulated machine: a counter and a kernel's clock that follow a schedule of events.

pub(crate) mod observed;

use std::cell::RefCell;
use std::collections::VecDeque;

use fastclock::page::{Counter, Kernel};
use fastclock::{ClockId, Decline, Nanos, Ticks};

/// Time between two timer ticks, ns.
const TICK: f64 = 4e6;
pub(crate) const SECOND: f64 = 1e9;
pub(crate) const MS: f64 = 1e6;

/// The counter's behaviour during a suspend.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Asleep {
    Continues,
    Resets,
    Stops,
}

/// An event in a schedule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Event {
    /// The kernel's clock runs fast by so many parts per million.
    Slew(f64),
    /// `CLOCK_REALTIME` is set by so many nanoseconds.
    Step(i64),
    /// An inserted leap second.
    Leap,
    /// A suspend of so many nanoseconds.
    Sleep(f64, Asleep),
    /// The counter has another frequency, Hz.
    Hz(f64),
    /// The counter jumps by so many ticks.
    CounterJump(f64),
    /// The kernel's clock jumps by so many nanoseconds.
    ClockJump(f64),
    /// The counter stands still, or goes on.
    CounterStands(bool),
}

/// Properties of the clocks and their reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hardware {
    pub(crate) hz: f64,
    /// Duration of a read of the kernel's clock, ns.
    pub(crate) read: f64,
    /// Step of the kernel's clock, ns.
    pub(crate) grain: f64,
    /// Change of the kernel's multiplier at each tick, up and down, parts per million.
    pub(crate) dither: f64,
    /// One read in so many loses the CPU for up to 2 ms; 0: none.
    pub(crate) preempted: u64,
}

pub(crate) const TSC: Hardware =
    Hardware { hz: 2_499_998_217.0, read: 22.0, grain: 1.0, dither: 0.149, preempted: 40 };

struct State {
    hardware: Hardware,
    now: f64,
    counter: f64,
    stands: bool,
    mono: f64,
    rate: f64,
    wander: f64,
    next_tick: f64,
    coarse: f64,
    real: i64,
    boot: f64,
    tai: i64,
    events: VecDeque<(f64, Event)>,
    random: u64,
    mono_at_read: f64,
    /// Time and size of each change of rate, as a share.
    changes: Vec<(f64, f64)>,
    surprises: Surprises,
}

/// Times at which the clocks did what a keeper cannot foresee, before the beginning if never.
#[derive(Clone, Copy)]
pub(crate) struct Surprises {
    /// Time of the last event after which nothing is promised until the next look.
    pub(crate) broken: f64,
    pub(crate) stepped: f64,
    pub(crate) counter_back: f64,
    /// Largest total distance by which the counter may have run ahead of the kernel's clock, ns.
    pub(crate) leapt: f64,
}

/// The machine. Time passes only by reading it or by `advance`.
pub(crate) struct Machine(RefCell<State>);

impl Machine {
    pub(crate) fn new(hardware: Hardware, seed: u64, events: &[(f64, Event)]) -> Self {
        let mut events = events.to_vec();
        events.sort_by(|a, b| a.0.total_cmp(&b.0));
        Self(RefCell::new(State {
            hardware,
            now: 0.0,
            counter: 7e12 + 0.3,
            stands: false,
            mono: 5e11,
            rate: 1.0,
            wander: 0.0,
            next_tick: TICK,
            coarse: 5e11,
            real: 1_790_000_000_123_456_789,
            boot: 0.0,
            tai: 37,
            events: events.into(),
            random: seed | 1,
            mono_at_read: 0.0,
            changes: Vec::new(),
            surprises: Surprises { broken: -1.0, stepped: -1.0, counter_back: -1.0, leapt: 0.0 },
        }))
    }

    pub(crate) fn now(&self) -> f64 {
        self.0.borrow().now
    }

    pub(crate) fn surprises(&self) -> Surprises {
        self.0.borrow().surprises
    }

    pub(crate) fn advance(&self, nanos: f64) {
        self.0.borrow_mut().advance(nanos);
    }

    /// The kernel's clock at the moment of the last read of the counter.
    pub(crate) fn at_counter_read(&self, clock: ClockId) -> i64 {
        let state = self.0.borrow();
        floor(state.mono_at_read, state.hardware.grain) + state.offset(clock)
    }

    /// Distance in ns by which changes of rate that cannot have been found yet have moved the clock
    /// from the looks: changes since the look before the last, and changes that had not added up to
    /// the brackets' width by the last look.
    pub(crate) fn moved(&self, [before, last]: [f64; 2]) -> f64 {
        let state = self.0.borrow();
        let brackets = 4.0 * (state.hardware.read + 20.0);
        let unfound = |(at, change): &&(f64, f64)| *at >= before || (last - at) * change < brackets;
        let moved = |(at, change): &(f64, f64)| (state.now - at.max(before)) * change;
        state.changes.iter().filter(unfound).map(moved).sum()
    }

    pub(crate) fn kernel(&self, clock: ClockId) -> Nanos {
        let mut state = self.0.borrow_mut();
        let coarse = matches!(clock, ClockId::MonotonicCoarse | ClockId::RealtimeCoarse);
        let takes = if coarse { 6.0 } else { state.hardware.read };
        let early = state.chance();
        let preempted = state.hardware.preempted;
        let late = if preempted != 0 && state.draw() % preempted == 0 { 2.0 * MS } else { 0.0 };
        let (before, after) = (state.chance() * late, state.chance() * late);
        state.advance(takes * (0.35 + 0.1 * early) + before);
        let mono = if coarse {
            state.coarse.floor() as i64
        } else {
            floor(state.mono, state.hardware.grain)
        };
        let time = mono + state.offset(clock);
        state.advance(takes * (0.65 - 0.1 * early) + after);
        Nanos(time)
    }
}

fn floor(mono: f64, grain: f64) -> i64 {
    ((mono / grain).floor() * grain).floor() as i64
}

impl State {
    fn draw(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    fn chance(&mut self) -> f64 {
        (self.draw() % 1000) as f64 / 1000.0
    }

    fn offset(&self, clock: ClockId) -> i64 {
        match clock {
            ClockId::Realtime | ClockId::RealtimeCoarse => self.real,
            ClockId::Tai => self.real + self.tai * 1_000_000_000,
            ClockId::Boottime => self.boot as i64,
            _ => 0,
        }
    }

    fn advance(&mut self, nanos: f64) {
        let end = self.now + nanos;
        loop {
            let event = self.events.front().map_or(f64::INFINITY, |(at, _)| *at);
            let next = end.min(event).min(self.next_tick);
            self.pass((next - self.now).max(0.0));
            self.now = next;
            if next == self.next_tick {
                self.next_tick += TICK;
                self.coarse = self.mono;
            } else if next == event {
                if let Some((_, event)) = self.events.pop_front() {
                    self.happen(event);
                }
            } else {
                return;
            }
        }
    }

    fn pass(&mut self, nanos: f64) {
        // The kernel's multiplier is a whole number: the clock runs a little fast or slow in turns
        // to be right on average.
        let step = self.hardware.dither * 1e-6 / 2.0 * if self.wander > 0.0 { -1.0 } else { 1.0 };
        self.wander += step * nanos;
        self.mono += nanos * (self.rate + step);
        if !self.stands {
            self.counter += nanos * self.hardware.hz / SECOND;
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Slew(ppm) => {
                let rate = 1.0 + ppm * 1e-6;
                self.changes.push((self.now, (rate - self.rate).abs()));
                self.rate = rate;
            }
            Event::Step(by) => {
                self.real += by;
                self.surprises.stepped = self.now;
            }
            Event::Leap => {
                self.real -= 1_000_000_000;
                self.tai += 1;
                self.surprises.stepped = self.now;
            }
            Event::Sleep(nanos, counter) => {
                self.boot += nanos;
                self.real += nanos as i64;
                self.surprises.leapt += nanos;
                match counter {
                    Asleep::Continues => self.counter += nanos * self.hardware.hz / SECOND,
                    Asleep::Resets => self.counter_to(1e6),
                    Asleep::Stops => {}
                }
                self.surprises.broken = self.now;
            }
            Event::Hz(hz) => {
                let change = (hz / self.hardware.hz - 1.0).abs();
                self.surprises.leapt += change * SECOND;
                self.hardware.hz = hz;
                self.changes.push((self.now, change));
                if change > 0.0009 {
                    self.surprises.broken = self.now;
                }
            }
            Event::CounterJump(ticks) => {
                self.counter_to(self.counter + ticks);
                self.surprises.leapt += ticks.abs() / self.hardware.hz * SECOND;
                self.surprises.broken = self.now;
            }
            Event::ClockJump(nanos) => {
                self.mono += nanos;
                self.surprises.broken = self.now;
            }
            Event::CounterStands(stands) => {
                self.stands = stands;
                self.surprises.broken = self.now;
            }
        }
    }

    fn counter_to(&mut self, counter: f64) {
        if counter < self.counter {
            self.surprises.counter_back = self.now;
        }
        self.counter = counter.max(1e6);
    }
}

/// The counter of one CPU, which may be off by some ticks.
#[derive(Clone, Copy)]
pub(crate) struct Cpu<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) offset: i64,
}

impl Counter for Cpu<'_> {
    fn ordered(&self) -> Ticks {
        let mut state = self.machine.0.borrow_mut();
        state.advance(9.0);
        state.mono_at_read = state.mono;
        let ticks = (state.counter as u64).saturating_add_signed(self.offset);
        state.advance(9.0);
        Ticks(ticks)
    }

    fn unordered(&self) -> Ticks {
        self.ordered()
    }
}

impl Kernel for &Machine {
    fn read(&self, clock: ClockId) -> Nanos {
        self.kernel(clock)
    }

    fn declined(&self, _: Decline) {}
}
