//! Follows the kernel's clock: computes a rate, a time and a bound from readings of the counter and
//! the clock. Pure code without system calls.
//!
//! # The promise of the bound
//!
//! Between two readings the kernel's clock may change its rate by no more than the *allowance*, 0.5
//! ppm by default. While it does not, the kernel's clock is always within the bound of the time
//! extrapolated from an [`Estimate`].
//!
//! The kernel may change its rate by more, as when an NTP daemon begins to slew by 500 ppm. Then
//! the error is at most the bound plus the change times the time since the reading that the line
//! was made from (50 us after 100 ms of 500 ppm), until the change is found. It is found at the
//! second tight reading after it, or when it has moved the clock by more than the width of two
//! brackets, whichever is later. The first reading that disagrees by more than the bound reports
//! the change ([`Step::Slewed`]; [`Status::exceeded`] gives the excess). The allowance is then
//! raised to twice the change and halved every 30 s, because the slew will end. Once the change is
//! found, the bound holds again.
//!
//! # Method
//!
//! * A reading gives an interval for the clock, and the extrapolation gives another. If they do not
//!   overlap, the rate has changed or the clock has jumped. Otherwise the narrower interval is
//!   kept. A bad reading (its thread lost the CPU in the bracket) is a wide interval and has no
//!   weight.
//! * The rate is taken between the newest reading and an older one; every such pair limits it.
//!   Readings are kept for as long as one rate fits all of them.

mod baseline;
mod constant;

use crate::decline::Decline;
use crate::line::{Offsets, TickLength};
use crate::units::{Nanos, Ticks};
use baseline::{Baseline, Rate};
use constant::Constants;

/// The largest change of rate by the kernel: 500 ppm by frequency, 500 ppm by `adjtime`.
///
/// # References
///
/// `MAXFREQ`, `MAX_TICKADJ` in include/linux/timex.h and kernel/time/ntp.c (Linux 6.18)
const SLEW_PPB: u32 = 1_000_000;
/// Time after which the raised allowance is halved, ns.
const CAUTION_HALVES: i64 = 30_000_000_000;
/// Time over which a rate is measured to 0.3 ppm, if a look is as tight as 30 ns.
const BASELINE: Nanos = Nanos(200_000_000);
/// Limit of the operands of additions and subtractions, ns: 73 years.
const LARGEST: i64 = 1 << 61;

/// One reading of the kernel's clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The counter, in the middle between the values before and after the clock was read.
    pub ticks: Ticks,
    /// Largest distance, before or after, of the clock read from that middle.
    pub half_width: Ticks,
    /// `CLOCK_MONOTONIC`.
    pub mono: Nanos,
    /// The other clocks.
    pub offsets: Offsets,
    /// Largest error of the offset of `CLOCK_REALTIME`, ns. The offset of `CLOCK_TAI` is a whole
    /// number of seconds more.
    pub offsets_half_width: u64,
    /// Largest error of the offset of `CLOCK_BOOTTIME`, ns.
    pub boot_half_width: u64,
}

/// Verdict of a reading about the time before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// As expected.
    Steady,
    /// The kernel's clock has changed its rate by more than the allowance, as under an NTP daemon:
    /// the new rate is followed.
    Slewed,
    /// `CLOCK_REALTIME` was set by so much (zero: only its distance from `CLOCK_TAI` changed):
    /// followed; to be published at once. The monotonic clocks are as expected.
    Stepped(Nanos),
    /// The clock is ahead of (above zero) or behind the expected time by so much that the clock or
    /// the counter has jumped: all earlier readings are forgotten.
    Jumped(Nanos),
    /// The machine was suspended for so long: all earlier readings are forgotten.
    Suspended(Nanos),
    /// The clock has advanced, but not the counter: all earlier readings are forgotten.
    CounterStopped,
    /// The counter is behind its last value: all earlier readings are forgotten.
    CounterBackwards,
}

impl Step {
    /// The reason to end a page until the counter is measured anew; `None` if the page may go on.
    pub const fn reason(self) -> Option<Decline> {
        match self {
            Self::Steady | Self::Slewed | Self::Stepped(_) => None,
            Self::Jumped(_) => Some(Decline::Jumped),
            Self::Suspended(_) => Some(Decline::Suspended),
            Self::CounterStopped => Some(Decline::CounterStopped),
            Self::CounterBackwards => Some(Decline::CounterBackwards),
        }
    }
}

