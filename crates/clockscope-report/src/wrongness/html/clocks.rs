//! Order and resolution of each clock.

use crate::chart::axis::Wish;
use crate::chart::palette::Colour;
use crate::chart::quantity::Unit;
use crate::chart::rows::{Group, Mark, Row, Rows};
use crate::page::{Page, Table};
use clockscope_model::wrongness::{ClockRow, Resolution, WrongnessReport};
use clockscope_text::units::{count, nanos, share};

/// A number of a clock's unit.
fn in_unit(value: u64, unit: &str) -> String {
    if unit == "ns" { nanos(value) } else { format!("{} {unit}", count(value)) }
}

/// The section about steps back and about routes that disagree.
pub(super) fn order(page: &mut Page, report: &WrongnessReport) {
    if report.clocks.is_empty() {
        return;
    }
    page.section("Order");
    let back = report.clocks.iter().filter(|clock| clock.backward > 0).count();
    let wrong = report.clocks.iter().filter(|clock| !clock.sandwich_faults.is_empty()).count();
    page.paragraph(&match (back, wrong) {
        (0, 0) => "No clock went back on one CPU, and no two routes contradict each other.".to_owned(),
        _ => format!("Clocks that went back on one CPU: {back}. Clocks whose routes contradict each other: {wrong}."),
    });
    let mut table = Table::new(
        "Order on one CPU, and between routes",
        &["clock", "reads", "steps back", "the worst", "reads between routes", "out of order"],
    )
    .words(&[5]);
    for clock in &report.clocks {
        let faults = if clock.sandwich_faults.is_empty() {
            "none".to_owned()
        } else {
            clock.sandwich_faults.join("; ")
        };
        table.row(vec![
            clock.clock.clone(),
            count(clock.reads),
            count(clock.backward),
            in_unit(clock.worst_backward, &clock.unit),
            count(clock.sandwich_reads),
            faults,
        ]);
    }
    page.table(&table);
    for clock in report.clocks.iter().filter(|clock| !clock.burst.is_empty()) {
        let readings: Vec<String> = clock.burst.iter().map(ToString::to_string).collect();
        page.paragraph(&format!(
            "Readings of {} around its worst step back, in {}: {}.",
            clock.clock,
            clock.unit,
            readings.join(", ")
        ));
    }
}

/// The section about steps of the readings.
pub(super) fn resolution(page: &mut Page, report: &WrongnessReport) {
    let known: Vec<(&ClockRow, &Resolution)> = report
        .clocks
        .iter()
        .filter_map(|clock| Some((clock, clock.resolution.as_ref()?)))
        .collect();
    if known.is_empty() {
        return;
    }
    page.section("Resolution");
    let timed: Vec<_> = known.iter().filter(|(clock, _)| clock.unit == "ns").copied().collect();
    if !timed.is_empty() {
        let rows = Rows {
            title: "Least and largest step of each clock, and what clock_getres says".to_owned(),
            axis: "step from one reading to the next".to_owned(),
            unit: Unit::Nanos,
            wish: Wish::Logarithmic,
            groups: timed.iter().map(|(clock, steps)| group(clock, steps)).collect(),
            band: None,
            markers: Vec::new(),
        };
        let reading = "The line goes from the least step that is not zero to the largest; the dot \
            is the least, the upright stroke what clock_getres says. A largest step far to the \
            right is a moment in which this program did not run.";
        page.figure(&rows.draw(), &conclusion(&timed), reading);
    }
    let mut table = Table::new(
        "Steps of the readings",
        &[
            "clock",
            "clock_getres",
            "least step",
            "divisor of all",
            "largest step",
            "zero steps",
            "steps",
        ],
    );
    for (clock, steps) in &known {
        table.row(vec![
            clock.clock.clone(),
            steps.getres_ns.map_or_else(|| "-".to_owned(), nanos),
            in_unit(steps.min_step, &clock.unit),
            in_unit(steps.gcd, &clock.unit),
            in_unit(steps.max_step, &clock.unit),
            share(steps.zero_share),
            count(steps.steps),
        ]);
    }
    page.table(&table);
}

fn group(clock: &ClockRow, steps: &Resolution) -> Group {
    let (low, high) = (steps.min_step as f64, steps.max_step as f64);
    let mut marks = vec![Mark::Span(low, high, Colour::Sky), Mark::Dot(low, Colour::Blue)];
    if let Some(getres) = steps.getres_ns {
        marks.push(Mark::Tick(getres as f64, Colour::Vermillion));
    }
    let row = Row { label: String::new(), value: in_unit(steps.min_step, &clock.unit), marks };
    Group { name: clock.clock.clone(), rows: vec![row] }
}

/// The clock whose steps are furthest from what `clock_getres` says.
fn conclusion(clocks: &[(&ClockRow, &Resolution)]) -> String {
    let times =
        |steps: &Resolution| steps.min_step as f64 / (steps.getres_ns.unwrap_or(0) as f64).max(1.0);
    let stated = clocks.iter().filter(|(_, steps)| steps.getres_ns.is_some());
    let furthest = stated.max_by(|a, b| {
        let far = |steps| f64::abs(f64::ln(f64::max(times(steps), 1e-9)));
        far(a.1).total_cmp(&far(b.1))
    });
    match furthest {
        Some((clock, steps)) if steps.getres_ns != Some(steps.min_step) => format!(
            "{} steps by {} or more, though clock_getres says {}.",
            clock.clock,
            in_unit(steps.min_step, &clock.unit),
            nanos(steps.getres_ns.unwrap_or(0))
        ),
        Some(_) => "Every clock steps by what clock_getres says.".to_owned(),
        None => "No clock says by clock_getres how fine it is.".to_owned(),
    }
}
