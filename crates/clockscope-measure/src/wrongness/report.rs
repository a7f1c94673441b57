//! From what was measured to the report's model.

use crate::wrongness::machine::MachineClocks;
use crate::wrongness::offset::Offset;
use crate::wrongness::source::Unit;
use crate::wrongness::{Clock, Compared, Measured, Rated, is_unordered, staleness};
use clockscope_model::wrongness::{
    ClockRow, Discipline, Distribution, OffsetRow, RateRow, Resolution, SCHEMA, Staleness, WarpRow,
    WrongnessReport,
};
use clockscope_stats::distribution;
use clockscope_sys::timex::Timex;
use clockscope_sys::warp::Warp;

/// The report without a verdict; the host is left for the caller.
pub fn report(measured: &Measured, machine: &MachineClocks) -> WrongnessReport {
    let discipline = measured.discipline.map(|(first, last)| discipline(first, last));
    let rates = measured.rates.iter();
    WrongnessReport {
        schema: SCHEMA,
        elapsed_ms: u64::try_from(measured.elapsed.as_millis()).unwrap_or(u64::MAX),
        cpu: measured.cpu,
        clocks: measured.clocks.iter().map(clock).collect(),
        warps: measured.warps.iter().map(warp).collect(),
        offsets: measured.offsets.iter().map(offset).collect(),
        rates: rates.map(|r| rate(r, discipline.as_ref(), machine.nominal_hz)).collect(),
        discipline,
        declines: measured.declines.clone(),
        ..WrongnessReport::default()
    }
}

fn clock(clock: &Clock) -> ClockRow {
    let steps = &clock.order.steps;
    ClockRow {
        clock: clock.name.to_owned(),
        unit: clock.unit.name().to_owned(),
        reads: clock.order.reads,
        backward: clock.order.backward,
        worst_backward: clock.order.worst,
        backward_between_routes: clock.backward_between_routes,
        burst: clock.order.burst.clone(),
        staleness: clock.staleness.as_ref().map(|(reference, ages)| staleness_row(reference, ages)),
        resolution: Some(Resolution {
            getres_ns: clock.getres_ns,
            min_step: steps.min,
            gcd: steps.gcd,
            max_step: steps.max,
            zero_share: steps.zero_share(),
            steps: steps.count,
            buckets: steps.buckets(),
        }),
        sentence: String::new(),
    }
}

fn staleness_row(reference: &str, ages: &staleness::Staleness) -> Staleness {
    Staleness {
        reference: reference.to_owned(),
        busy: distribution_row(&ages.busy),
        idle: distribution_row(&ages.idle),
        ahead: ages.ahead,
        ahead_max_ns: ages.ahead_max_ns,
    }
}

fn distribution_row(values: &distribution::Distribution) -> Distribution {
    Distribution {
        count: values.count(),
        min_ns: values.min(),
        p1_ns: values.percentile(1.0),
        p50_ns: values.percentile(50.0),
        p99_ns: values.percentile(99.0),
        max_ns: values.max(),
        mean_ns: values.mean(),
        buckets: values.buckets(),
        hdr: values.to_hdr(),
    }
}

fn warp(row: &Compared<Warp>) -> WarpRow {
    let cpu = |index| if index == 0 { row.cpus.0 } else { row.cpus.1 };
    WarpRow {
        source: row.source.to_owned(),
        unit: row.unit.name().to_owned(),
        cpus: row.cpus,
        handovers: row.found.handovers,
        warps: row.found.count(),
        max_warp: row.found.max,
        behind: row.found.behind().map(cpu),
        random: row.found.is_random(),
        floor: row.found.floor,
        unordered: is_unordered(row.source),
    }
}

fn offset(row: &Compared<Offset>) -> OffsetRow {
    OffsetRow {
        source: row.source.to_owned(),
        unit: row.unit.name().to_owned(),
        cpus: row.cpus,
        offset: row.found.best,
        error: row.found.error,
        interval: row.found.interval,
        exchanges: row.found.exchanges,
        proven: row.found.is_proven(),
    }
}

fn rate(row: &Rated, discipline: Option<&Discipline>, nominal_hz: Option<f64>) -> RateRow {
    let mut rate = RateRow {
        clock: row.clock.to_owned(),
        reference: row.reference.to_owned(),
        ppm: row.rate.ppm,
        bound_ppm: row.rate.bound_ppm,
        baseline_ms: u64::try_from(row.rate.baseline_ns / 1_000_000).unwrap_or(0),
        ..RateRow::default()
    };
    match row.unit {
        Unit::Ticks => {
            let hz = row.rate.ratio * 1e9;
            let before = row.first_half.map(|half| half.ratio * 1e9);
            rate.hz = Some(hz);
            rate.expected_ppm = nominal_hz.map(|_| 0.0);
            rate.ppm = nominal_hz.or(before).map_or(0.0, |nominal| (hz / nominal - 1.0) * 1e6);
            let half = row.first_half.filter(|_| nominal_hz.is_none());
            rate.bound_ppm += half.map_or(0.0, |half| half.bound_ppm);
        }
        Unit::Nanos => {
            rate.offset_ns = Some(row.end.clock - row.end.reference);
            rate.expected_ppm = match row.reference {
                "CLOCK_MONOTONIC_RAW" => {
                    discipline.filter(|d| !d.slewing).map(|discipline| discipline.frequency_ppm)
                }
                _ => Some(0.0),
            };
        }
    }
    rate
}

fn discipline(first: Timex, last: Timex) -> Discipline {
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
