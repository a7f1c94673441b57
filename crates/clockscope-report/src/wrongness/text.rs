//! The report as text: one screen.

use super::answer;
use super::sentences::{self, amount, short};
use crate::table;
use clockscope_model::wrongness::{ClockRow, Discipline, WrongnessReport};
use clockscope_text::lines::{self, WIDTH};
use clockscope_text::units;

const HEADS: [&str; 9] = ["", "back", "step", "getres", "stale p50", "p99", "max", "warp", "floor"];

/// The report, each line at most 80 columns.
pub fn render(report: &WrongnessReport) -> String {
    let mut text = lines::paragraph(&answer::of(report));
    for fault in &report.faults {
        text.push_str(&labelled(&format!("FAULT ({}):", fault.kind), &fault.sentence));
    }
    let legend = lines::paragraph(answer::LEGEND);
    format!("{text}\n{}{legend}\n{}", clocks(report), remarks(report))
}

/// The table, a line for each clock.
fn clocks(report: &WrongnessReport) -> String {
    let mut rows: Vec<[String; 9]> = vec![HEADS.map(str::to_owned)];
    rows[0][0] = format!("on CPU {}", report.cpu);
    rows.extend(report.clocks.iter().map(|clock| row(report, clock)));
    let widths = table::widest(&rows, HEADS.len());
    rows.iter().map(|row| table::line(row, &widths, " ", |column| column == 0)).collect()
}

fn row(report: &WrongnessReport, clock: &ClockRow) -> [String; 9] {
    let dash = || "-".to_owned();
    let back = match clock.backward {
        0 => "0".to_owned(),
        _ => brief(clock.worst_backward, &clock.unit),
    };
    let resolution = clock.resolution.as_ref();
    let step = resolution.filter(|r| r.min_step > 0).map(|r| brief(r.min_step, &clock.unit));
    let getres = resolution.and_then(|r| r.getres_ns).map(units::nanos);
    let ages = clock.staleness.as_ref().map(|staleness| &staleness.busy);
    let age = |of: fn(&clockscope_model::wrongness::Distribution) -> u64| {
        ages.map_or_else(dash, |ages| units::nanos(of(ages)))
    };
    let warp = sentences::worst_warp(report, &clock.clock);
    let worst = warp.map(|warp| match (warp.warps, warp.floor) {
        (0, None) => "?".to_owned(),
        (0, Some(_)) => "0".to_owned(),
        _ => brief(warp.max_warp, &warp.unit),
    });
    let floor = warp.and_then(|warp| warp.floor.map(|floor| brief(floor, &warp.unit)));
    [
        short(&clock.clock).to_owned(),
        back,
        step.unwrap_or_else(dash),
        getres.unwrap_or_else(dash),
        age(|ages| ages.p50_ns),
        age(|ages| ages.p99_ns),
        age(|ages| ages.max_ns),
        worst.unwrap_or_else(dash),
        floor.unwrap_or_else(dash),
    ]
}

/// A number with its unit, ticks as `t`.
fn brief(value: u64, unit: &str) -> String {
    if unit == "ns" { amount(value, unit) } else { format!("{value} t") }
}

fn remarks(report: &WrongnessReport) -> String {
    let mut text = String::new();
    let unordered = report.warps.iter().filter(|warp| warp.unordered && warp.warps > 0);
    if let Some(worst) = unordered.max_by_key(|warp| warp.max_warp) {
        text.push_str(&lines::paragraph(&sentences::of_unordered(worst)));
    }
    let mut label = "rate";
    for rate in sentences::of_rates(&report.rates) {
        text.push_str(&labelled(label, &rate));
        label = " ";
    }
    if let Some(offset) = sentences::of_offsets(&report.offsets) {
        text.push_str(&labelled("offset", &offset));
    }
    if let Some(discipline) = &report.discipline {
        text.push_str(&labelled("kernel", &of_discipline(discipline)));
    }
    for (what, why) in &report.declines {
        text.push_str(&labelled(&format!("not measured: {what},"), &format!("because {why}")));
    }
    text
}

fn of_discipline(discipline: &Discipline) -> String {
    let max = units::nanos(discipline.max_error_us.saturating_mul(1_000));
    let estimate = units::nanos(discipline.est_error_us.saturating_mul(1_000));
    let state = if discipline.synchronised {
        "synchronised"
    } else {
        "unsynchronised: REALTIME may be off"
    };
    format!("{state}; maxerror {max}, esterror {estimate}")
}

/// A paragraph with a label; its text is aligned at column 9.
fn labelled(label: &str, text: &str) -> String {
    lines::wrapped(label.to_owned(), 9, text, WIDTH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_report_has_a_head_and_says_that_nothing_is_wrong() {
        let text = render(&WrongnessReport::default());
        assert!(text.contains("No fault found") && text.contains("stale p50"), "{text}");
    }
}
