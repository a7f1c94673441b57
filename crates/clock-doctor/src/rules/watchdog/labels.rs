//! Derives labels from one comparison's numbers: pure arithmetic.

use super::interval::{FASTEST_HZ, Interval, SLOWEST_HZ};
use crate::rules::Label;

/// Time between two checks, in nanoseconds (`WATCHDOG_INTERVAL`, half a second).
pub(crate) const CHECK_NS: f64 = 0.5e9;
/// Time after which a check counts as late, in nanoseconds.
const LATE_NS: f64 = 2e9;
/// Maximum difference of crystals, in parts per million.
pub(crate) const CRYSTAL_PPM: f64 = 100.0;
/// A smaller difference in one sample may be a stall or a wrong rate, in nanoseconds.
const UNDECIDED_NS: f64 = 5e6;
const MILLISECOND: f64 = 1e6;

/// Labels that fit the numbers, the most explanatory first. Empty if the numbers only show that the clocks differ, or
/// if there are none.
pub(crate) fn labels(interval: &Interval) -> Vec<Label> {
    if interval.is_backwards {
        return vec![Label::TscWentBackwards];
    }
    let reference = interval.reference.as_deref().unwrap_or_default();
    let set_back =
        interval.reference_is_backwards || interval.elapsed_ns.is_some_and(|ns| ns < 0.0);
    if set_back {
        return if reference == "kvm-clock" { vec![Label::VmPaused] } else { Vec::new() };
    }
    let mut labels = Vec::new();
    if stood_still(interval) {
        labels.push(Label::TscWatchdogGlitch);
    }
    if is_short(interval) {
        return vec![Label::TscWatchdogShortInterval];
    }
    if is_wrapped(interval) {
        labels.push(Label::WatchdogCounterWrapped);
    } else if reference == "kvm-clock" && interval.skew_ns.is_some_and(|skew| skew > 1e8) {
        labels.push(Label::VmPaused);
    } else if reference == "kvm-clock" && goes_on_alone(interval) {
        return vec![Label::VmPaused];
    } else if reference_jumped(interval) {
        return labels;
    } else if is_far_ahead(interval) {
        labels.push(Label::TscJumped);
    }
    if is_torn(interval) {
        labels.push(Label::WatchdogReadsTorn);
    }
    if interval.elapsed_ns.is_some_and(|elapsed| elapsed > LATE_NS) {
        labels.push(Label::TscWatchdogLongInterval);
    }
    labels.extend(by_size(interval));
    labels
}

/// Whether the TSC did not move at all, or by less than a thousandth.
fn stood_still(interval: &Interval) -> bool {
    let Some(elapsed) = interval.elapsed_ns else { return interval.cycles == Some(0) };
    let counted = interval.counted_ns;
    interval.cycles == Some(0)
        || (elapsed >= MILLISECOND && counted.is_some_and(|ns| ns.abs() <= elapsed / 1e3))
}

/// Whether two checks of 7.1 and later are so close that read noise looks like a difference.
fn is_short(interval: &Interval) -> bool {
    let short = interval.elapsed_ns.is_some_and(|elapsed| elapsed < MILLISECOND);
    let small = interval.skew_ns.is_none_or(|skew| skew.abs() < MILLISECOND);
    interval.is_new_format && short && small
}

fn is_wrapped(interval: &Interval) -> bool {
    match (interval.reference.as_deref(), interval.skew_ns) {
        (Some("acpi_pm"), None) => interval.implied_hz.is_some_and(|hz| hz > FASTEST_HZ),
        _ => interval.wraps().is_some(),
    }
}

/// Whether the TSC counted more than any TSC can in the time that the reference shows.
fn is_far_ahead(interval: &Interval) -> bool {
    if let Some(hz) = interval.implied_hz {
        return hz > FASTEST_HZ;
    }
    // Without a rate: a TSC of today is never so slow that four times as much would be plausible.
    match (interval.counted_ns, interval.elapsed_ns) {
        (Some(counted), Some(elapsed)) => elapsed > 0.0 && counted / elapsed > 4.0,
        _ => false,
    }
}

/// Whether the TSC counted half a second, as it should, and the reference, read after it, much more.
fn is_torn(interval: &Interval) -> bool {
    let by_rate = || Some(interval.counted_ns? / 1e9 * interval.tsc.as_ref()?.hz);
    let cycles = interval.cycles.map(|cycles| cycles as f64).or_else(by_rate);
    let plausible = |hz: f64| (0.6e9..=FASTEST_HZ).contains(&hz);
    let on_time = cycles.is_some_and(|cycles| plausible(cycles / CHECK_NS * 1e9));
    on_time && interval.implied_hz.is_some_and(|hz| hz < SLOWEST_HZ)
}

/// Whether kvm-clock counted the usual time, and the TSC milliseconds less.
fn goes_on_alone(interval: &Interval) -> bool {
    interval.skew_ns.is_some_and(|skew| skew < -UNDECIDED_NS)
        && interval.elapsed_ns.is_some_and(|elapsed| elapsed < LATE_NS)
        && !is_torn(interval)
}

/// Whether the hypervisor's clock, which is computed from the TSC, counted seconds more than the TSC: no stall between
/// two reads of one comparison is so long.
pub(crate) fn reference_jumped(interval: &Interval) -> bool {
    let is_computed = matches!(interval.reference.as_deref(), Some("kvm-clock" | "xen"));
    is_computed && is_torn(interval) && interval.elapsed_ns.is_some_and(|elapsed| elapsed > LATE_NS)
}

/// Whether only a measurement can decide, because the log lacks the data for other rules: a small difference without
/// its interval, a TSC whose rate the log does not tell, or two different rates that the kernel (7.1) printed without
/// figures.
pub(crate) fn only_a_rate_decides(interval: &Interval, is_rate: bool) -> bool {
    let unknown = interval.tsc.is_none()
        && interval.implied_hz.is_some_and(|hz| (SLOWEST_HZ..=FASTEST_HZ).contains(&hz));
    match interval.skew_ns {
        Some(skew) => interval.ppm().is_none() && skew.abs() < UNDECIDED_NS,
        None => unknown || is_rate && interval.cycles.is_none() && interval.elapsed_ns.is_none(),
    }
}

/// The label for the size of the difference, if nothing else explains it.
fn by_size(interval: &Interval) -> Option<Label> {
    let (skew, ppm) = (interval.skew_ns?.abs(), interval.ppm()?);
    let elapsed = interval.elapsed_ns?;
    let doubt_ppm = interval.doubt_ns / elapsed * 1e6;
    if doubt_ppm > CRYSTAL_PPM {
        // The rate is known too inexactly for so small a difference.
        let undecided = skew <= interval.doubt_ns || skew < UNDECIDED_NS;
        return undecided.then_some(Label::NeedsRateMeasurement);
    }
    if ppm <= CRYSTAL_PPM {
        Some(Label::WatchdogFalsePositiveLikely)
    } else {
        (skew < UNDECIDED_NS).then_some(Label::NeedsRateMeasurement)
    }
}
