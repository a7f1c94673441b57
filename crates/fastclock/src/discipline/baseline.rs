//! The readings from which the rate is measured.

use super::{Reading, scaled, share_ppb};
use crate::units::{Nanos, Ticks};

/// Number of readings kept: dense in the recent past, sparser the older they are.
const KEPT: usize = 24;
/// A reading this many times wider than the tightest tells nothing new about the rate.
const WIDE: i64 = 4;

/// The part of a reading that matters for the rate.
#[derive(Clone, Copy, Debug, Default)]
struct Anchor {
    ticks: u64,
    mono: i64,
    half: i64,
}

/// The length of a tick, in nanoseconds with 64 fraction bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rate {
    pub(super) tick: u128,
    /// Largest error of `tick`, if the clock ran evenly over the baseline.
    pub(super) doubt: u128,
}

/// Readings of a time in which the clock ran evenly.
#[derive(Clone, Debug)]
pub(super) struct Baseline {
    anchors: [Anchor; KEPT],
    count: usize,
    pub(super) rate: Option<Rate>,
}

impl Baseline {
    pub(super) const fn new() -> Self {
        let none = Anchor { ticks: 0, mono: 0, half: 0 };
        Self { anchors: [none; KEPT], count: 0, rate: None }
    }

    fn kept(&self) -> &[Anchor] {
        self.anchors.get(..self.count).unwrap_or_default()
    }

    /// Half the width of the tightest reading, ns.
    pub(super) fn tightest(&self) -> i64 {
        self.kept().iter().map(|anchor| anchor.half).min().unwrap_or(0)
    }

