//! A clock that keeps its own page, in the slow path of its readers' calls.

#[cfg(test)]
#[path = "page_tests.rs"]
mod page_tests;
#[cfg(test)]
#[path = "alone_tests.rs"]
mod tests;

use core::sync::atomic::AtomicI64;
use core::sync::atomic::Ordering::Relaxed;

use crate::clock::{Clock, status};
use crate::clock_id::ClockId;
use crate::decline::Decline;
use crate::discipline::Settings;
use crate::keeper::{Keeper, Pace};
use crate::page::{Content, Page, Writer};
use crate::sys::{self, CpuCounter, ForkCell, VmClock};
use crate::units::{Nanos, Ticks};

const MILLISECOND: i64 = 1_000_000;
const SECOND: i64 = 1_000 * MILLISECOND;
/// Time between two looks before the rate is known: a little more than eight in the baseline.
const FIRST_LOOKS: Nanos = Nanos(24 * MILLISECOND);
/// Shortest time between two looks afterwards; the end of the line's span triggers the next.
const LOOKS: Nanos = Nanos(100 * MILLISECOND);
/// Time between two reads of the name of the kernel's clocksource.
const CLOCKSOURCE_LOOKS: Nanos = Nanos(10 * SECOND);
/// Wait after the first failure of a guard; doubled with each failure, up to the longest.
const BACKOFF: Nanos = Nanos(SECOND);
const DOUBLINGS: u32 = 6;
/// Number of looks without a failure after which earlier failures are forgotten.
const PROVEN: u32 = 600;
/// Brackets of a look. The first looks decide about the rate; later looks delay a call.
const FIRST_BRACKETS: usize = 64;
const BRACKETS: usize = 24;
/// Time by which the end of a line is announced ahead, in ticks: some microseconds.
const LEAD: Ticks = Ticks(50_000);

const PACE: Pace = Pace {
    horizon: Nanos(SECOND),
    valid: Nanos(SECOND),
    grace: Nanos(60 * SECOND),
    lead: Nanos(10_000),
    steepest_ppm: 500,
};

impl status::Reason {
    fn set(&self, reason: Decline) {
        self.0.store(reason.as_raw(), Relaxed);
    }
}

/// State of a clock that keeps itself.
#[derive(Debug)]
pub(crate) struct Alone {
    state: ForkCell<State>,
    /// `CLOCK_MONOTONIC_COARSE` before which no thread looks.
    next: AtomicI64,
    vmclock: Option<VmClock>,
    invariant: bool,
}

/// Data of the thread that looks. Plain numbers: a fork may tear the value.
#[derive(Debug)]
struct State {
    keeper: Keeper,
    /// True while the page has a line that was not ended.
    running: bool,
    failures: u32,
    steady: u32,
    clocksource_next: Nanos,
    /// The tightest bracket of a look so far, ticks.
    tightest: u64,
    marker: Option<u64>,
}

impl State {
    fn new(marker: Option<u64>) -> Self {
        Self {
            keeper: Keeper::new(Settings::default(), PACE),
            running: false,
            failures: 0,
            steady: 0,
            clocksource_next: Nanos(i64::MIN),
            tightest: u64::MAX,
            marker,
        }
    }

    /// Forgets everything; returns the time for which to leave the counter alone.
    fn fail(&mut self) -> Nanos {
        let wait = BACKOFF.0 << self.failures.min(DOUBLINGS);
        *self = Self { failures: self.failures.saturating_add(1), ..Self::new(self.marker) };
        Nanos(wait)
    }
}

impl Alone {
    /// `None` where there is no counter to keep a clock by.
    pub(crate) fn new() -> Option<Self> {
        Some(Self::with(VmClock::open(), sys::is_invariant()))
    }

    pub(crate) fn with(vmclock: Option<VmClock>, invariant: bool) -> Self {
        Self { state: ForkCell::new(), next: AtomicI64::new(i64::MIN), vmclock, invariant }
    }

    /// Makes the next call look, whatever the time is.
    #[cfg(test)]
    pub(crate) fn look_next(&self) {
        self.next.store(i64::MIN, Relaxed);
    }

    fn is_due(&self, now: Nanos) -> bool {
        now.0 >= self.next.load(Relaxed) || self.state.is_fresh()
    }

    fn marker(&self) -> Option<u64> {
        self.vmclock.as_ref().and_then(VmClock::disruption_marker)
    }

