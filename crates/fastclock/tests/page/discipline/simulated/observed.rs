//! A keeper, its page and reading processes, all under observation.

use std::cell::{Cell, RefCell};

use fastclock::discipline::{Reading, Settings, Step};
use fastclock::keeper::{Keeper, Pace};
use fastclock::page::{Counter, Order, Page, PageClock, Reader, Trust, Writer};
use fastclock::{ClockId, Nanos, Ticks, sys};

use super::super::super::recorded::PACE;
use super::{Cpu, MS, Machine};

/// Number of reading processes, each with its own trust and its own CPU.
const PROCESSES: usize = 3;
/// Lead of a page over the kernel's clock, ns, above which a reader leaves the page without
/// waiting.
const HOLD: f64 = 0.9 * super::SECOND;

#[derive(Default)]
struct Process {
    trust: Trust,
    offset: i64,
    last: Cell<[i64; 2]>,
    last_at: Cell<f64>,
}

/// Observations of the readers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Seen {
    /// Readings that the page answered while a promise held.
    pub(crate) promised: u64,
    /// Readings that the page answered.
    pub(crate) answered: u64,
    /// Readings that the kernel answered.
    pub(crate) declined: u64,
    /// Largest error while a promise held, ns.
    pub(crate) worst: i64,
    /// Largest bound, ns.
    pub(crate) widest: i64,
    /// Descriptions of wrong answers.
    pub(crate) faults: Vec<String>,
}

/// The readers of a page.
pub(crate) struct Readers<'a> {
    machine: &'a Machine,
    page: &'a Page,
    processes: Vec<Process>,
    pub(crate) seen: RefCell<Seen>,
    /// Times of the last two looks that were published.
    looks: Cell<[f64; 2]>,
    /// Time of the last look.
    looked: Cell<f64>,
    /// Whether the keeper will lose its CPU.
    delayed: bool,
}

impl<'a> Readers<'a> {
    fn new(machine: &'a Machine, page: &'a Page, plan: &Plan) -> Self {
        let warp = plan.warp;
        let processes = (0..PROCESSES).map(|index| Process {
            offset: warp * (i64::try_from(index).unwrap_or(0) - 1),
            ..Process::default()
        });
        Self {
            machine,
            page,
            processes: processes.collect(),
            seen: RefCell::default(),
            looks: Cell::new([f64::NEG_INFINITY; 2]),
            looked: Cell::new(0.0),
            delayed: plan.delay.is_some(),
        }
    }

    /// Every process reads each clock once, and the answers are judged.
    pub(crate) fn sample(&self) {
        let clocks =
            [PageClock::Monotonic, PageClock::Boottime, PageClock::Realtime, PageClock::Tai];
        for (index, process) in self.processes.iter().enumerate() {
            let turn = usize::try_from(self.seen.borrow().answered % 7).unwrap_or(0);
            let clock = clocks[(turn + index) % clocks.len()];
            self.read(process, clock);
        }
    }

    fn read(&self, process: &Process, clock: PageClock) {
        let counter = Cpu { machine: self.machine, offset: process.offset };
        let reader =
            Reader { page: self.page, trust: &process.trust, counter, kernel: self.machine };
        let begun = self.machine.now();
        let answer = reader.bounded(clock, Order::Ordered);
        let truth = self.machine.at_counter_read(clock.id());
        let mut seen = self.seen.borrow_mut();
        let now = self.machine.now();
        let error = answer.time.0 - truth;
        let looked = self.looks.get();
        // The event may have come while the reader waited: then nothing is promised.
        let surprises = self.machine.surprises();
        let broken = surprises.broken >= looked[1] || surprises.broken >= begun;
        if answer.declined.is_some() {
            seen.declined += 1;
        } else {
            seen.answered += 1;
            let stepped = surprises.stepped >= looked[1];
            let of_real = matches!(clock, PageClock::Realtime | PageClock::Tai);
            if !(broken || of_real && stepped) {
                seen.promised += 1;
                seen.worst = seen.worst.max(error.abs());
                seen.widest = seen.widest.max(answer.bound.0);
                let moved = self.machine.moved(looked).ceil() as i64;
                if error.abs() > answer.bound.0 + moved {
                    let bound = answer.bound.0;
                    seen.faults.push(format!(
                        "{now:.0}: {clock:?} off by {error}, bound {bound}, moved {moved}"
                    ));
                }
            }
        }
        let place = match clock {
            PageClock::Monotonic => 0,
            PageClock::Boottime => 1,
            PageClock::Realtime | PageClock::Tai => return,
        };
        let mut last = process.last.get();
        // The failure cannot be detected before the next look.
        let told = process.last_at.get().min(self.looked.get());
        let counter_back = surprises.counter_back >= told;
        // If a line's end was announced too late, its last use is not known: if the counter has
        // leapt as well, the clock may go back by as much.
        let left = surprises.leapt > if self.delayed { super::MS } else { HOLD };
        if answer.time.0 < last[place] && !left && !counter_back {
            let by = last[place] - answer.time.0;
            seen.faults.push(format!("{now:.0}: {clock:?} went back by {by}: {answer:?}"));
        }
        last[place] = answer.time.0;
        process.last.set(last);
        process.last_at.set(now);
    }
}

