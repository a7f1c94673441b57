//! Keeps a page up to date: takes readings, publishes lines.

use crate::discipline::{Discipline, Estimate, Settings};
use crate::line::{Bound, Line, TickLength};
use crate::page::{Content, Counter, State, TooLate, Writer};
use crate::units::{Nanos, Ticks};

/// If a page is behind the kernel's clock by more than this, the new line steps forward at once;
/// readers see time leap by the page's error. A smaller lag, and any lead, is corrected by a
/// steeper or flatter line, so that no interval is wrong by more than [`Pace::steepest_ppm`].
///
/// A slew of 500 ppm for 2 s without a renewal makes a page this far behind.
pub const STEP: Nanos = Nanos(1_000_000);

/// Largest error of a line at its end, ns, if it corrects a smaller difference at the horizon and
/// then overshoots.
const OVERSHOOT: u128 = 10_000;

/// Rounding error of a comparison, ns: the page's and the kernel's times are both rounded down.
const ROUNDING: u64 = 2;

/// Durations and limits for new lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Time in which a difference from the kernel's clock is corrected: the time to the next
    /// renewal.
    pub horizon: Nanos,
    /// Time for which a line holds.
    pub valid: Nanos,
    /// Additional time for which a line holds for readers that cannot renew it.
    pub grace: Nanos,
    /// Time by which a line is announced ahead.
    pub lead: Nanos,
    /// Largest deviation of a line's rate from the kernel clock's rate, to correct a difference, in
    /// parts per million.
    pub steepest_ppm: u32,
}

/// Follows the kernel's clock and publishes lines.
#[derive(Clone, Debug)]
pub struct Keeper {
    /// Knowledge of the kernel's clock.
    pub discipline: Discipline,
    /// Durations and limits for new lines.
    pub pace: Pace,
}

impl Keeper {
    /// Begins without any knowledge.
    pub const fn new(settings: Settings, pace: Pace) -> Self {
        Self { discipline: Discipline::new(settings), pace }
    }

    /// Publishes a line from the current estimate; false if there is no estimate yet.
    ///
    /// # Errors
    ///
    /// See [`Writer::renew`].
    pub fn publish(
        &self,
        writer: &mut Writer<'_>,
        counter: &impl Counter,
    ) -> Result<bool, TooLate> {
        let Some(estimate) = self.discipline.estimate() else { return Ok(false) };
        let lead = estimate.tick.ticks(self.pace.lead.0.unsigned_abs());
        writer.renew(counter, lead, |old, begin| content(&estimate, &self.pace, old, begin))?;
        Ok(true)
    }
}

/// The content whose line begins at `begin`, the end of the old line.
///
/// At every tick its bound covers the distance from the kernel's clock, as far as the estimate's
/// bound does: the estimate's uncertainty, the difference still to be corrected, and rounding.
pub fn content(estimate: &Estimate, pace: &Pace, old: Option<&Line>, begin: Ticks) -> Content {
    let (time, age) = extrapolate(estimate, begin);
    // Without a previous line, begin at the kernel's time: a reader that already got an answer from
    // the kernel waits until the page has reached it, see `Trust`.
    let reached = old.and_then(|old| old.at(begin)).unwrap_or(time);
    let leap = time.0.saturating_sub(reached.0) > STEP.0;
    let start = if leap { time } else { reached };
    let behind = time.0.saturating_sub(start.0);
    let span = estimate.tick.ticks(pace.valid.0.max(0).unsigned_abs());
    let grace = estimate.tick.ticks(pace.grace.0.max(0).unsigned_abs());
    let wide = estimate.tick.as_wide();
    let lasts = u128::from(span.0.saturating_add(grace.0)).max(1);
    let correction = correction(estimate, pace, behind, lasts);
    let steered = if behind < 0 { wide - correction } else { wide + correction };
    // After the horizon the line overshoots. Its error in the other direction exceeds the error at
    // the base only after twice the horizon.
    let overshoot = correction.saturating_sub((u128::from(behind.unsigned_abs()) << 65) / lasts);
    let growth = u128::from(estimate.growth).saturating_add(overshoot);
    // Just before the base the old line is in use; its slope may be different.
    let bend = old.map_or(0, |old| old.tick.as_wide().abs_diff(wide));
    let before = TickLength::from_wide(bend).nanos(age);
    let bound = Bound { at_base: estimate.bound, growth: estimate.growth };
    Content {
        line: Line { base: begin, mono: start, tick: TickLength::from_wide(steered) },
        span,
        grace,
        previous: None,
        offsets: estimate.offsets,
        bound: Bound {
            at_base: bound
                .after(age)
                .saturating_add(time.0.saturating_sub(reached.0).unsigned_abs())
                .saturating_add(before)
                .saturating_add(ROUNDING),
            growth: u64::try_from(growth).unwrap_or(u64::MAX),
        },
        state: State::Running,
    }
}

