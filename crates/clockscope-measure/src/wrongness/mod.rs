//! Errors of clocks: the tests, each on replaceable sources, and a run of all tests.

pub mod bracket;
pub mod machine;
pub mod offset;
pub mod order;
pub mod plan;
pub mod rate;
mod rows;
pub mod source;
pub mod staleness;

use std::thread;
use std::time::Instant;

use self::machine::{COUNTERS, MachineClocks, ORDERED, Subject, pairs};
use self::plan::{Budget, WrongnessPlan};
use self::rate::Anchor;
use self::source::{NANOS, TICKS, in_turn};
use clockscope_model::wrongness::{RateRow, SCHEMA, WrongnessReport};
use clockscope_sys::affinity;
use clockscope_sys::warp;

/// Clocks whose rates are compared: the clock, and its reference.
const RATES: [(&str, &str); 4] = [
    ("CLOCK_MONOTONIC", "CLOCK_MONOTONIC_RAW"),
    ("CLOCK_REALTIME", "CLOCK_MONOTONIC"),
    ("CLOCK_BOOTTIME", "CLOCK_MONOTONIC"),
    ("CLOCK_TAI", "CLOCK_REALTIME"),
];
/// Name of the decline if pinning is forbidden.
const ONE_CPU: &str = "one CPU";

/// Makes all measurements of the plan; `tell` gets the name of each test as it starts. The caller fills in
/// the host and the verdict.
pub fn measure(
    machine: &MachineClocks,
    plan: &WrongnessPlan,
    tell: &(dyn Fn(&str) + Sync),
) -> WrongnessReport {
    let run = || Run::new(machine, plan, tell).all();
    // The measuring thread is separate because it gets pinned to one CPU.
    thread::scope(|scope| scope.spawn(run).join()).unwrap_or_else(|_| {
        let lost = ("everything".to_owned(), "the measuring thread ended early".to_owned());
        WrongnessReport { schema: SCHEMA, declines: vec![lost], ..WrongnessReport::default() }
    })
}

/// A run in progress, on the measuring thread.
struct Run<'a> {
    machine: &'a MachineClocks,
    plan: &'a WrongnessPlan,
    tell: &'a (dyn Fn(&str) + Sync),
    subjects: Vec<&'a Subject>,
    found: WrongnessReport,
}

impl<'a> Run<'a> {
    fn new(
        machine: &'a MachineClocks,
        plan: &'a WrongnessPlan,
        tell: &'a (dyn Fn(&str) + Sync),
    ) -> Self {
        let subjects = plan.names.iter().filter_map(|name| machine.subject(name)).collect();
        let declines = machine.declines.clone();
        let found = WrongnessReport { schema: SCHEMA, declines, ..WrongnessReport::default() };
        Self { machine, plan, tell, subjects, found }
    }

    fn all(mut self) -> WrongnessReport {
        let start = Instant::now();
        self.pin();
        let cpus = self.comparable_cpus();
        let budget = self.budget(cpus.len());
        let discipline = (self.machine.discipline)();
        let anchors = self.anchors();
        self.orders(&budget);
        self.staleness(&budget);
        let middle = self.anchors();
        self.warps(&cpus, &budget);
        self.offsets(&cpus, &budget);
        let end = self.anchors();
        let discipline = discipline.zip((self.machine.discipline)());
        self.found.discipline = discipline.map(|(first, last)| rows::discipline(first, last));
        self.rates(&anchors, &middle, &end);
        self.found.elapsed_ms = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.found
    }

    fn decline(&mut self, what: &str, why: impl Into<String>) {
        self.found.declines.push((what.to_owned(), why.into()));
    }

    /// Pins the thread to one CPU: the last one, because the first has more interrupts and other work.
    fn pin(&mut self) {
        let Some(cpu) = self.machine.cpus.last().copied() else { return };
        if let Err(error) = affinity::restrict_to(&[cpu]) {
            self.decline(ONE_CPU, format!("a thread cannot be kept on one ({error})"));
        }
        self.found.cpu = affinity::current();
    }

    /// The pairs of CPUs to compare; empty, with a decline, if there are none.
    fn comparable_cpus(&mut self) -> Vec<(u32, u32)> {
        let cpus = self.machine.cpus.clone();
        if self.found.declines.iter().any(|decline| decline.0 == ONE_CPU) {
            self.decline("warp and offset", "threads cannot be kept on different CPUs");
            return Vec::new();
        }
        if cpus.len() < 2 {
            self.decline("warp and offset", "there is only one CPU that this process may use");
        }
        pairs(&cpus)
    }

    fn budget(&self, cpu_pairs: usize) -> Budget {
        // A clock's order is tested by each route, and by all routes in turn if there are several.
        let orders = |routes: usize| routes + usize::from(routes > 1);
        let orders = self.subjects.iter().map(|s| orders(s.routes.len())).sum();
        let coarse = self.subjects.iter().filter(|s| s.reference.is_some()).count();
        let offsets = self.offset_source().map_or(0, |_| cpu_pairs);
        Budget::split(self.plan.time, orders, coarse, self.compared().len() * cpu_pairs, offsets)
    }