/// The keeper's counter: a read may be delayed, and the processes read meanwhile.
struct Watched<'a> {
    cpu: Cpu<'a>,
    readers: &'a Readers<'a>,
    calls: Cell<u64>,
    delay: Cell<Option<(u64, f64)>>,
}

impl Counter for Watched<'_> {
    fn ordered(&self) -> Ticks {
        let ticks = self.cpu.ordered();
        self.calls.set(self.calls.get() + 1);
        self.readers.sample();
        if let Some((_, delay)) = self.delay.get().filter(|(at, _)| *at == self.calls.get()) {
            self.delay.set(None);
            for _ in 0..60 {
                self.cpu.machine.advance(delay / 60.0);
                self.readers.sample();
            }
        }
        ticks
    }

    fn unordered(&self) -> Ticks {
        self.ordered()
    }
}

/// The plan for keeping and observing a page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Time between two looks, ns.
    pub(crate) period: f64,
    /// Samples between two looks.
    pub(crate) samples: u32,
    pub(crate) settings: Settings,
    /// The keeper is delayed at its n-th read of the counter after so many looks.
    pub(crate) delay: Option<Delay>,
    /// A nonsense reading that replaces a real one: the number of the look and the replacement.
    pub(crate) absurd: Option<(u64, Reading)>,
    pub(crate) warp: i64,
}

/// Time and duration of the keeper's loss of CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delay {
    pub(crate) look: u64,
    pub(crate) call: u64,
    pub(crate) nanos: f64,
}

impl Plan {
    pub(crate) fn every(period: f64) -> Self {
        let settings = Settings::default();
        Self { period, samples: 12, settings, delay: None, absurd: None, warp: 0 }
    }
}

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) seen: Seen,
    /// The verdicts on the readings, except `Steady`, with the time.
    pub(crate) verdicts: Vec<(f64, Step)>,
    pub(crate) keeper: Keeper,
    /// The readings of the last fifth of the time.
    pub(crate) at_end: Seen,
}

impl Outcome {
    /// Checks that no answer was wrong and that the page answered at the end.
    pub(crate) fn assert_good(&self) {
        assert!(
            self.seen.faults.is_empty(),
            "{} faults: {:#?}",
            self.seen.faults.len(),
            &self.seen.faults[..self.seen.faults.len().min(5)]
        );
        assert!(self.seen.promised > 100, "{:?}", self.seen);
        assert!(self.at_end.answered > 20, "it did not recover: {self:?}");
    }
}

/// Keeps a page on this machine for `lasts` ns.
pub(crate) fn keep(machine: &Machine, plan: &Plan, lasts: f64) -> Outcome {
    let page = Page::new();
    let readers = Readers::new(machine, &page, plan);
    let pace = Pace { horizon: Nanos(plan.period as i64), ..PACE };
    let counter = Watched {
        cpu: Cpu { machine, offset: 0 },
        readers: &readers,
        calls: Cell::new(0),
        delay: Cell::new(None),
    };
    let mut writer = Writer::create(&page, [0; 2], 1);
    let mut keeper = Keeper::new(plan.settings, pace);
    let mut verdicts = Vec::new();
    let mut settled = None;
    let mut looks = 0;
    while machine.now() < lasts {
        if settled.is_none() && machine.now() > lasts * 0.8 {
            settled = Some(std::mem::take(&mut *readers.seen.borrow_mut()));
        }
        looks += 1;
        counter.calls.set(0);
        let looked = machine.now();
        let mut reading = sys::look_with(&counter.cpu, 16, |clock| machine.kernel(clock));
        if let Some(delay) = plan.delay.filter(|delay| delay.look == looks) {
            counter.delay.set(Some((delay.call, delay.nanos)));
        }
        if let Some((_, absurd)) = plan.absurd.filter(|(at, _)| *at == looks) {
            reading = absurd;
        }
        let verdict = keeper.discipline.observe(&reading);
        if verdict != Step::Steady {
            verdicts.push((looked, verdict));
        }
        if let Some(reason) = verdict.reason() {
            writer.end(&counter, Ticks(50_000), reason);
        }
        let published = keeper.publish(&mut writer, &counter).is_ok_and(|published| published);
        // A look that lost its CPU in every bracket finds nothing.
        if published && reading.half_width < Ticks(100_000) {
            readers.looks.set([readers.looks.get()[1], looked]);
        }
        readers.looked.set(looked);
        let period = if keeper.discipline.estimate().is_some() { plan.period } else { 50.0 * MS };
        for _ in 0..plan.samples {
            readers.sample();
            machine.advance(period / f64::from(plan.samples));
        }
    }
    let at_end = readers.seen.take();
    let mut seen = settled.unwrap_or_default();
    seen.promised += at_end.promised;
    seen.worst = seen.worst.max(at_end.worst);
    seen.faults.extend_from_slice(&at_end.faults);
    let _ = machine.kernel(ClockId::Monotonic);
    Outcome { seen, at_end, verdicts, keeper }
}