/// Constants of the discipline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Shortest time over which a first rate is measured, from at least three readings.
    pub baseline: Nanos,
    /// Longest time over which a rate is measured.
    pub longest: Nanos,
    /// Change of the kernel clock's rate between two readings that the bound covers, in parts per
    /// billion.
    pub allowance_ppb: u32,
    /// A difference from the expected time that is a jump and no slew, however old the last
    /// reading.
    pub jump: Nanos,
    /// Largest distance of two readings of the kernel's clock from a straight line although the
    /// clock runs evenly: the step of its clocksource, the few nanoseconds by which
    /// the kernel moves its multiplier up and down, and the measured warp of the CPUs' counters.
    pub noise: Nanos,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            baseline: BASELINE,
            longest: Nanos(60_000_000_000),
            allowance_ppb: 500,
            jump: Nanos(10_000_000),
            noise: Nanos(5),
        }
    }
}

/// The time of the kernel's clock at a tick, with rate and bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// Tick of the last reading.
    pub at: Ticks,
    /// `CLOCK_MONOTONIC` at `at`.
    pub mono: Nanos,
    /// Length of a tick.
    pub tick: TickLength,
    /// Largest error of `mono` and the other clocks, ns.
    pub bound: u64,
    /// Growth of the error per extrapolated tick, 2^-64 ns.
    pub growth: u64,
    /// The other clocks.
    pub offsets: Offsets,
}

/// Quality of the knowledge of the kernel's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Status {
    /// Ticks per second of `CLOCK_MONOTONIC`; 0 if unknown.
    pub hz: f64,
    /// The time over which the rate was measured.
    pub baseline: Nanos,
    /// Distance of the last [`Step::Slewed`] reading outside of the bound.
    pub exceeded: Nanos,
}

/// The kernel's clock at a tick.
#[derive(Clone, Copy, Debug)]
struct Fix {
    ticks: Ticks,
    mono: i64,
    bound: i64,
    constants: Constants,
}

/// Follows the kernel's clock.
#[derive(Clone, Debug)]
pub struct Discipline {
    settings: Settings,
    baseline: Baseline,
    fix: Option<Fix>,
    proven: bool,
    caution: Caution,
    exceeded: Nanos,
}

/// The allowance, raised after a change of rate.
#[derive(Clone, Copy, Debug)]
struct Caution {
    ppb: u32,
    since: i64,
}

impl Caution {
    fn at(self, mono: i64) -> u32 {
        let halved = mono.saturating_sub(self.since).max(0) / CAUTION_HALVES;
        u32::try_from(halved).ok().and_then(|halved| self.ppb.checked_shr(halved)).unwrap_or(0)
    }
}

impl Discipline {
    /// Begins without any knowledge.
    pub const fn new(settings: Settings) -> Self {
        Self {
            settings,
            baseline: Baseline::new(),
            fix: None,
            proven: false,
            caution: Caution { ppb: 0, since: 0 },
            exceeded: Nanos::ZERO,
        }
    }

    /// Takes a reading in.
    pub fn observe(&mut self, reading: &Reading) -> Step {
        let verdict = match self.fix {
            None => {
                self.begin(reading, Constants::new(reading));
                Step::Steady
            }
            Some(fix) => self.judge(fix, reading),
        };
        if verdict.reason().is_some() {
            let known =
                self.fix.map(|fix| fix.constants).filter(|known| known.asleep(reading).is_none());
            let mut constants = known.unwrap_or(Constants::new(reading));
            constants.take(reading);
            self.reset();
            self.begin(reading, constants);
        }
        verdict
    }

    /// The estimate, once three readings or more span the baseline; `None` until then, and after
    /// each verdict that forgets the readings.
    pub fn estimate(&self) -> Option<Estimate> {
        let rate = self.baseline.rate.filter(|_| self.proven)?;
        let fix = self.fix?;
        let growth = rate.doubt.saturating_add(share_ppb(rate.tick, self.allowance()));
        let bound = fix.bound.saturating_add(self.settings.noise.0.max(0)).max(0).unsigned_abs();
        Some(Estimate {
            at: fix.ticks,
            mono: Nanos(fix.mono),
            tick: TickLength::from_wide(rate.tick),
            bound: bound.saturating_add(fix.constants.doubt()),
            growth: u64::try_from(growth).unwrap_or(u64::MAX),
            offsets: fix.constants.offsets(),
        })
    }