    /// The time between the first and the last reading.
    pub(super) fn span(&self) -> Nanos {
        match self.kept() {
            [first, .., last] => Nanos(last.mono.saturating_sub(first.mono)),
            _ => Nanos::ZERO,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Keeps only the last reading: the clock had another rate before it.
    pub(super) fn forget_older(&mut self) {
        self.drop_first(self.count.saturating_sub(1));
    }

    /// Sets the half width of the first reading in ns, once there is a rate.
    pub(super) fn narrow_first(&mut self, half: i64) {
        if let Some(first) = self.anchors.first_mut() {
            first.half = half;
        }
    }

    /// Takes in a reading of half width `half` ns, and measures the rate again. If the clock did not
    /// run evenly, older readings are dropped, and the result is the certain change of its rate, in
    /// parts per billion.
    pub(super) fn push(
        &mut self,
        reading: &Reading,
        half: i64,
        settings: &super::Settings,
    ) -> Option<u32> {
        let anchor = Anchor { ticks: reading.ticks.0, mono: reading.mono.0, half };
        if self.kept().last().is_some_and(|last| last.ticks >= anchor.ticks)
            || self.is_idle(&anchor, settings)
        {
            return None;
        }
        if self.count == KEPT {
            self.thin(anchor.ticks);
        }
        if let Some(place) = self.anchors.get_mut(self.count) {
            *place = anchor;
            self.count += 1;
        }
        let too_old =
            |second: &Anchor| anchor.mono.saturating_sub(second.mono) >= settings.longest.0;
        while self.count > 2 && self.kept().get(1).is_some_and(too_old) {
            self.drop_first(1);
        }
        self.measure()
    }

    /// Whether the reading is too wide to tell anything new: it is wider than the others, and the
    /// time since the last one is too short for the allowance to exceed its width.
    fn is_idle(&self, anchor: &Anchor, settings: &super::Settings) -> bool {
        let (Some(rate), Some(last)) = (self.rate, self.kept().last()) else { return false };
        let passed = anchor.ticks.saturating_sub(last.ticks);
        let allowed = scaled(Ticks(passed), share_ppb(rate.tick, settings.allowance_ppb));
        anchor.half > self.tightest().saturating_mul(WIDE) && anchor.half > allowed
    }

    fn drop_first(&mut self, dropped: usize) {
        let dropped = dropped.min(self.count);
        self.anchors.copy_within(dropped..self.count, 0);
        self.count -= dropped;
    }

    /// Drops the least useful reading: old, wide and near its neighbours.
    fn thin(&mut self, now: u64) {
        let tightest = u128::from(self.tightest().max(1).unsigned_abs());
        let missed = |three: &[Anchor]| match three {
            [before, this, after] => {
                let gap = u128::from(after.ticks.saturating_sub(before.ticks)) << 24;
                let age = u128::from(now.saturating_sub(this.ticks)).max(1);
                (gap / age).saturating_mul(tightest) / u128::from(this.half.max(1).unsigned_abs())
            }
            _ => u128::MAX,
        };
        let scores = self.kept().windows(3).map(missed).enumerate();
        if let Some((index, _)) = scores.min_by_key(|(_, score)| *score) {
            self.anchors.copy_within(index + 2..self.count, index + 1);
            self.count -= 1;
        }
    }

    /// Every pair of the last reading and an older one limits the rate to an interval. The clock
    /// ran evenly for as long as all the intervals overlap.
    fn measure(&mut self) -> Option<u32> {
        let (last, older) = self.kept().split_last()?;
        let (mut low, mut high) = (0, u128::MAX);
        let mut best = None;
        let mut cut = 0;
        for (index, anchor) in older.iter().enumerate().rev() {
            let pair = Pair::of(anchor, last);
            if pair.low.max(low) > pair.high.min(high) {
                cut = index + 1;
                break;
            }
            (low, high) = (low.max(pair.low), high.min(pair.high));
            if best.is_none_or(|best: Pair| pair.high - pair.low < best.high - best.low) {
                best = Some(pair);
            }
        }
        let best = best?;
        // A wide bracket tells less about the moment of the clock read inside it: the known rate
        // may stay.
        let wide = u128::from(last.half.saturating_sub(self.tightest()).max(0).unsigned_abs());
        let slack = (wide << 64) / u128::from(best.ticks);
        let known = self.rate.map_or(best.center, |rate| rate.tick);
        let tick = known
            .clamp(best.center.saturating_sub(slack), best.center.saturating_add(slack))
            .clamp(low, high);
        let rate = Rate { tick, doubt: (high - tick).max(tick - low) };
        let change = self.rate.filter(|_| cut > 0).map(|before| certain_change(before, rate));
        self.rate = Some(rate);
        self.drop_first(cut);
        change
    }
}

/// The rate by two readings.
#[derive(Clone, Copy)]
struct Pair {
    ticks: u64,
    low: u128,
    center: u128,
    high: u128,
}

impl Pair {
    fn of(first: &Anchor, last: &Anchor) -> Self {
        let ticks = last.ticks.saturating_sub(first.ticks).max(1);
        let passed = last.mono.saturating_sub(first.mono);
        let width = last.half.saturating_add(first.half);
        let rate = |nanos: i64| {
            let nanos = u128::from(nanos.max(0).unsigned_abs());
            (nanos << 64) / u128::from(ticks)
        };
        Self {
            ticks,
            low: rate(passed.saturating_sub(width)),
            center: rate(passed),
            high: rate(passed.saturating_add(width)).saturating_add(1),
        }
    }
}

fn certain_change(before: Rate, after: Rate) -> u32 {
    let change = before.tick.abs_diff(after.tick).saturating_sub(after.doubt);
    super::in_ppb(change, before.tick)
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::super::Settings;
    use super::*;
    use std::vec::Vec;

    fn reading(ticks: u64, mono: i64) -> Reading {
        Reading { ticks: Ticks(ticks), mono: Nanos(mono), ..Reading::default() }
    }

    /// A counter of 2 GHz, read every `millis` milliseconds.
    fn after(count: u64, millis: u64) -> Baseline {
        let mut baseline = Baseline::new();
        for index in 0..=count {
            let nanos = index * millis * 1_000_000;
            let reading = reading(2 * nanos, nanos as i64);
            assert_eq!(baseline.push(&reading, 30, &Settings::default()), None);
        }
        baseline
    }

    #[test]
    fn readings_are_dense_where_they_are_new() {
        let baseline = after(590, 100);
        assert_eq!(baseline.span(), Nanos(59_000_000_000));
        let kept = baseline.kept();
        assert!(kept.len() >= KEPT - 1, "{kept:?}");
        let gaps: Vec<_> = kept.windows(2).map(|pair| pair[1].ticks - pair[0].ticks).collect();
        assert!(gaps[0] > 8 * gaps[gaps.len() - 1], "{gaps:?}");
        let doubt = baseline.rate.map_or(0, |rate| super::super::in_ppb(rate.doubt, rate.tick));
        assert!((1..=3).contains(&doubt), "{doubt}");
    }

    #[test]
    fn nothing_older_than_the_longest_baseline_is_kept() {
        assert!((58..=66).contains(&(after(5_000, 100).span().0 / 1_000_000_000)));
    }

    #[test]
    fn another_rate_drops_what_was_before() {
        let mut baseline = after(300, 100);
        let before = baseline.span();
        let mut mono = baseline.kept().last().map_or(0, |last| last.mono);
        let cuts = (1..=20_u64).filter(|index| {
            mono += 100_001_000; // 10 ppm more: 1 us each
            let reading = reading((300 + index) * 200_000_000, mono);
            baseline.push(&reading, 30, &Settings::default()).is_some()
        });
        assert_eq!(cuts.count(), 1);
        assert!(baseline.span() < before && baseline.span() >= Nanos(2_000_000_000));
    }

    #[test]
    fn a_wide_reading_says_nothing_of_the_rate() {
        let mut baseline = after(20, 100);
        let rate = baseline.rate;
        let reading = reading(21 * 200_000_000, 2_100_400_000);
        assert_eq!(baseline.push(&reading, 500_000, &Settings::default()), None);
        assert_eq!(baseline.rate, rate);
    }
}
