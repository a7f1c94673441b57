//! The loop that keeps a page up to date.

use std::io::{PipeReader, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fastclock::Line;
use fastclock::arch::CpuCounter;
use fastclock::discipline::{Reading, Settings};
use fastclock::keeper::{Keeper, Pace};
use fastclock::page::{Content, Page, PageClock, State, Writer};
use fastclock::{ClockId, Decline, Nanos, sys};

use super::availability::{Availability, Report};
use super::backoff::Backoff;
use super::counter_probe;
use super::cpu_rotation::CpuRotation;
use super::guards;
use super::{Options, Pulse, Shared};
use clockscope_sys::precedence::Precedence;
use clockscope_sys::set_watch::SetWatch;
use clockscope_sys::{poll, robust, tsc};

/// Number of brackets in a comparison with the kernel's clock.
const BRACKETS: usize = 64;
/// Time between two comparisons while the page does not answer.
const PROVING_PERIOD: Duration = Duration::from_millis(20);
/// Distance of the first two comparisons of an early start; each later one comes after twice the elapsed time. So the
/// rate is always known over at least the time for which it is used, and the bound stays at three widths of a
/// comparison.
const EARLY_PERIOD: Duration = Duration::from_millis(1);
/// Number of comparisons in an early start, more than it needs: the ninth comes after 128 ms.
const EARLY_LOOKS: u64 = 12;
/// Time after which an early start answers.
const EARLY_BASELINE: Nanos = Nanos(4_000_000);
/// Time between two checks of the kernel's clocksource.
const CLOCKSOURCE_PERIOD: Nanos = Nanos(1_000_000_000);
/// How far in the future a new line takes effect, and the old one ends.
const LEAD: Nanos = Nanos(20_000);
/// [`LEAD`] in ticks, if the length of a tick is unknown; 20 us at 2.5 GHz.
const LEAD_TICKS: fastclock::Ticks = fastclock::Ticks(50_000);
/// Maximum distance of a line outside of its bound, in ns, before it is withdrawn. The bound does not include a slew
/// that a daemon begins between two comparisons.
const DISAGREEMENT: i64 = 1_000_000;

/// Keeps the page up to date until `shared.stop` is set.
pub(super) fn run(
    page: &'static Page,
    options: Options,
    shared: &Shared,
    words: &PipeReader,
) -> Report {
    let mut keep = Keep::new(page, options, shared);
    let watch = SetWatch::start().ok();
    let mut next_look = now();
    let mut is_set_ready = false;
    while !shared.stop.load(Ordering::Acquire) {
        let was_set =
            is_set_ready && watch.as_ref().is_some_and(|watch| watch.wait(Duration::ZERO));
        if was_set || now() >= next_look {
            keep.look();
            next_look = Nanos(now().0.saturating_add(nanos(keep.period())));
        }
        let look_in =
            Duration::from_nanos(next_look.0.saturating_sub(now().0).max(0).unsigned_abs());
        let mut descriptors: Vec<BorrowedFd> = vec![words.as_fd()];
        descriptors.extend(watch.as_ref().map(|watch| watch.as_fd()));
        let ready = poll::wait(&descriptors, look_in).unwrap_or_default();
        is_set_ready = ready.get(1) == Some(&true);
        if ready.first() == Some(&true) && matches!((&*words).read(&mut [0; 64]), Ok(0) | Err(_)) {
            // The other end is closed, so no stop request can come any more.
            break;
        }
    }
    keep.end()
}

fn now() -> Nanos {
    tsc::now(ClockId::Monotonic)
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

struct Keep<'a> {
    options: Options,
    shared: &'a Shared,
    keeper: Keeper,
    writer: Writer<'static>,
    availability: Availability,
    backoff: Backoff,
    /// The page does not answer (again) before this time of `CLOCK_MONOTONIC`.
    proven_at: Nanos,
    /// The content left by another timekeeper has not been compared with the clock yet.
    inherited: bool,
    rotation: Option<CpuRotation>,
    clocksource: Option<sys::Clocksource>,
    clocksource_read: Nanos,
    /// The result of that check.
    clocksource_is_good: bool,
    vmclock: Option<(sys::VmClock, u64)>,
}

impl<'a> Keep<'a> {
    fn new(page: &'static Page, options: Options, shared: &'a Shared) -> Self {
        let duration = |duration| Nanos(nanos(duration));
        let pace = Pace {
            horizon: duration(options.period),
            valid: duration(options.valid),
            grace: Nanos::ZERO,
            lead: LEAD,
            steepest_ppm: 500,
        };
        let (boot, process) = (sys::boot_id().unwrap_or_default(), std::process::id());
        let left = options.resume.then(|| Writer::resume(page, boot, process).ok()).flatten();
        let mut writer = left.unwrap_or_else(|| Writer::create(page, boot, process));
        let inherited = is_running(&writer);
        if !inherited {
            writer.end(&CpuCounter, LEAD_TICKS, Decline::Starting);
        }
        if options.owned
            && let Ok(thread) = robust::announce_upper_half(&page.head)
        {
            writer.own(thread);
        }
        let clocksource = sys::clocksource();
        let name = clocksource.as_ref().map(sys::Clocksource::name);
        let is_counter = name.is_some_and(counter_probe::is_the_counter);
        let made_from_counter = is_counter || name.is_some_and(guards::is_made_from_the_counter);
        let options = Options { early: options.early && is_counter, ..options };
        let mut settings = Settings::default();
        if options.early {
            settings.baseline = EARLY_BASELINE;
        }
        Self {
            options,
            shared,
            keeper: Keeper::new(settings, pace),
            writer,
            availability: Availability::new(now(), (!inherited).then_some(Decline::Starting)),
            backoff: Backoff::default(),
            proven_at: now(),
            inherited,
            rotation: if made_from_counter { None } else { CpuRotation::new() },
            clocksource,
            clocksource_read: now(),
            clocksource_is_good: true,
            vmclock: sys::VmClock::open()
                .and_then(|clock| clock.disruption_marker().map(|marker| (clock, marker))),
        }
    }

    fn answers(&self) -> bool {
        self.availability.declined.is_none()
    }

    /// Time between two comparisons.
    fn period(&self) -> Duration {
        if self.options.early && self.availability.report.looks < EARLY_LOOKS {
            let known = self.keeper.discipline.status().baseline.0.max(0).unsigned_abs();
            return Duration::from_nanos(known).max(EARLY_PERIOD).min(self.options.period);
        }
        if self.answers() && !self.inherited {
            self.options.period
        } else {
            self.options.period.min(PROVING_PERIOD)
        }
    }

    /// Compares with the kernel's clocks once, and acts on the result.
    fn look(&mut self) {
        let look = || sys::look(&CpuCounter, BRACKETS);
        let reading = self.rotation.as_mut().map_or_else(look, |rotation| rotation.on_next(look));
        let verdict = self.keeper.discipline.observe(&reading);
        let failure = self.changed_host().or(verdict.reason()).or_else(|| self.disagrees(&reading));
        match failure {
            Some(reason) => self.withdraw(reason),
            None => self.publish(&reading),
        }
        self.availability.report.looks += 1;
        let Report { looks, lines, .. } = self.availability.report;
        let pulse = Pulse { looks, lines, declined: self.availability.declined };
        *self.shared.pulse.lock().unwrap_or_else(PoisonError::into_inner) = Some(pulse);
    }

    /// Changes of this machine that the clocks do not show.
    fn changed_host(&mut self) -> Option<Decline> {
        if let Some((clock, marker)) = &mut self.vmclock
            && let Some(read) = clock.disruption_marker()
            && std::mem::replace(marker, read) != read
        {
            return Some(Decline::Disrupted);
        }
        if self.options.force {
            return None;
        }
        let at_start = self.clocksource?;
        if now().0 >= self.clocksource_read.0 + CLOCKSOURCE_PERIOD.0 {
            self.clocksource_read = now();
            self.clocksource_is_good = sys::clocksource().is_some_and(|source| {
                source == at_start || counter_probe::is_the_counter(source.name())
            });
        }
        (!self.clocksource_is_good).then_some(Decline::ClocksourceChanged)
    }

    /// Compares the line with the kernel's clock.
    fn disagrees(&mut self, reading: &Reading) -> Option<Decline> {
        let content = self.writer.current()?;
        let page = content.time(reading.ticks, PageClock::Monotonic)?;
        let width = content.line.tick.nanos(reading.half_width.0);
        let off = nanos_apart(page, reading.mono).saturating_sub_unsigned(width);
        let outside = off.saturating_sub(content.bound_at(reading.ticks).0);
        self.availability.report.outside_bound += u64::from(outside > 0);
        (outside > DISAGREEMENT).then_some(Decline::Jumped)
    }

    fn publish(&mut self, reading: &Reading) {
        if self.inherited {
            self.take_over(reading);
        }
        let time = now();
        if time < self.proven_at {
            return;
        }
        let old = self.writer.current().copied();
        let published = {
            // The old line's end is announced before the new line: a thread that loses its CPU between the two leaves
            // readers without a line.
            let _first = Precedence::ask();
            self.keeper.publish(&mut self.writer, &CpuCounter)
        };
        match published {
            Ok(false) => return,
            Ok(true) => self.availability.report.lines += 1,
            Err(_) => {
                self.availability.report.too_late += 1;
                return;
            }
        }
        self.inherited = false;
        let begin = self.writer.current().map_or(reading.ticks, |new| new.line.base);
        self.note_bound(old.as_ref(), begin);
        if let Some(old) = old.filter(|old| self.answers() && old.ends() <= reading.ticks) {
            // This thread did not get its CPU for that time, or was stopped.
            let late = old.line.tick.nanos(reading.ticks.0 - old.ends().0);
            let ended = Nanos(time.0.saturating_sub_unsigned(late));
            self.availability.turn(Some(Decline::Expired), ended);
        }
        self.availability.turn(None, time);
    }

    /// Records the largest bound that a reader has got from this content.
    fn note_bound(&mut self, content: Option<&Content>, ticks: fastclock::Ticks) {
        if let Some(content) = content.filter(|content| content.state == State::Running) {
            let bound = content.bound_at(ticks.min(content.ends())).0.unsigned_abs();
            let worst = &mut self.availability.report.worst_bound;
            *worst = (*worst).max(bound);
        }
    }

    /// Continues another timekeeper's line until there is a line of our own. Other clocks were not updated meanwhile.
    fn take_over(&mut self, reading: &Reading) {
        let Some(old) = self.writer.current().copied() else { return };
        let apart = |one, two, half_width: u64| {
            nanos_apart(one, two).unsigned_abs() > half_width.saturating_add(1_000)
        };
        let (kept, seen) = (old.offsets, reading.offsets);
        if !apart(kept.real, seen.real, reading.offsets_half_width)
            && !apart(kept.boot, seen.boot, reading.boot_half_width)
        {
            return;
        }
        let next = |line: Option<&Line>, begin: fastclock::Ticks| {
            let line = line.copied().unwrap_or(old.line);
            let bound = u64::try_from(old.bound_at(begin).0).unwrap_or(u64::MAX);
            Content {
                line: Line { base: begin, mono: line.at(begin).unwrap_or(line.mono), ..line },
                span: fastclock::Ticks(old.ends().0.saturating_sub(begin.0)),
                grace: fastclock::Ticks(0),
                bound: fastclock::Bound { at_base: bound, ..old.bound },
                offsets: seen,
                ..old
            }
        };
        if self.writer.renew(&CpuCounter, LEAD_TICKS, next).is_err() {
            self.availability.report.too_late += 1;
        }
    }

    /// Withdraws the page, so that readers ask the kernel; the counter has to prove itself again.
    fn withdraw(&mut self, reason: Decline) {
        let time = now();
        if self.answers() {
            let answered = self.availability.lasted(time);
            self.backoff.fail(reason, answered);
        } else if self.availability.declined == Some(Decline::Starting) {
            self.backoff.fail(reason, Duration::ZERO);
        }
        let (old, ticks) = (self.writer.current().copied(), look_ticks());
        self.note_bound(old.as_ref(), ticks);
        if self.availability.declined != Some(reason) {
            self.writer.end(&CpuCounter, LEAD_TICKS, reason);
        }
        self.inherited = false;
        self.keeper.discipline.reset();
        self.proven_at = Nanos(time.0.saturating_add(nanos(self.backoff.penalty())));
        self.availability.turn(Some(reason), time);
    }

    fn end(mut self) -> Report {
        let (old, ticks) = (self.writer.current().copied(), look_ticks());
        self.note_bound(old.as_ref(), ticks);
        if !self.options.bridge {
            self.writer.end(&CpuCounter, LEAD_TICKS, Decline::WriterStopped);
        }
        if self.options.owned {
            // This thread ends normally, so the kernel must not mark the word.
            self.writer.own(0);
        }
        self.availability.report.cpu_time =
            Duration::from_nanos(tsc::now(ClockId::ThreadCputime).0.max(0).unsigned_abs());
        self.availability.finish(now())
    }
}

fn look_ticks() -> fastclock::Ticks {
    use fastclock::page::Counter as _;
    CpuCounter.ordered()
}

fn is_running(writer: &Writer<'_>) -> bool {
    let content = writer.current();
    content.is_some_and(|old| old.state == State::Running && old.ends() > look_ticks())
}

fn nanos_apart(one: Nanos, two: Nanos) -> i64 {
    i64::try_from(one.0.abs_diff(two.0)).unwrap_or(i64::MAX)
}
