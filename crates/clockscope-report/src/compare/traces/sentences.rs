//! The answer in sentences: what a read costs, how often the clock is read, and what part of the time that takes.

use super::costs;
use crate::answers::ratio;
use clockscope_model::trace_compare::{Cost, CostChange, TraceCompareReport, TraceSide};
use clockscope_text::units;

/// One sentence for each question.
pub(super) fn conclusion(report: &TraceCompareReport) -> Vec<String> {
    let (before, after) = (&report.before, &report.after);
    if before.reads == 0 && after.reads == 0 {
        return vec!["Neither run read a clock.".to_owned()];
    }
    let mut sentences = vec![cost(report)];
    sentences.push(how_often(before, after));
    if let (Some(a), Some(b)) = (before.cpu_share, after.cpu_share) {
        let (a, b) = (units::share(a), units::share(b));
        sentences.push(if a == b {
            format!("That takes {b} of the CPU time in both.")
        } else {
            format!("That takes {b} of the CPU time instead of {a}.")
        });
    }
    sentences
}

/// How the cost of a read changed: by as much as matters, and beyond both intervals.
pub fn cost_change(report: &TraceCompareReport) -> CostChange {
    let matters = super::Matters(report.min_effect_percent / 100.0);
    match (&report.before.read_cost, &report.after.read_cost) {
        (Some(a), Some(b)) => matters.cost_change(a, b),
        _ => CostChange::NotKnown,
    }
}

fn cost(report: &TraceCompareReport) -> String {
    let (before, after) = (&report.before, &report.after);
    let (Some(a), Some(b)) = (&before.read_cost, &after.read_cost) else {
        let unknown = if before.read_cost.is_none() { before } else { after };
        return format!(
            "What a clock read costs cannot be compared: too few were timed in {}.",
            unknown.file
        );
    };
    let (was, is) = (units::picos(a.average_ps), units::picos(b.average_ps));
    match cost_change(report) {
        CostChange::Dearer | CostChange::Cheaper => {
            format!("A clock read costs {is} instead of {was}: {}.", times(a, b))
        }
        _ => format!("No change found in what a clock read costs: {was}, then {is}."),
    }
}

/// How many times as much, with what the intervals leave open.
fn times(before: &Cost, after: &Cost) -> String {
    let middle = ratio(after.average_ps, before.average_ps.max(1));
    let text = as_much(middle);
    match (costs::ends(before), costs::ends(after)) {
        (Some(a), Some(b)) if a.0 > 0 => {
            let (low, high) = (ratio(b.0, a.1.max(1)), ratio(b.1, a.0));
            format!("{text} ({} to {})", factor(low), factor(high))
        }
        _ => text,
    }
}

fn as_much(times: f64) -> String {
    format!("{} times as much", factor(times))
}

/// A ratio with two digits, or all that stand before the point.
pub(super) fn factor(ratio: f64) -> String {
    match ratio {
        ratio if ratio < 0.0995 => format!("{ratio:.3}"),
        ratio if ratio < 0.995 => format!("{ratio:.2}"),
        ratio if ratio < 9.95 => format!("{ratio:.1}"),
        ratio => format!("{ratio:.0}"),
    }
}

fn how_often(before: &TraceSide, after: &TraceSide) -> String {
    let rate = |side: &TraceSide| units::rate(side.reads_per_second).unwrap_or_default();
    let calls = if before.reads == after.reads {
        format!("in both runs {}", units::counted(after.reads, "read", "reads"))
    } else {
        format!(
            "{} instead of {}",
            units::counted(after.reads, "read", "reads"),
            units::count(before.reads)
        )
    };
    if before.reads == 0 {
        return format!("The first run read no clock, the second {} times a second.", rate(after));
    }
    if after.reads == 0 {
        return format!("The second run read no clock, the first {} times a second.", rate(before));
    }
    let (was, is) = (rate(before), rate(after));
    format!("The program reads the clock {is} times a second instead of {was} ({calls}).")
}
