//! Converts the duration of a read with `run --clock slow` to ticks of the time-stamp counter.

use anyhow::Context as _;
use fastclock::Nanos;

use super::ClockPair;

/// How long the counter is measured. A pair of readings is wrong by some 50 ns, so the rate is wrong by 10 ppm.
const WATCHED: Nanos = Nanos(10_000_000);

/// Converts a time to ticks, rounded up, by the counter's current rate.
///
/// # Errors
///
/// If the counter stands still or goes backwards.
pub(crate) fn in_ticks(time: Nanos) -> anyhow::Result<u64> {
    let first = ClockPair::read();
    let last = loop {
        let last = ClockPair::read();
        if last.time.0 - first.time.0 >= WATCHED.0 {
            break last;
        }
    };
    scaled(time, last.ticks.0.saturating_sub(first.ticks.0), last.time.0 - first.time.0).context(
        "--clock slow: the time-stamp counter, which measures how long a read takes, stands still here",
    )
}

/// The ticks in `time`, if `ticks` passed in `elapsed_ns`; `None` if the counter did not advance.
fn scaled(time: Nanos, ticks: u64, elapsed_ns: i64) -> Option<u64> {
    let elapsed = u128::try_from(elapsed_ns).ok().filter(|elapsed| *elapsed > 0)?;
    let product = u128::try_from(time.0).ok()? * u128::from(ticks);
    u64::try_from(product.div_ceil(elapsed)).ok().filter(|ticks| *ticks > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_never_rounded_down() {
        assert_eq!(scaled(Nanos(1_200), 26_000_000, 10_000_000), Some(3_120));
        assert_eq!(scaled(Nanos(1), 24, 1_000), Some(1));
        assert_eq!(scaled(Nanos(1_000_000), u64::MAX, 1), None);
    }

    #[test]
    fn a_counter_that_stands_still_measures_nothing() {
        assert_eq!(scaled(Nanos(1_200), 0, 10_000_000), None);
        assert_eq!(scaled(Nanos(1_200), 26_000_000, 0), None);
        assert_eq!(scaled(Nanos(1_200), 26_000_000, -1), None);
    }
}
