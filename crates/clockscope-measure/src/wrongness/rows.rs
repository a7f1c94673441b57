//! Makes rows of the report from the results of tests.

use super::machine::{Subject, UNORDERED};
use super::offset::Offset;
use super::order::ReadingOrder;
use super::rate::{Anchor, Rate};
use super::staleness;
use clockscope_model::wrongness::{
    ClockRow, Discipline, Distribution, OffsetRow, RateRow, Resolution, Staleness, WarpRow,
};
use clockscope_stats::distribution;
use clockscope_sys::timex::Timex;
use clockscope_sys::warp::Warp;

/// The row of a clock. `by_one_route` is the number of steps back seen before the routes took turns.
pub(super) fn clock(subject: &Subject, order: ReadingOrder, by_one_route: u64) -> ClockRow {
    let steps = &order.steps;
    ClockRow {
        clock: subject.name.to_owned(),
        unit: subject.unit.to_owned(),
        reads: order.reads,
        backward: order.backward,
        worst_backward: order.worst,
        backward_between_routes: order.backward - by_one_route,
        resolution: Some(Resolution {
            getres_ns: subject.getres_ns,
            min_step: steps.min,
            gcd: steps.gcd,
            max_step: steps.max,
            zero_share: steps.zero_share(),
            steps: steps.count,
        }),
        burst: order.burst,
        ..ClockRow::default()
    }
}

pub(super) fn staleness(reference: &str, ages: &staleness::Staleness) -> Staleness {
    Staleness {
        reference: reference.to_owned(),
        busy: distribution(&ages.busy),
        idle: distribution(&ages.idle),
        ahead: ages.ahead,
        ahead_max_ns: ages.ahead_max_ns,
    }
}

fn distribution(values: &distribution::Distribution) -> Distribution {
    Distribution {
        count: values.count(),
        min_ns: values.min(),
        p1_ns: values.percentile(1.0),
        p50_ns: values.percentile(50.0),
        p99_ns: values.percentile(99.0),
        max_ns: values.max(),
        mean_ns: values.mean(),
        buckets: values.buckets(),
    }
}

pub(super) fn warp(subject: &Subject, cpus: (u32, u32), found: &Warp) -> WarpRow {
    WarpRow {
        source: subject.name.to_owned(),
        unit: subject.unit.to_owned(),
        cpus,
        handovers: found.handovers,
        warps: found.count(),
        max_warp: found.max,
        behind: found.behind().map(|index| if index == 0 { cpus.0 } else { cpus.1 }),
        random: found.is_random(),
        floor: found.floor,
        unordered: subject.name == UNORDERED,
    }
}

pub(super) fn offset(subject: &Subject, cpus: (u32, u32), found: &Offset) -> OffsetRow {
    OffsetRow {
        source: subject.name.to_owned(),
        unit: subject.unit.to_owned(),
        cpus,
        offset: found.best,
        error: found.error,
        interval: found.interval,
        exchanges: found.exchanges,
        proven: found.is_proven(),
    }
}

fn rate(rate: &Rate) -> RateRow {
    RateRow {
        ppm: rate.ppm,
        bound_ppm: rate.bound_ppm,
        baseline_ms: u64::try_from(rate.baseline_ns / 1_000_000).unwrap_or(0),
        ..RateRow::default()
    }
}

/// The row of a counter: its rate against the nominal one, or else against that of the first half of the run.
pub(super) fn rate_of_counter(
    whole: &Rate,
    half: Option<&Rate>,
    nominal_hz: Option<f64>,
) -> RateRow {
    let mut row = rate(whole);
    let hz = whole.ratio * 1e9;
    let due = nominal_hz.or(half.map(|half| half.ratio * 1e9));
    row.hz = Some(hz);
    row.expected_ppm = nominal_hz.map(|_| 0.0);
    row.ppm = due.map_or(0.0, |due| (hz / due - 1.0) * 1e6);
    row.bound_ppm += half.filter(|_| nominal_hz.is_none()).map_or(0.0, |half| half.bound_ppm);
    row
}

/// The row of a clock, against a clock with the same rate or one that the kernel steers apart at a known rate.
pub(super) fn rate_of_clock(
    whole: &Rate,
    end: Anchor,
    reference: &str,
    discipline: Option<&Discipline>,
) -> RateRow {
    let expected_ppm = match reference {
        "CLOCK_MONOTONIC_RAW" => discipline.filter(|d| !d.slewing).map(|d| d.frequency_ppm),
        _ => Some(0.0),
    };
    RateRow { offset_ns: Some(end.clock - end.reference), expected_ppm, ..rate(whole) }
}

/// The row of the kernel's clock discipline, from its state at the start and at the end of the run.
pub(super) fn discipline(first: Timex, last: Timex) -> Discipline {
    let moved = (first.freq, first.tick) != (last.freq, last.tick);
    let micros = |value: i64| u64::try_from(value).unwrap_or(0);
    Discipline {
        slewing: moved || first.offset != 0 || last.offset != 0,
        synchronised: last.is_synchronised(),
        frequency_ppm: last.frequency_ppm(),
        max_error_us: micros(last.maxerror),
        est_error_us: micros(last.esterror),
        tai_offset_s: i64::from(last.tai),
    }
}