/// Difference of the line's tick from the kernel's, 2^-64 ns, that corrects `behind` by the
/// horizon.
///
/// The correction takes longer if the line, which holds beyond the horizon, would be wrong at its
/// end by more than [`OVERSHOOT`] and by more than now: a writer may lose its CPU for that long.
fn correction(estimate: &Estimate, pace: &Pace, behind: i64, lasts: u128) -> u128 {
    let wide = estimate.tick.as_wide();
    let limit = (wide / 1_000_000).saturating_mul(u128::from(pace.steepest_ppm)).min(wide / 2);
    let horizon = estimate.tick.ticks(pace.horizon.0.max(1).unsigned_abs()).0.max(1);
    let behind = u128::from(behind.unsigned_abs());
    let flat = (behind.saturating_mul(2).max(OVERSHOOT) << 64) / lasts;
    ((behind << 64) / u128::from(horizon)).min(limit).min(flat)
}

/// The kernel's time at a tick near the estimate's, and the distance in ticks.
fn extrapolate(estimate: &Estimate, ticks: Ticks) -> (Nanos, u64) {
    let ahead = ticks >= estimate.at;
    let age = ticks.0.abs_diff(estimate.at.0);
    let nanos = i64::try_from(estimate.tick.nanos(age)).unwrap_or(i64::MAX);
    let sign = if ahead { 1 } else { -1 };
    (Nanos(estimate.mono.0.saturating_add(sign * nanos)), age)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::line::Offsets;
    use crate::page::PageClock;
    use proptest::prelude::*;

    pub(crate) const PACE: Pace = Pace {
        horizon: Nanos(100_000_000),
        valid: Nanos(3_000_000_000),
        grace: Nanos(500_000_000),
        lead: Nanos(20_000),
        steepest_ppm: 500,
    };

    fn estimate(hz: u64) -> Estimate {
        let tick = TickLength::from_elapsed(Ticks(hz), Nanos(1_000_000_000)).unwrap();
        Estimate {
            at: Ticks(1 << 40),
            mono: Nanos(1 << 42),
            tick,
            bound: 30,
            growth: u64::try_from(tick.as_wide() / 2_000_000).unwrap(),
            offsets: Offsets::default(),
        }
    }

    /// A line that is ahead of the kernel's time by `off` ns at `begin`.
    fn old_line(estimate: &Estimate, begin: Ticks, off: i64, ppm: i64) -> Line {
        let wide = estimate.tick.as_wide();
        let bend = wide / 1_000_000 * u128::from(ppm.unsigned_abs());
        let tick = TickLength::from_wide(if ppm < 0 { wide - bend } else { wide + bend });
        let base = Ticks(begin.0 - 1_000_000);
        let (time, _) = extrapolate(estimate, begin);
        let from_base = i64::try_from(tick.nanos(1_000_000)).unwrap();
        Line { base, mono: Nanos(time.0 + off - from_base), tick }
    }

    #[test]
    fn without_a_line_before_it_begins_at_the_kernels_time() {
        let estimate = estimate(2_500_000_000);
        let content = content(&estimate, &PACE, None, estimate.at);
        let line = Line { base: estimate.at, mono: estimate.mono, tick: estimate.tick };
        assert_eq!(content.line, line);
        assert!((30..40).contains(&content.bound.at_base), "{content:?}");
    }

    #[test]
    fn what_is_far_behind_is_set_forward_and_what_is_ahead_never_back() {
        let estimate = estimate(2_500_000_000);
        let begin = Ticks(estimate.at.0 + 50_000);
        let (time, _) = extrapolate(&estimate, begin);
        for (off, start) in [(-STEP.0 - 2, 0), (-STEP.0 + 2, 2 - STEP.0), (STEP.0 * 9, STEP.0 * 9)]
        {
            let old = old_line(&estimate, begin, off, 0);
            let content = content(&estimate, &PACE, Some(&old), begin);
            assert!((content.line.mono.0 - time.0 - start).abs() <= 1, "{off}: {content:?}");
            assert!(Some(content.line.mono) >= old.at(begin));
        }
    }

    proptest! {
        #[test]
        fn the_bound_covers_what_the_estimate_leaves_open(
            hz in prop_oneof![Just(54_000_000_u64), 500_000_000..6_000_000_000_u64],
            off in prop_oneof![-100..100_i64, -2_000_000..2_000_000_i64],
            ppm in -500..500_i64,
            late in 0..1_000_000_000_u64,
            passed in 0..3_500_000_000_u64,
            drift in -500_i64..=500,
            wrong in -30_i64..=30,
        ) {
            let estimate = estimate(hz);
            let begin = Ticks(estimate.at.0 + estimate.tick.ticks(late).0);
            let old = old_line(&estimate, begin, off, ppm);
            let content = content(&estimate, &PACE, Some(&old), begin);
            let ticks = estimate.tick.ticks(passed).0.min(content.ends().0 - begin.0 - 1);
            let now = Ticks(begin.0 + ticks);
            // The kernel's clock runs `drift` parts per billion faster than estimated.
            let (time, age) = extrapolate(&estimate, now);
            let drifted = i128::from(estimate.tick.nanos(age)) * i128::from(drift) / 1_000_000_000;
            let truth = i128::from(time.0 + wrong) + drifted;
            let said = content.time(now, PageClock::Monotonic).unwrap();
            let error = (i128::from(said.0) - truth).abs();
            let bound = i128::from(content.bound_at(now).0);
            prop_assert!(error <= bound, "{error} {bound} {content:?}");
        }

        #[test]
        fn a_small_difference_is_gone_by_the_next_renewal(off in -280..280_i64) {
            let [_, at_renewal, _] = errors(off);
            prop_assert!(at_renewal.abs() <= 2, "{at_renewal}");
        }

        #[test]
        fn a_line_that_is_not_renewed_ends_no_worse_than_it_began(off in -900_000..900_000_i64) {
            let [begin, at_renewal, end] = errors(off);
            prop_assert!(at_renewal.abs() <= begin.abs() + 2);
            prop_assert!(end.abs() <= begin.abs().max(10_000) + 2, "{begin} {end}");
            prop_assert!(off.abs() < 6_000 || at_renewal.abs() < begin.abs());
        }
    }

    /// Lead of a line in ns at its beginning, at the next renewal, and at its end, if the previous
    /// line was ahead by `off`.
    fn errors(off: i64) -> [i64; 3] {
        let estimate = estimate(2_500_000_000);
        let begin = Ticks(estimate.at.0 + 50_000);
        let content = content(&estimate, &PACE, Some(&old_line(&estimate, begin, off, 0)), begin);
        let renewal = Ticks(begin.0 + estimate.tick.ticks(100_000_000).0);
        [begin, renewal, Ticks(content.ends().0 - 1)].map(|ticks| {
            let said = content.time(ticks, PageClock::Monotonic).unwrap();
            said.0 - extrapolate(&estimate, ticks).0.0
        })
    }
}
