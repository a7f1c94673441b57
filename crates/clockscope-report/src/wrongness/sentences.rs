//! Findings about each clock, as sentences.

use clockscope_model::wrongness::{ClockRow, OffsetRow, RateRow, WarpRow, WrongnessReport};
use clockscope_text::units;

/// The clause about an unordered source that went back.
pub(super) fn of_unordered(warp: &WarpRow) -> String {
    format!(
        "{} went back between CPUs in {} of {} hand-overs, by up to {}: it is read before its turn, which is no fault",
        warp.source,
        units::count(warp.warps),
        units::count(warp.handovers),
        amount(warp.max_warp, &warp.unit)
    )
}

/// Number and size of a clock's steps back on one CPU.
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

/// The most significant row of this source: the worst warp, or else the highest floor.
pub(super) fn worst_warp<'a>(report: &'a WrongnessReport, source: &str) -> Option<&'a WarpRow> {
    let rows = report.warps.iter().filter(|warp| warp.source == source);
    rows.max_by_key(|warp| (warp.max_warp, warp.floor.unwrap_or(u64::MAX)))
}

/// The rates, a line each; unremarkable ones share a line.
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

/// The sentence about the offset farthest from zero, beyond its error.
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

/// The number of times, in words.
pub(super) fn times(number: u64) -> String {
    match number {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        _ => format!("{} times", units::count(number)),
    }
}