    /// The subjects that are compared across CPUs.
    fn compared(&self) -> Vec<&'a Subject> {
        let wanted = |subject: &&&Subject| {
            subject.is_shared && (self.plan.is_choice || subject.is_compared_by_default)
        };
        self.subjects.iter().filter(wanted).copied().collect()
    }

    /// The counter whose offset is measured, if a counter was chosen.
    fn offset_source(&self) -> Option<&'a Subject> {
        let chosen = self.subjects.iter().any(|subject| COUNTERS.contains(&subject.name));
        self.machine.subject(ORDERED).filter(|_| chosen)
    }

    fn orders(&mut self, budget: &Budget) {
        (self.tell)("order on one CPU, and resolution");
        for subject in &self.subjects {
            let is_coarse = subject.reference.is_some();
            let mut order = order::ReadingOrder::default();
            for (at, (_, source)) in subject.routes.iter().enumerate() {
                let steps = order.steps;
                order::measure(&mut order, &**source, is_coarse, budget.order);
                // The resolution counts steps by the fastest route only. A coarse clock steps so seldom that
                // its steps by all routes count.
                if at > 0 && !is_coarse {
                    order.steps = steps;
                }
            }
            let (steps, backward) = (order.steps, order.backward);
            if subject.routes.len() > 1 {
                order::measure(&mut order, &in_turn(&subject.routes), false, budget.order);
                order.steps = steps;
            }
            self.found.clocks.push(rows::clock(subject, order, backward));
        }
    }

    fn staleness(&mut self, budget: &Budget) {
        (self.tell)("staleness");
        let mut clocks = Vec::new();
        let mut sources = Vec::new();
        for (at, subject) in self.subjects.iter().enumerate() {
            let Some(reference) = subject.reference else { continue };
            let Some(precise) = self.machine.source(reference) else { continue };
            clocks.push((at, reference));
            sources.push(staleness::Coarse { clock: subject.source(), reference: precise });
        }
        let mut found = vec![staleness::Staleness::default(); sources.len()];
        for (into, pair) in found.iter_mut().zip(&sources) {
            staleness::measure_busy(into, pair, budget.busy);
        }
        if !sources.is_empty() {
            staleness::measure_idle(&mut found, &sources, budget.idle);
        }
        for ((at, reference), staleness) in clocks.into_iter().zip(found) {
            self.found.clocks[at].staleness = Some(rows::staleness(reference, &staleness));
        }
    }

    fn warps(&mut self, cpus: &[(u32, u32)], budget: &Budget) {
        (self.tell)("warp between CPUs");
        let time = warp::patiently(budget.warp);
        for subject in self.compared() {
            for pair in cpus {
                match warp::measure(subject.source(), *pair, &time) {
                    Ok(found) => self.found.warps.push(rows::warp(subject, *pair, &found)),
                    Err(error) => return self.decline("warp", error.to_string()),
                }
            }
        }
    }

    fn offsets(&mut self, cpus: &[(u32, u32)], budget: &Budget) {
        (self.tell)("offset between CPUs");
        let Some(subject) = self.offset_source() else { return };
        for pair in cpus {
            match offset::measure(subject.source(), *pair, budget.offset) {
                Ok(Some(found)) => self.found.offsets.push(rows::offset(subject, *pair, &found)),
                Ok(None) => {}
                Err(error) => return self.decline("offset", error.to_string()),
            }
        }
    }

    /// The pairs of clocks to rate: the plan's clocks that have a reference, and one counter.
    fn rated(&self) -> Vec<(&'a Subject, &'static str)> {
        let is_chosen = |name: &str| self.plan.names.contains(&name);
        let clocks = RATES.into_iter().filter(|(clock, _)| is_chosen(clock));
        let clocks =
            clocks.filter_map(|(clock, other)| Some((self.machine.subject(clock)?, other)));
        let counter = self.offset_source().map(|subject| (subject, "CLOCK_MONOTONIC_RAW"));
        clocks.chain(counter).collect()
    }

    fn anchors(&self) -> Vec<Option<Anchor>> {
        let anchor = |(subject, reference): (&Subject, &str)| {
            Some(rate::anchor(self.machine.source(reference)?, subject.source()))
        };
        self.rated().into_iter().map(anchor).collect()
    }

    /// The greatest common divisor of a clock's steps, in nanoseconds; 1 if unknown.
    fn granularity_ns(&self, name: &str) -> u64 {
        let clock = self.found.clocks.iter().find(|clock| clock.clock == name);
        let steps = clock.filter(|clock| clock.unit == NANOS);
        steps.and_then(|clock| clock.resolution.as_ref()).map_or(1, |steps| steps.gcd.max(1))
    }

    fn rates(&mut self, start: &[Option<Anchor>], half: &[Option<Anchor>], end: &[Option<Anchor>]) {
        for (at, (subject, reference)) in self.rated().into_iter().enumerate() {
            let (Some(start), Some(end)) = (start[at], end[at]) else { continue };
            let granularity = self.granularity_ns(subject.name).max(self.granularity_ns(reference));
            let Some(rate) = rate::between(start, end, granularity) else {
                let what = format!("rate of {}", subject.name);
                self.decline(&what, format!("{reference} did not go on"));
                continue;
            };
            let half = half[at].and_then(|half| rate::between(start, half, granularity));
            let row = match subject.unit {
                TICKS => rows::rate_of_counter(&rate, half.as_ref(), self.machine.nominal_hz),
                _ => rows::rate_of_clock(&rate, end, reference, self.found.discipline.as_ref()),
            };
            let (clock, reference) = (subject.name.to_owned(), reference.to_owned());
            self.found.rates.push(RateRow { clock, reference, ..row });
        }
    }
}
