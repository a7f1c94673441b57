//! What was found of each clock, in plain words.

use clockscope_model::wrongness::{
    ClockRow, OffsetRow, RateRow, Staleness, WarpRow, WrongnessReport,
};
use clockscope_text::units;

/// One sentence about a clock.
pub(super) fn of_clock(report: &WrongnessReport, clock: &ClockRow) -> String {
    match &clock.staleness {
        Some(staleness) if staleness.busy.count > 0 => lag(clock, staleness),
        _ => format!("{} {}.", clock.clock, precise(report, clock).join("; ")),
    }
}

/// "lags by 4.2 ms typically, 8.1 ms at worst in 99 % of reads, though clock_getres says 4 ms"
fn lag(clock: &ClockRow, staleness: &Staleness) -> String {
    let idle = &staleness.idle;
    let idle = if idle.p99_ns > staleness.busy.p99_ns + staleness.busy.p99_ns / 8 {
        format!(" ({} if the machine sleeps in between)", units::nanos(idle.p99_ns))
    } else {
        String::new()
    };
    let getres = clock.resolution.as_ref().and_then(|resolution| resolution.getres_ns);
    let word = getres.map_or(String::new(), |getres| {
        let word = if staleness.busy.p99_ns > getres { "though" } else { "and" };
        format!(", {word} clock_getres says {}", units::nanos(getres))
    });
    format!(
        "{} lags by {} typically, {} at worst in 99 % of reads{idle}{word}.",
        clock.clock,
        units::nanos(staleness.busy.p50_ns),
        units::nanos(staleness.busy.p99_ns),
    )
}

/// The clause about a source that went back because nothing orders it.
pub(super) fn of_unordered(warp_row: &WarpRow) -> String {
    format!("{} {}", warp_row.source, warp(warp_row))
}

fn precise(report: &WrongnessReport, clock: &ClockRow) -> Vec<String> {
    let order = match clock.backward {
        0 => format!("kept order in {} reads on one CPU", units::count(clock.reads)),
        _ => went_back(clock),
    };
    let warp = worst_warp(report, &clock.clock).map(warp);
    let steps = clock.resolution.as_ref().filter(|resolution| resolution.min_step > 0);
    let steps =
        steps.map(|steps| format!("steps are {} or more", amount(steps.min_step, &clock.unit)));
    std::iter::once(order).chain(warp).chain(steps).collect()
}

/// How often and how far a clock went back on one CPU.
pub(super) fn went_back(clock: &ClockRow) -> String {
    let between = if clock.backward == clock.backward_between_routes {
        ", only from one route to another"
    } else {
        ""
    };
    format!(
        "went back {} in {} reads on one CPU, by up to {}{between}",
        times(clock.backward),
        units::count(clock.reads),
        amount(clock.worst_backward, &clock.unit)
    )
}

/// The row of this source that says most: the worst warp, or else the highest floor.
pub(super) fn worst_warp<'a>(report: &'a WrongnessReport, source: &str) -> Option<&'a WarpRow> {
    let rows = report.warps.iter().filter(|warp| warp.source == source);
    rows.max_by_key(|warp| (warp.max_warp, warp.floor.unwrap_or(u64::MAX)))
}

fn warp(warp: &WarpRow) -> String {
    match (warp.warps, warp.floor) {
        (0, Some(floor)) => {
            format!("no warp between CPUs above {}", amount(floor, &warp.unit))
        }
        (0, None) => "its CPUs could not be compared: they never met".to_owned(),
        (_, _) => {
            let why =
                if warp.unordered { ": it is read before its turn, which is no fault" } else { "" };
            format!(
                "went back between CPUs in {} of {} hand-overs, by up to {}{why}",
                units::count(warp.warps),
                units::count(warp.handovers),
                amount(warp.max_warp, &warp.unit)
            )
        }
    }
}

/// The rates, a line each; those that need no words share one.
pub(super) fn of_rates(rates: &[RateRow]) -> Vec<String> {
    let is_plain = |rate: &RateRow| {
        let is_due = rate.expected_ppm == Some(0.0) && rate.hz.is_none();
        is_due && rate.ppm.abs() <= rate.bound_ppm && rate.reference != "CLOCK_MONOTONIC_RAW"
    };
    let (plain, told): (Vec<&RateRow>, Vec<&RateRow>) = rates.iter().partition(|r| is_plain(r));
    let mut lines: Vec<String> = told.into_iter().map(of_rate).collect();
    if let Some(bound) = plain.iter().map(|rate| rate.bound_ppm).reduce(f64::max) {
        let clocks: Vec<&str> = plain.iter().map(|rate| short(&rate.clock)).collect();
        let verb = if clocks.len() == 1 { "keeps" } else { "keep" };
        let plural = if clocks.len() == 1 { "its reference" } else { "their references" };
        lines.push(format!("{} {verb} pace with {plural} to {bound:.3} ppm", clocks.join(", ")));
    }
    lines
}

