//! The first line: how the clock is read, from which clocksource, and the cost.

use super::TextOptions;
use super::paragraph::{quoted, wrapped};
use crate::facts::Evidence;
use crate::report::model::DoctorReport;
use crate::rules::catalogue::{self, Label};
use crate::rules::finding::{Cost, Severity, State};
use crate::utc::duration;
use clockscope_text::foreign::printable;
use clockscope_text::lines::cut_middle;

/// Cost of a fast read through the vDSO, in nanoseconds, for comparison with a slow one: published figures are 18 to 57
/// for tsc.
const FAST_NS: f64 = 20.0;
/// Columns for the name of a clocksource; the longest name in Linux has 27.
const NAME_MAX: usize = 32;
/// Maximum number of lines of evidence for the clocksource.
const EVIDENCE_MAX: usize = 2;
/// From this value on, a range is printed in microseconds.
const MICRO_NS: f64 = 1_000.0;

/// The first lines.
pub(super) fn render(report: &DoctorReport) -> String {
    let because = printable(&report.because);
    let Some(name) = &report.source else {
        // Without a name, only the reason can be reported.
        let reason = if because.is_empty() { "clocksource unknown" } else { &because };
        return format!("{}: {reason}\n{}", word(report), machine(report));
    };
    let mut out =
        format!("{}: clocksource {}", word(report), cut_middle(&printable(name), NAME_MAX));
    if let Some(cost) = &report.cost {
        out += &format!("; {}", cost_clause(report.state, cost));
    }
    // Never wrapped: users copy this line and search for it.
    out.push('\n');
    if !because.is_empty() {
        out += &wrapped("  ", 2, &format!("because {because}"));
    }
    out + &machine(report)
}

/// The lines that show the clocksource, if it is not fast and no finding cites them.
pub(super) fn evidence(report: &DoctorReport, options: &TextOptions) -> String {
    let cited = |line: &Evidence| report.findings.iter().any(|row| row.evidence.contains(line));
    let lines = report.source_evidence.iter().filter(|line| !cited(line)).take(EVIDENCE_MAX);
    if report.state == State::Fast {
        return String::new();
    }
    lines.map(|line| quoted(4, line, options.columns)).collect()
}

/// State and worst finding in plain words.
pub(super) fn word(report: &DoctorReport) -> String {
    let has = |name: &str| report.labels.iter().any(|label| label == name);
    let state = match (report.state, report.severity) {
        (State::Fast, _) => "fast",
        (State::Slow, _) => "slow",
        (State::SlowUnlessPvclockVdso, _) => "slow unless the vDSO reads it",
        (State::Unknown, _) if report.source.is_some() => "fast or slow",
        (State::Unknown, Severity::Wrong) => return "wrong time is possible".to_owned(),
        // kvm-clock replaces a TSC that is given up, and the vDSO may read it.
        (State::Unknown, Severity::Slow) if has("kvm-clock-present") => "fast or slow",
        (State::Unknown, Severity::Slow) => "probably slow",
        // The lines were understood; they say nothing of the clocksource.
        (State::Unknown, _) if has("watchdog-noise") => "no fault in these lines",
        (State::Unknown, _) => "not enough evidence",
    };
    let is_behind = report.cause().is_some_and(|row| row.id == Label::TimeBehindHost.name());
    if let Some(time) = report.time.as_ref().filter(|_| is_behind) {
        let but = if report.state == State::Fast { "but" } else { "and" };
        return format!("{state}, {but} the time is {} behind", duration(time.behind_ns));
    }
    let finding = match (report.state, report.severity) {
        (State::Fast, Severity::Wrong) => ", but wrong time is possible",
        (State::Fast, Severity::Slow) => ", with something to mend",
        (_, Severity::Wrong) => ", and wrong time is possible",
        _ => "",
    };
    format!("{state}{finding}")
}

fn cost_clause(state: State, cost: &Cost) -> String {
    let (scale, unit) = if cost.high_ns >= MICRO_NS { (MICRO_NS, "us") } else { (1.0, "ns") };
    let (low, high) = (digits(cost.low_ns / scale), digits(cost.high_ns / scale));
    let range = if low == high { low } else { format!("{low} to {high}") };
    let origin = if cost.is_measured { "measured" } else { "by published figures" };
    match state {
        State::Fast => format!("{range} {unit} a read ({origin})"),
        State::Slow => {
            let measured = if cost.is_measured { " (measured)" } else { "" };
            let fast = digits(FAST_NS / scale);
            format!("each clock read costs {range} {unit}{measured} instead of {fast}")
        }
        _ => format!("each clock read costs {range} {unit} ({origin})"),
    }
}

/// A number with two decimals below ten, without trailing zeros.
fn digits(value: f64) -> String {
    if value >= 10.0 {
        return format!("{value:.0}");
    }
    format!("{value:.2}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The kind of machine, if it is known.
fn machine(report: &DoctorReport) -> String {
    let title = |name: &String| match catalogue::page(&format!("platform:{name}")) {
        Some(page) => page.title.to_owned(),
        None => name.clone(),
    };
    let mut known: Vec<String> = report.platforms.iter().map(title).collect();
    known.extend(report.kernel.iter().map(|release| format!("Linux {release}")));
    if known.is_empty() { String::new() } else { wrapped("  on ", 5, &known.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_compared_in_one_unit() {
        let clause = |state, low_ns, high_ns, is_measured| {
            cost_clause(state, &Cost { low_ns, high_ns, is_measured })
        };
        let table = [
            (clause(State::Fast, 18.0, 57.0, false), "18 to 57 ns a read (by published figures)"),
            (clause(State::Fast, 22.4, 22.4, true), "22 ns a read (measured)"),
            (
                clause(State::Slow, 700.0, 2_600.0, false),
                "each clock read costs 0.7 to 2.6 us instead of 0.02",
            ),
            (
                clause(State::Slow, 290.0, 290.0, true),
                "each clock read costs 290 ns (measured) instead of 20",
            ),
            (
                clause(State::SlowUnlessPvclockVdso, 40.0, 1_500.0, false),
                "each clock read costs 0.04 to 1.5 us (by published figures)",
            ),
        ];
        for (clause, expected) in table {
            assert_eq!(clause, expected);
        }
    }
}
