//! Compares the counters of the CPUs.

use clockscope_stats::order;
use std::time::{Duration, Instant};

use crate::wrongness::machine::pairs;
use crate::wrongness::offset::{self, Offset};
use crate::wrongness::source::Readable;
use clock_doctor::measured::WarpMeasured;
use clockscope_sys::warp::{self, Warp};
use clockscope_sys::{affinity, clock_reads};

/// Time for all pairs together, approximately.
const BUDGET: Duration = Duration::from_millis(160);
/// Longest time for a pair in each direction, unless the two threads hardly run at once: as long as the kernel's own test
/// takes between two cores (`loop_timeout` in `arch/x86/kernel/tsc_sync.c`, Linux 6.18).
const EACH_MAX: Duration = Duration::from_millis(2);
/// Bounds above this, in nanoseconds, are reported.
const BOUND_NS: f64 = 5_000.0;
/// Shortest time that gives a result.
const EACH_MIN: Duration = Duration::from_micros(500);

/// Compares pairs of CPUs: the first CPU with all others, then as many pairs as time allows. `None` if this
/// process may not use two CPUs. `hz` is the counter's rate.
pub(super) fn compare(hz: Option<f64>, unmeasured: &mut Vec<String>) -> Option<WarpMeasured> {
    let cpus = affinity::allowed().unwrap_or_default();
    if cpus.len() < 2 {
        unmeasured.push("offsets between CPUs: this process may use one CPU only".to_owned());
        return None;
    }
    let mut pairs = pairs(&cpus);
    order::by_key(&mut pairs, |pair| pair.0 != cpus[0]);
    let each = each(pairs.len());
    let start = Instant::now();
    let mut found = WarpMeasured::default();
    let mut worst = None;
    for pair in &pairs {
        if start.elapsed() > BUDGET && found.pairs > 0 {
            break;
        }
        match one_pair(&clock_reads::counter_fenced, *pair, each) {
            Ok((warp, offset)) => add(&mut found, &mut worst, *pair, &warp, offset, hz),
            Err(error) => {
                unmeasured.push(format!("CPUs {} and {}: {error}", pair.0, pair.1));
            }
        }
    }
    // Half an exchange of a good pair takes 30 to 500 ns; more means that the threads did not meet.
    if let Some(bound) = found.bound_ns.filter(|bound| *bound > BOUND_NS) {
        unmeasured.push(format!(
            "offsets between CPUs below {:.0} us: other programs want the CPUs",
            (bound / 1e3).ceil()
        ));
    }
    let left = pairs.len() as u64 - found.pairs;
    if left > 0 && found.pairs > 0 {
        unmeasured.push(format!("{left} of {} pairs of CPUs were left out", pairs.len()));
    }
    (found.pairs > 0).then_some(found)
}

/// Time for one pair in each direction.
fn each(pairs: usize) -> Duration {
    let pairs = u32::try_from(pairs).unwrap_or(u32::MAX).max(1);
    (BUDGET / pairs / 2).clamp(EACH_MIN, EACH_MAX)
}

/// Measures one pair; a step back is measured again, twelve times as long.
fn one_pair(
    source: &Readable,
    pair: (u32, u32),
    each: Duration,
) -> std::io::Result<(Warp, Option<Offset>)> {
    let warp = |time| warp::measure(source, pair, &warp::patiently(time));
    let mut found = warp(each)?;
    if found.count() > 0 {
        found = found.and(warp(12 * each)?);
    }
    Ok((found, offset::measure(source, pair, each)?))
}

/// The pair whose offset exceeds its bound by the most, both in ticks.
type Worst = Option<((u32, u32), Offset)>;

fn add(
    found: &mut WarpMeasured,
    worst: &mut Worst,
    pair: (u32, u32),
    warp: &Warp,
    offset: Option<Offset>,
    hz: Option<f64>,
) {
    found.pairs += 1;
    found.handovers += warp.handovers;
    found.backwards += warp.count();
    found.worst_ticks = found.worst_ticks.max(warp.max);
    let (Some(offset), Some(hz)) = (offset, hz) else { return };
    let ns = |ticks: f64| ticks * 1e9 / hz;
    let bound = ns(offset.error as f64);
    found.bound_ns = Some(found.bound_ns.map_or(bound, |widest| widest.max(bound)));
    let beyond =
        |offset: &Offset| i128::from(offset.best.unsigned_abs()) - i128::from(offset.error);
    if worst.is_none_or(|(_, worst)| beyond(&offset) > beyond(&worst)) {
        *worst = Some((pair, offset));
        found.offset_ns = Some((pair.0, pair.1, ns(offset.best as f64)));
        found.offset_bound_ns = Some(bound);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_pairs_get_less_time_each() {
        assert_eq!(each(1), EACH_MAX);
        assert_eq!(each(80), Duration::from_millis(1));
        assert_eq!(each(100_000), EACH_MIN);
    }

    #[test]
    fn the_offset_that_is_surest_is_kept_and_not_the_largest() {
        let (mut found, mut worst) = (WarpMeasured::default(), None);
        let warp = Warp { handovers: 10, seen: [1, 0], max: 7, floor: Some(3) };
        // 300 ticks apart with a bound below that; then 500 ticks apart with a bound of 900.
        let sure = Offset::of(0, 400, 200);
        let unsure = Offset::of(0, 1400, 1800);
        add(&mut found, &mut worst, (0, 1), &warp, Some(sure), Some(2e9));
        add(&mut found, &mut worst, (0, 2), &Warp::default(), Some(unsure), Some(2e9));
        add(&mut found, &mut worst, (1, 2), &Warp::default(), None, Some(2e9));
        assert_eq!((found.pairs, found.backwards, found.worst_ticks), (3, 1, 7));
        assert_eq!(found.offset_ns, Some((0, 1, 150.0)));
        assert_eq!((found.offset_bound_ns, found.bound_ns), (Some(50.0), Some(450.0)));
    }
}