/// `MONOTONIC off MONOTONIC_RAW by 0 +/- 0.004 ppm (0 due)`
fn of_rate(rate: &RateRow) -> String {
    let sign = |ppm: f64| if ppm.abs() < 0.000_5 { "0".to_owned() } else { format!("{ppm:+.3}") };
    let clock = short(&rate.clock);
    let ppm = format!("{} +/- {:.3} ppm", sign(rate.ppm), rate.bound_ppm);
    match (rate.hz, rate.expected_ppm) {
        (Some(hz), None) => format!("{clock} {:.6} MHz, within the run {ppm}", hz / 1e6),
        (Some(hz), Some(_)) => format!("{clock} {:.6} MHz, off nominal by {ppm}", hz / 1e6),
        (None, expected) => {
            let due = expected
                .map_or("it is being slewed".to_owned(), |due| format!("{} due", sign(due)));
            format!("{clock} off {} by {ppm} ({due})", short(&rate.reference))
        }
    }
}

/// The offset that is farthest from zero, beyond its error.
pub(super) fn of_offsets(offsets: &[OffsetRow]) -> Option<String> {
    let worst = offsets.iter().max_by_key(|offset| {
        (offset.proven, offset.offset.unsigned_abs().saturating_sub(offset.error))
    })?;
    let word = if worst.proven { "proven" } else { "consistent with zero" };
    let pairs = match offsets.len() {
        1 => String::new(),
        number => format!(", the worst of {number} pairs"),
    };
    Some(format!(
        "{} of CPU {} - CPU {}: {} +/- {} {}, {word}{pairs}",
        worst.source, worst.cpus.1, worst.cpus.0, worst.offset, worst.error, worst.unit
    ))
}

/// A clock's name without `CLOCK_`.
pub(super) fn short(name: &str) -> &str {
    name.strip_prefix("CLOCK_").unwrap_or(name)
}

/// A number in the unit of its clock.
pub(super) fn amount(value: u64, unit: &str) -> String {
    if unit == "ns" { units::nanos(value) } else { units::counted(value, "tick", "ticks") }
}

/// How often, in words.
pub(super) fn times(number: u64) -> String {
    match number {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        _ => format!("{} times", units::count(number)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clockscope_model::wrongness::{Distribution, Resolution};

    fn resolution(getres_ns: u64) -> Option<Resolution> {
        Some(Resolution { getres_ns: Some(getres_ns), min_step: 24, ..Resolution::default() })
    }

    fn ages(p50_ns: u64, p99_ns: u64) -> Distribution {
        Distribution { count: 9, p50_ns, p99_ns, ..Distribution::default() }
    }

    #[test]
    fn a_coarse_clock_is_told_by_its_lag() {
        let mut clock = ClockRow {
            clock: "CLOCK_REALTIME_COARSE".to_owned(),
            resolution: resolution(4_000_000),
            staleness: Some(Staleness {
                busy: ages(4_200_000, 8_100_000),
                idle: ages(4_300_000, 8_200_000),
                ..Staleness::default()
            }),
            ..ClockRow::default()
        };
        let report = WrongnessReport::default();
        assert_eq!(
            of_clock(&report, &clock),
            "CLOCK_REALTIME_COARSE lags by 4.2 ms typically, 8.1 ms at worst in 99 % of reads, \
             though clock_getres says 4 ms."
        );
        clock.staleness.as_mut().unwrap().idle = ages(4_300_000, 16_000_000);
        let with_idle = "in 99 % of reads (16 ms if the machine sleeps in between), though";
        assert!(of_clock(&report, &clock).contains(with_idle));
    }

    #[test]
    fn a_precise_clock_is_told_by_what_it_keeps() {
        let clock = ClockRow {
            clock: "CLOCK_MONOTONIC".to_owned(),
            unit: "ns".to_owned(),
            reads: 12_000,
            resolution: resolution(1),
            ..ClockRow::default()
        };
        let warp = |max_warp, floor| WarpRow {
            source: "CLOCK_MONOTONIC".to_owned(),
            unit: "ns".to_owned(),
            warps: max_warp,
            max_warp,
            floor,
            ..WarpRow::default()
        };
        let mut report = WrongnessReport {
            warps: vec![warp(0, Some(40)), warp(0, Some(60))],
            ..Default::default()
        };
        assert_eq!(
            of_clock(&report, &clock),
            "CLOCK_MONOTONIC kept order in 12,000 reads on one CPU; no warp between CPUs above 60 ns; steps are 24 ns or more."
        );
        report.warps.push(warp(3, Some(50)));
        assert!(of_clock(&report, &clock).contains("went back between CPUs in 3 of 0 hand-overs"));
    }
}