    /// Quality of the knowledge of the kernel's clock.
    pub fn status(&self) -> Status {
        Status {
            hz: self.baseline.rate.map_or(0.0, |rate| 1e9 / as_nanos(rate.tick)),
            baseline: self.baseline.span(),
            exceeded: self.exceeded,
        }
    }

    /// The constants given to [`new`](Self::new).
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Forgets everything but what was exceeded.
    pub fn reset(&mut self) {
        *self = Self { exceeded: self.exceeded, ..Self::new(self.settings) };
    }

    /// Takes in the first reading.
    fn begin(&mut self, reading: &Reading, constants: Constants) {
        // The length of a tick is not known yet. A tick is shorter than a microsecond on every
        // counter in use, so this width in ticks is only too large; `measure` converts it with the
        // rate.
        let half = i64::try_from(reading.half_width.0).unwrap_or(LARGEST).min(LARGEST);
        self.baseline.push(reading, half, &self.settings);
        let (ticks, mono) = (reading.ticks, reading.mono.0);
        self.fix = Some(Fix { ticks, mono, bound: half, constants });
    }

    fn judge(&mut self, mut fix: Fix, reading: &Reading) -> Step {
        if let Some(asleep) = fix.constants.asleep(reading) {
            return Step::Suspended(asleep);
        }
        let passed = reading.mono.0.saturating_sub(fix.mono);
        if reading.ticks < fix.ticks {
            return Step::CounterBackwards;
        }
        if reading.ticks == fix.ticks {
            let same = passed.abs() <= fix.bound.saturating_add(self.settings.noise.0);
            return if same { Step::Steady } else { Step::CounterStopped };
        }
        let stepped = fix.constants.take(reading);
        let followed = match self.baseline.rate {
            Some(rate) => self.follow(fix, rate, reading),
            None => self.measure(fix, reading),
        };
        match (followed, stepped) {
            (Step::Steady | Step::Slewed, Some(by)) => Step::Stepped(by),
            _ => followed,
        }
    }

    /// Takes in the second reading, which gives a first rate.
    fn measure(&mut self, fix: Fix, reading: &Reading) -> Step {
        let passed = reading.mono.0.saturating_sub(fix.mono);
        let ticks = reading.ticks.0.saturating_sub(fix.ticks.0).max(1);
        if passed <= 0 {
            return Step::Jumped(Nanos(passed));
        }
        let tick = (u128::from(passed.unsigned_abs()) << 64) / u128::from(ticks);
        // The width of the first reading was in ticks.
        let first = scaled(Ticks(fix.bound.unsigned_abs()), tick).saturating_add(1);
        self.baseline.narrow_first(first.saturating_add(self.settings.noise.0));
        let half = self.half_width(reading, tick);
        self.baseline.push(reading, half, &self.settings);
        self.fix = Some(Fix { ticks: reading.ticks, mono: reading.mono.0, bound: half, ..fix });
        Step::Steady
    }