    /// Looks at the kernel's clock and renews the page; true if the page changed.
    fn look(&self, clock: &Clock, now: Nanos) -> bool {
        let page = &clock.mapping.pair().page;
        let make = || {
            // If the parent forked during a look, the child's state is torn: withdraw the line.
            clock.close(&mut Writer::create(page, [0; 2], 0), Decline::Starting);
            State::new(self.marker())
        };
        let done = self.state.try_with(make, |state| {
            let mut writer = writer(page);
            let running = state.running;
            // A thread that renews a line has read the counter just now.
            let (wait, reason) = if running || sys::may_read_counter() {
                self.follow(state, &mut writer, now)
            } else {
                state.running = false;
                (state.fail(), Some(Decline::Forbidden))
            };
            match reason {
                None if state.running => clock.mapping.open(),
                None => {}
                // Present readers may use the line to its new end. The next look, after the
                // backoff, closes the mapping.
                Some(reason) if running && reason != Decline::Forbidden => {
                    clock.closed.set(reason);
                    writer.end(&CpuCounter, LEAD, reason);
                }
                Some(reason) => clock.close(&mut writer, reason),
            }
            clock.mapping.pair().counts.add(status::RENEWALS);
            self.next.store(now.0.saturating_add(wait.0), Relaxed);
            running || state.running
        });
        done.unwrap_or(false)
    }

    /// Checks the guards, then looks. Returns the time to the next look, and the reason if the page
    /// must not be used.
    fn follow(
        &self,
        state: &mut State,
        writer: &mut Writer<'_>,
        now: Nanos,
    ) -> (Nanos, Option<Decline>) {
        if let Err(reason) = self.guards(state) {
            return (state.fail(), Some(reason));
        }
        let brackets = if state.running { BRACKETS } else { FIRST_BRACKETS };
        let reading = sys::look(&CpuCounter, brackets);
        if let Err(reason) = self.clocksource(state, reading.half_width.0, now) {
            return (state.fail(), Some(reason));
        }
        if let Some(reason) = state.keeper.discipline.observe(&reading).reason() {
            return (state.fail(), Some(reason));
        }
        match state.keeper.publish(writer, &CpuCounter) {
            Ok(true) => {
                state.running = true;
                state.steady = state.steady.saturating_add(1);
                if state.steady > PROVEN {
                    state.failures = 0;
                }
                (LOOKS, None)
            }
            // A line from before a fork holds to its end.
            Ok(false) if state.running => (FIRST_LOOKS, None),
            Ok(false) => (FIRST_LOOKS, Some(Decline::Starting)),
            // The line goes on; the next call tries again.
            Err(_) => (Nanos::ZERO, None),
        }
    }

    fn guards(&self, state: &mut State) -> Result<(), Decline> {
        if !self.invariant {
            return Err(Decline::NotInvariant);
        }
        let marker = self.marker();
        if marker.is_some() && marker != state.marker {
            state.marker = marker;
            return Err(Decline::Disrupted);
        }
        Ok(())
    }

    /// Whether the counter is the kernel's clocksource. Checked before the counter is used, and
    /// again when the kernel's clock takes twice as long to read as before. So a running clock
    /// makes no system call, for which a sandboxed program could be killed.
    fn clocksource(&self, state: &mut State, width: u64, now: Nanos) -> Result<(), Decline> {
        let slower = width / 2 > state.tightest;
        state.tightest = state.tightest.min(width);
        if now < state.clocksource_next || (state.running && !slower) {
            return Ok(());
        }
        let changed = state.running;
        sys::counter_is_clocksource(&CpuCounter)
            .map_err(|reason| if changed { Decline::ClocksourceChanged } else { reason })?;
        state.clocksource_next = Nanos(now.0.saturating_add(CLOCKSOURCE_LOOKS.0));
        Ok(())
    }
}

/// The page's writer, in the state in which the last writer left the page.
fn writer(page: &Page) -> Writer<'_> {
    Writer::resume(page, [0; 2], 0).unwrap_or_else(|_| Writer::create(page, [0; 2], 0))
}

impl Clock {
    /// Looks at the kernel's clock if a look is due and no other thread looks; true if the page
    /// changed.
    pub(crate) fn renew(&self) -> bool {
        let Some(alone) = &self.alone else { return false };
        let now = sys::now(ClockId::MonotonicCoarse);
        alone.is_due(now) && sys::preserving_errno(|| alone.look(self, now))
    }

    /// Whether a look is due when the kernel's `CLOCK_MONOTONIC` is `now`.
    pub(crate) fn is_due(&self, now: Nanos) -> bool {
        self.alone.as_ref().is_some_and(|alone| alone.is_due(now))
    }

    /// Closes the mapping, so that the kernel answers without a look at the page.
    fn close(&self, writer: &mut Writer<'_>, reason: Decline) {
        self.closed.set(reason);
        self.mapping.close();
        writer.publish(Content::none(reason));
    }
}
