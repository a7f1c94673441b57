//! Tests of a timekeeper on this machine.

use std::cell::Cell;

use fastclock::arch::CpuCounter;
use fastclock::page::{Kernel, OWNER_DIED, Order, PageClock, Reader, Trust};
use fastclock::{ClockId, Nanos};

use super::*;
use crate::counter_probe;
use clockscope_sys::tsc;

/// The kernel's clock, and why it was asked.
#[derive(Default)]
struct Asked(Cell<Option<Decline>>);

impl Kernel for &Asked {
    fn read(&self, clock: ClockId) -> Nanos {
        tsc::now(clock)
    }
    fn declined(&self, reason: Decline) {
        self.0.set(Some(reason));
    }
}

fn page() -> &'static Page {
    Box::leak(Box::new(Page::new()))
}

fn options() -> Options {
    Options { period: Duration::from_millis(50), ..Options::default() }
}

/// Waits until the timekeeper's state fulfils a condition.
fn wait_until(keeper: &Timekeeper, mut is: impl FnMut(Pulse) -> bool) -> Pulse {
    loop {
        if let Some(pulse) = keeper.pulse()
            && is(pulse)
        {
            return pulse;
        }
        assert!(keeper.is_alive());
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

/// A process that reads the page.
fn reader(page: &'static Page) -> Reader<'static, CpuCounter, &'static Asked> {
    let (trust, kernel): (&Trust, &Asked) = (Box::leak(Box::default()), Box::leak(Box::default()));
    Reader { page, trust, counter: CpuCounter, kernel }
}

/// Checks a reading by the kernel's clock; whether the page answered.
fn is_answered_within_bound(reader: &Reader<'_, CpuCounter, &Asked>) -> bool {
    let before = tsc::now(ClockId::Monotonic);
    let read = reader.bounded(PageClock::Monotonic, Order::Ordered);
    let after = tsc::now(ClockId::Monotonic);
    assert!(read.time.0 + read.bound.0 >= before.0, "{before:?} {read:?}");
    assert!(read.time.0 - read.bound.0 <= after.0, "{read:?} {after:?}");
    read.declined.is_none()
}

#[test]
fn a_page_answers_within_its_bound_until_it_is_stopped() {
    let page = page();
    let reader = reader(page);
    let keeper = Timekeeper::start(page, options()).unwrap();
    wait_until(&keeper, |_| true);
    let starting = reader.bounded(PageClock::Monotonic, Order::Ordered);
    // Unless this thread did not get a CPU for as long as measuring the counter takes.
    let is_late = keeper.pulse().unwrap().lines > 0;
    assert!(starting.declined == Some(Decline::Starting) || is_late, "{starting:?}");
    wait_until(&keeper, |pulse| pulse.lines > 4);
    let mut answered = 0;
    for _ in 0..10_000 {
        answered += u32::from(is_answered_within_bound(&reader));
    }
    assert!(answered > 9_000, "{answered}; {:?}", reader.kernel.0);
    let report = keeper.stop();
    let read = reader.bounded(PageClock::Monotonic, Order::Ordered);
    // The line ends shortly after the thread.
    let is_over = read.declined == Some(Decline::WriterStopped) || read.declined.is_none();
    assert!(is_over, "{read:?}");
    assert!(report.lines > 4 && report.looks > report.lines, "{report:?}");
    assert!(report.worst_bound > 0 && report.cpu_time > Duration::ZERO, "{report:?}");
    assert_eq!(report.withdrawals[0].reason, Decline::Starting);
    assert!(report.withdrawals[0].lasted >= Duration::from_millis(200), "{report:?}");
}

#[test]
fn an_early_page_answers_after_a_few_looks_and_within_its_bound_from_the_first() {
    let source = fastclock::sys::clocksource();
    if !source.is_some_and(|source| counter_probe::is_the_counter(source.name())) {
        return skips::skip("the kernel's clocksource is not the counter");
    }
    let page = page();
    let reader = reader(page);
    let keeper = Timekeeper::start(page, Options { early: true, ..options() }).unwrap();
    let mut answered = 0;
    while keeper.pulse().is_none_or(|pulse| pulse.lines < 9) {
        answered += u32::from(is_answered_within_bound(&reader));
        assert!(keeper.is_alive());
    }
    let report = keeper.stop();
    assert!(answered > 0, "{:?}", reader.kernel.0);
    let without_line = report.looks - report.lines - report.too_late;
    assert!(without_line <= 4, "{report:?}");
}

/// A caller that learns that the page answers relies on it.
#[test]
fn nobody_is_told_that_the_page_answers_before_it_has_a_line() {
    for _ in 0..300 {
        let keeper = Timekeeper::start(page(), options()).unwrap();
        let first = std::iter::repeat_with(|| keeper.pulse()).flatten().next().unwrap();
        assert!(first.declined.is_some() || first.lines > 0, "{first:?}");
        let _ = keeper.stop();
    }
}

#[test]
fn the_owner_is_named_while_it_lives() {
    let page = page();
    let keeper = Timekeeper::start(page, options()).unwrap();
    wait_until(&keeper, |_| true);
    let owner = page.head.load(Ordering::Acquire) >> 32;
    assert!(owner > 0 && owner != u64::from(std::process::id()));
    let _ = keeper.stop();
    let head = page.head.load(Ordering::Acquire);
    assert_eq!((head >> 32, head & OWNER_DIED), (0, 0));

    let keeper = Timekeeper::start(page, Options { owned: false, ..options() }).unwrap();
    wait_until(&keeper, |_| true);
    assert_eq!(page.head.load(Ordering::Acquire) >> 32, 0);
    let _ = keeper.stop();
}

#[test]
fn a_bridged_restart_is_no_gap() {
    let page = page();
    let reader = reader(page);
    let serve = Options {
        owned: false,
        bridge: true,
        resume: true,
        valid: Duration::from_secs(3600),
        ..options()
    };
    let read = || reader.bounded(PageClock::Monotonic, Order::Ordered);
    let mut last = Nanos(0);
    for _ in 0..3 {
        let keeper = Timekeeper::start(page, serve).unwrap();
        wait_until(&keeper, |pulse| {
            let now = read();
            assert!(now.time >= last, "{now:?} {last:?}");
            last = now.time;
            pulse.lines > 2
        });
        let report = keeper.stop();
        assert_eq!(report.outside_bound, 0, "{report:?}");
        assert_eq!(read().declined, None, "the line goes on");
    }
    let report = Timekeeper::start(page, serve).unwrap().stop();
    assert_eq!(report.withdrawals, [], "answered from the first moment on");
}