    /// Compares a reading with the expected time, and takes it in.
    fn follow(&mut self, fix: Fix, rate: Rate, reading: &Reading) -> Step {
        let age = Ticks(reading.ticks.0.saturating_sub(fix.ticks.0));
        let expected = fix.mono.saturating_add(scaled(age, rate.tick));
        let growth = rate.doubt.saturating_add(share_ppb(rate.tick, self.allowance()));
        let doubt = fix.bound.saturating_add(scaled(age, growth)).saturating_add(2);
        let half = self.half_width(reading, rate.tick);
        let off = reading.mono.0.saturating_sub(expected);
        let excess = off.saturating_abs().saturating_sub(doubt).saturating_sub(half);
        if excess > 0 {
            return self.diverge(fix, rate, reading, off, excess, half);
        }
        // The clock was read halfway into its bracket, or anywhere in it if the bracket is wider
        // than necessary.
        let slack = half.saturating_sub(self.baseline.tightest().min(half));
        let near = |by: i64| (reading.mono.0.saturating_sub(by), reading.mono.0.saturating_add(by));
        let (low, high) = near(slack);
        let toward = expected.clamp(low, high).saturating_sub(expected);
        let mono = expected.saturating_add(weighed(toward, scaled(age, growth), half));
        // Each of the two intervals holds by itself. Their intersection would be narrower, but
        // wrong as soon as the clock has changed its rate by less than can be detected.
        let read = half.saturating_add(mono.abs_diff(reading.mono.0) as i64);
        let bound = read.min(doubt.saturating_add(mono.abs_diff(expected) as i64));
        self.fix = Some(Fix { ticks: reading.ticks, mono, bound, ..fix });
        if let Some(ppb) = self.baseline.push(reading, half, &self.settings) {
            self.raise_allowance(ppb, reading.mono.0);
        }
        self.prove();
        Step::Steady
    }

    /// Takes in a reading that is outside of the expected interval.
    fn diverge(
        &mut self,
        fix: Fix,
        rate: Rate,
        reading: &Reading,
        off: i64,
        excess: i64,
        half: i64,
    ) -> Step {
        let age = Ticks(reading.ticks.0.saturating_sub(fix.ticks.0));
        if excess > scaled(age, share_ppb(rate.tick, SLEW_PPB))
            || off.saturating_abs() > self.settings.jump.0
        {
            return Step::Jumped(Nanos(off));
        }
        let off = u128::from(off.unsigned_abs()) << 64;
        self.raise_allowance(in_ppb(off / u128::from(age.0.max(1)), rate.tick), reading.mono.0);
        self.baseline.forget_older();
        self.baseline.push(reading, half, &self.settings);
        self.fix = Some(Fix { ticks: reading.ticks, mono: reading.mono.0, bound: half, ..fix });
        self.exceeded = Nanos(excess);
        self.prove();
        Step::Slewed
    }

    fn prove(&mut self) {
        // Later rates are compared with this one, so it must be well known.
        self.proven |= self.baseline.len() >= 3 && self.baseline.span() >= self.settings.baseline;
    }

    fn half_width(&self, reading: &Reading, tick: u128) -> i64 {
        scaled(reading.half_width, tick)
            .saturating_add(1)
            .saturating_add(self.settings.noise.0.max(0))
    }

    fn allowance(&self) -> u32 {
        let now = self.fix.map_or(0, |fix| fix.mono);
        self.settings.allowance_ppb.max(self.caution.at(now))
    }

    fn raise_allowance(&mut self, change_ppb: u32, now: i64) {
        let ppb = change_ppb.saturating_mul(2).max(self.caution.at(now));
        self.caution = Caution { ppb, since: now };
    }
}

/// Part of a difference from the expected time that is believed: all of it if the brackets are
/// tighter than the possible drift, an eighth if they are much wider.
fn weighed(difference: i64, drift: i64, half_width: i64) -> i64 {
    let share = drift.saturating_mul(64) / half_width.max(1);
    difference.saturating_mul(share.clamp(8, 64)) / 64
}

/// Ticks in nanoseconds, rounded down; saturates at 73 years.
fn scaled(ticks: Ticks, tick: u128) -> i64 {
    let whole = u128::from(ticks.0).saturating_mul(tick >> 64);
    let fraction = (u128::from(ticks.0) * (tick & u128::from(u64::MAX))) >> 64;
    i64::try_from(whole.saturating_add(fraction)).unwrap_or(LARGEST).min(LARGEST)
}

/// `ppb` parts per billion of `wide`, rounded up.
fn share_ppb(wide: u128, ppb: u32) -> u128 {
    (wide / 1_000_000_000).saturating_add(1).saturating_mul(u128::from(ppb))
}

/// `part` in parts per billion of `whole`, rounded up; saturates.
fn in_ppb(part: u128, whole: u128) -> u32 {
    let ppb = part / (whole / 1_000_000_000).max(1);
    u32::try_from(ppb.saturating_add(1)).unwrap_or(u32::MAX)
}

fn as_nanos(wide: u128) -> f64 {
    wide as f64 / (1_u128 << 64) as f64
}
