//! The arithmetic on one decision of the watchdog: the counts of each clock between two checks.

use super::episode::Episode;
use super::rates::{HPET_HZ, Origin, Rate, Rates};
use crate::rules::Count;

/// Highest plausible rate of a TSC, in hertz.
pub(crate) const FASTEST_HZ: f64 = 6.5e9;
/// Lowest plausible rate of a TSC, in hertz.
pub(crate) const SLOWEST_HZ: f64 = 0.4e9;

/// One comparison. Durations in nanoseconds, rates in hertz; `None` means unknown.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Interval {
    /// The reference's name.
    pub reference: Option<String>,
    /// The name was inferred from the clocksource that the kernel switched to afterwards.
    pub reference_is_inferred: bool,
    /// The count of the reference.
    pub elapsed_ns: Option<f64>,
    /// The count of the TSC, by its rate.
    pub counted_ns: Option<f64>,
    /// The count of the TSC, in ticks.
    pub cycles: Option<u64>,
    /// How far the TSC was ahead; negative if it was behind.
    pub skew_ns: Option<f64>,
    /// Error bound of `skew_ns` due to an inexact rate.
    pub doubt_ns: f64,
    /// Rate of the TSC if the reference was right.
    pub implied_hz: Option<f64>,
    /// Rate of the TSC, by the log.
    pub tsc: Option<Rate>,
    /// Time after which the reference's counter wraps.
    pub wrap_ns: Option<f64>,
    /// Bits of the reference's counter.
    pub reference_bits: Option<u32>,
    /// The TSC was lower than at the check before, or close to its end.
    pub is_backwards: bool,
    /// The TSC's reading has one of its two top bits set.
    pub is_before_zero: bool,
    /// A reference of full width was lower than at the check before.
    pub reference_is_backwards: bool,
    /// A second reference, by name, and its count.
    pub second: Option<(String, f64)>,
    /// The readings, now and before.
    pub readings: Option<(u64, u64)>,
    /// The lines are in the format of 7.1 and later.
    pub is_new_format: bool,
}

/// Minimum span above which a lower reading means that the counter was set back, not wrapped: a TSC of 10 GHz needs 1.8
/// years to fill 59 bits.
const FULL_WIDTH: u64 = 1 << 58;

impl Interval {
    /// Computes the figures from the lines of `episode`.
    pub(crate) fn of(episode: &Episode, rates: &Rates) -> Interval {
        let is_new_format = episode.lines.iter().any(|line| line.text.contains(" interval: "));
        let mut interval = Interval { is_new_format, ..Interval::default() };
        interval.name_reference(episode);
        interval.tsc = rates.tsc(episode.name.as_deref().unwrap_or("tsc"));
        interval.count_watched(episode);
        interval.count_reference(episode, rates);
        interval.compare(episode);
        interval.second = episode.second.as_ref().and_then(|count| {
            let rate = rates.reference(&count.name);
            let elapsed = count.nsec.map(|ns| ns as f64).or_else(|| elapsed(count, &rate?))?;
            Some((count.name.clone(), elapsed))
        });
        interval
    }

    /// Difference between the clocks, in parts per million of the reference's interval.
    pub(crate) fn ppm(&self) -> Option<f64> {
        let elapsed = self.elapsed_ns.filter(|ns| *ns > 0.0)?;
        Some(self.skew_ns?.abs() / elapsed * 1e6)
    }

    /// Number of unseen wraps of the reference, if they explain the skew: `k` such that the skew is within 2 % of `k`
    /// wraps.
    pub(crate) fn wraps(&self) -> Option<u32> {
        let (skew, wrap) = (self.skew_ns?, self.wrap_ns?);
        let wraps = (skew / wrap).round();
        if !(1.0..=1e6).contains(&wraps) {
            return None;
        }
        // 2 % of many wraps would exceed one wrap, so any skew would fit. Wider counters wrap so seldom that only a
        // close fit is not chance.
        let share = if self.reference.as_deref() == Some("acpi_pm") { 0.02 } else { 0.002 };
        let tolerance = (share * wraps * wrap).min(0.25 * wrap).max(self.doubt_ns.min(0.4 * wrap));
        let fits = (skew - wraps * wrap).abs() <= tolerance;
        fits.then(|| (1..=1_000_000).find(|k| f64::from(*k) >= wraps)).flatten()
    }

    /// Whether the second reference agrees with the TSC rather than with the reference.
    pub(crate) fn second_agrees(&self) -> Option<bool> {
        let (_, second) = self.second.as_ref()?;
        let (elapsed, counted) = (self.elapsed_ns?, self.counted_ns?);
        let (from_tsc, from_reference) = ((second - counted).abs(), (second - elapsed).abs());
        Some(from_tsc < from_reference / 3.0)
    }

    fn name_reference(&mut self, episode: &Episode) {
        self.reference = episode.references().next().cloned();
        if self.reference.is_none() {
            // The watchdog's reference is the best of the other clocksources: the one that the kernel falls back to.
            self.reference = episode.fallback.as_ref().map(|(name, _)| name.clone());
            self.reference_is_inferred = self.reference.is_some();
        }
    }

    fn count_watched(&mut self, episode: &Episode) {
        if let Some(count) = &episode.watched {
            let is_wide = count.mask >= FULL_WIDTH;
            self.is_before_zero = is_wide && count.now >> 62 != 0;
            self.is_backwards = is_wide && (count.now < count.last || self.is_before_zero);
            let cycles = count.now.wrapping_sub(count.last) & count.mask;
            if contradicts(count.nsec, cycles) || lacks_digit(count) {
                // One of the readings has lost a digit, or was copied wrongly.
                (self.is_before_zero, self.is_backwards) = (false, false);
            } else {
                self.readings = Some((count.now, count.last));
                self.cycles = (!self.is_backwards).then_some(cycles);
            }
        }
        let printed = episode.watched.as_ref().and_then(|count| count.nsec);
        self.counted_ns = printed.or(episode.watched_interval).map(|ns| ns as f64);
        if let (None, Some(cycles), Some(tsc)) = (self.counted_ns, self.cycles, &self.tsc) {
            self.counted_ns = Some(cycles as f64 / tsc.hz * 1e9);
            self.doubt_ns = tsc.doubt() * cycles as f64 / tsc.hz * 1e9;
        }
    }

    fn count_reference(&mut self, episode: &Episode, rates: &Rates) {
        let printed = episode.reference.as_ref().and_then(|count| count.nsec);
        let interval = episode.reference_interval.as_ref().map(|(_, ns)| *ns);
        self.elapsed_ns = printed.or(interval).map(|ns| ns as f64);
        let Some(name) = self.reference.clone() else { return };
        let mut rate = rates.reference(&name);
        if let Some(count) = &episode.reference {
            self.reference_is_backwards = count.mask >= FULL_WIDTH
                && count.now < count.last
                && count.nsec.is_none_or(|ns| ns <= 0);
            if let (None, Some(assumed)) = (self.elapsed_ns, &mut rate) {
                if name == "hpet" && assumed.origin == Origin::Usual {
                    assumed.hz = self.likely_hpet(count);
                }
                self.elapsed_ns = elapsed(count, assumed).filter(|_| !self.reference_is_backwards);
                self.doubt_ns += self.elapsed_ns.unwrap_or(0.0) * assumed.doubt();
            }
        }
        let mask = episode.reference.as_ref().map(|count| count.mask);
        let mask = mask.or_else(|| (name == "acpi_pm").then_some(0xff_ffff));
        if let (Some(mask), Some(rate)) = (mask.filter(|mask| *mask < 1 << 40), rate) {
            self.wrap_ns = Some((mask as f64 + 1.0) / rate.hz * 1e9);
            self.reference_bits = Some(64 - mask.leading_zeros());
        }
    }

    /// The rate of an HPET that is missing in the log: the classic one, unless it is far off and another one fits.
    fn likely_hpet(&self, count: &Count) -> f64 {
        let ticks = (count.now.wrapping_sub(count.last) & count.mask) as f64;
        // Time between two checks, if no TSC shows it: `WATCHDOG_INTERVAL` is half a second.
        let wanted = self.counted_ns.unwrap_or(0.5e9);
        let far = |hz: f64| (ticks / hz * 1e9 / wanted - 1.0).abs();
        let [classic, others @ ..] = HPET_HZ;
        let fits = if self.counted_ns.is_some() { 0.01 } else { 0.1 };
        let other = others.into_iter().find(|hz| far(*hz) < fits);
        if far(classic) > 0.5 { other.unwrap_or(classic) } else { classic }
    }

    fn compare(&mut self, episode: &Episode) {
        self.skew_ns = match (episode.delta_ns, self.counted_ns, self.elapsed_ns) {
            (Some(skew), ..) => Some(skew as f64),
            (None, Some(counted), Some(elapsed)) => Some(counted - elapsed),
            _ => None,
        };
        if self.is_backwards && episode.delta_ns.is_none() {
            self.skew_ns = None;
        }
        let elapsed = self.elapsed_ns.filter(|ns| *ns > 0.0);
        self.implied_hz =
            elapsed.and_then(|elapsed| match (self.cycles, self.counted_ns, &self.tsc) {
                (Some(cycles), ..) => Some(cycles as f64 / elapsed * 1e9),
                (None, Some(counted), Some(tsc)) => Some(counted / elapsed * tsc.hz),
                _ => None,
            });
    }
}

/// Whether the interval in nanoseconds, printed on the same line, makes a rate of these ticks that no TSC has.
fn contradicts(nsec: Option<i64>, cycles: u64) -> bool {
    let hz = |ns: i64| cycles as f64 / ns as f64 * 1e9;
    nsec.is_some_and(|ns| ns > 0 && !(SLOWEST_HZ / 4.0..=FASTEST_HZ * 1.5).contains(&hz(ns)))
}

/// Whether the reading before has lost its last digit: with any digit the count is what some seconds make.
fn lacks_digit(count: &Count) -> bool {
    let since = count.now.checked_sub(count.last << 4).filter(|_| count.last >> 34 > 0);
    count.last >> 60 == 0 && since.is_some_and(|ticks| ticks < 1 << 36)
}

/// The count of a counter, in nanoseconds.
fn elapsed(count: &Count, rate: &Rate) -> Option<f64> {
    let ticks = count.now.wrapping_sub(count.last) & count.mask;
    let ns = ticks as f64 / rate.hz * 1e9;
    ns.is_finite().then_some(ns)
}
