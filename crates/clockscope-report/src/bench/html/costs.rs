//! Costs by path with their spread, and ratios.

use super::paths::{by_route, by_subject, full_name, is_empty_loop, joined, subject};
use crate::chart::axis::Wish;
use crate::chart::palette::Colour;
use crate::chart::quantity::{Unit, digits};
use crate::chart::rows::{Group, Mark, Row, Rows, Side};
use crate::page::{Page, Table};
use clockscope_model::bench::{BenchReport, PathRow, RatioRow};
use clockscope_text::units::{count, counted, picos};

/// The clock to speak of if it is there.
const PREFERRED: &str = "CLOCK_MONOTONIC";
/// Batches that do not count are shown up to this many times the greatest median: a few of them are
/// so dear that they would squeeze all else.
const BEYOND: u64 = 4;

/// The section with the picture and the table of all paths.
pub(super) fn section(page: &mut Page, report: &BenchReport) {
    page.section("Costs by path");
    if report.paths.is_empty() {
        page.paragraph("No path was measured.");
        return;
    }
    let groups = by_subject(&report.paths, |path: &PathRow| &path.name);
    let dearest = report.paths.iter().map(|path| path.cost_ps_median).max().unwrap_or(0);
    let end = dearest.saturating_mul(BEYOND);
    let rows = Rows {
        title: "Cost of one call by path, with the spread of its batches".to_owned(),
        axis: "cost of one call".to_owned(),
        unit: Unit::Picos,
        wish: Wish::Fitting,
        groups: groups.iter().map(|(name, paths)| group(name, paths, end)).collect(),
        band: None,
        markers: Vec::new(),
    };
    let conclusion = cheapest_and_dearest(&report.paths)
        .or_else(|| report.paths.first().map(costs))
        .unwrap_or_default();
    page.figure(&rows.draw(), &conclusion, &reading(&report.paths, end));
    page.table(&table(&report.paths));
    let regimes = report.paths.iter().filter_map(|path| {
        let regimes = path.regimes.as_ref()?;
        Some(format!("{}: {regimes}", full_name(&path.name)))
    });
    let regimes: Vec<String> = regimes.collect();
    if !regimes.is_empty() {
        page.subheading("Launches that differ by more than 5 %");
        page.list(&regimes);
    }
}

const READING: &str = "In colour, above each line: batches that ran undisturbed. In grey, below it: \
    batches that did not, and do not count. The higher, the more batches. The dot is the median, \
    with the ends of its interval.";

/// How to read the picture, with a word on what is not in it.
fn reading(paths: &[PathRow], end: u64) -> String {
    let beyond = paths.iter().flat_map(|path| &path.rejected_ps).filter(|ps| **ps > end).count();
    let beyond = u64::try_from(beyond).unwrap_or(u64::MAX);
    if beyond == 0 {
        return READING.to_owned();
    }
    format!(
        "{READING} Not shown: {} that did not count, above {}.",
        counted(beyond, "batch", "batches"),
        picos(end)
    )
}

fn group(name: &str, paths: &[&PathRow], end: u64) -> Group {
    Group { name: name.to_owned(), rows: paths.iter().map(|path| row(path, end)).collect() }
}

fn row(path: &PathRow, end: u64) -> Row {
    let route = if is_empty_loop(&path.name) { "" } else { path.name.route.as_str() };
    let label = match path.grade.as_str() {
        "quiet" | "" => route.to_owned(),
        grade => format!("{route}, {grade}").trim_start_matches(", ").to_owned(),
    };
    let values = |samples: &[u64]| samples.iter().map(|ps| *ps as f64).collect::<Vec<_>>();
    let mut marks = Vec::new();
    let colour = Colour::of_route(&path.name.route);
    let rejected: Vec<u64> = path.rejected_ps.iter().copied().filter(|ps| *ps <= end).collect();
    if !rejected.is_empty() {
        marks.push(Mark::Lane(values(&rejected), Side::Below, Colour::Faint));
    }
    if !path.samples_ps.is_empty() {
        marks.push(Mark::Lane(values(&path.samples_ps), Side::Above, colour));
    }
    marks.push(Mark::Interval(
        path.cost_ps_ci_low as f64,
        path.cost_ps_median as f64,
        path.cost_ps_ci_high as f64,
        colour,
    ));
    Row { label, value: picos(path.cost_ps_median), marks }
}

fn table(paths: &[PathRow]) -> Table {
    let mut table = Table::new(
        "Cost of one call",
        &[
            "path",
            "median",
            "interval",
            "minimum",
            "5 to 95 % of all",
            "batches that count",
            "by launch",
            "grade",
        ],
    )
    .words(&[7]);
    for path in paths {
        let launches: Vec<u64> = path.launches.iter().map(|one| one.cost_ps_median).collect();
        let launches = match (launches.iter().min(), launches.iter().max()) {
            (Some(low), Some(high)) => range(*low, *high),
            _ => String::new(),
        };
        table.row(vec![
            full_name(&path.name),
            picos(path.cost_ps_median),
            range(path.cost_ps_ci_low, path.cost_ps_ci_high),
            picos(path.cost_ps_min),
            range(path.cost_ps_p5, path.cost_ps_p95),
            format!("{} of {}", count(path.accepted), count(path.batches)),
            launches,
            path.grade.clone(),
        ]);
    }
    table
}

/// `21.6 to 21.9 ns`, or one figure if both are printed alike.
fn range(low: u64, high: u64) -> String {
    let (low, high) = (picos(low), picos(high));
    match (low.split_once(' '), high.split_once(' ')) {
        _ if low == high => low,
        (Some((number, unit)), Some((_, same))) if unit == same => format!("{number} to {high}"),
        _ => format!("{low} to {high}"),
    }
}

fn costs(path: &PathRow) -> String {
    format!("{} costs {}.", full_name(&path.name), picos(path.cost_ps_median))
}

/// What one clock costs by its routes: `CLOCK_MONOTONIC` if it is there, or else that with most
/// routes.
pub(super) fn routes_of_one_clock(report: &BenchReport) -> Option<String> {
    let mut groups = by_subject(&report.paths, |path: &PathRow| &path.name);
    groups.retain(|(_, paths)| paths.len() > 1);
    let most = groups.iter().map(|(_, paths)| paths.len()).max()?;
    let preferred = groups.iter().find(|(name, _)| *name == PREFERRED);
    let (name, paths) = preferred.or_else(|| groups.iter().find(|(_, p)| p.len() == most))?;
    let of_group = |ratio: &&RatioRow| {
        ratio.of.clock.as_deref() == Some(name) && ratio.to.clock.as_deref() == Some(name)
    };
    let ratio = report.ratios.iter().filter(of_group).max_by(|a, b| a.ratio.total_cmp(&b.ratio));
    let mut parts: Vec<String> = Vec::new();
    for path in paths {
        let cost = picos(path.cost_ps_median);
        parts.push(format!("{cost} {}", by_route(&path.name.route)));
    }
    let mut sentence = format!("{name} costs {}.", joined(&parts, 5));
    if let Some(ratio) = ratio.filter(|ratio| ratio.ratio.is_finite()) {
        sentence.push_str(&format!(
            " It costs {} times as much {} as {}.",
            digits(ratio.ratio),
            by_route(&ratio.of.route),
            by_route(&ratio.to.route)
        ));
    }
    Some(sentence)
}

/// The ends of the list, the empty loop left out.
pub(super) fn cheapest_and_dearest(paths: &[PathRow]) -> Option<String> {
    let real = || paths.iter().filter(|path| !is_empty_loop(&path.name));
    let low = real().min_by_key(|path| path.cost_ps_median)?;
    let high = real().max_by_key(|path| path.cost_ps_median)?;
    if low.cost_ps_median == high.cost_ps_median {
        return None;
    }
    let times = high.cost_ps_median as f64 / (low.cost_ps_median as f64).max(1.0);
    Some(format!(
        "The cheapest is {} at {}; the dearest is {} at {}, {} times as much.",
        full_name(&low.name),
        picos(low.cost_ps_median),
        full_name(&high.name),
        picos(high.cost_ps_median),
        digits(times),
    ))
}

/// The section of ratios, if there are any.
pub(super) fn ratios(page: &mut Page, report: &BenchReport) {
    if report.ratios.is_empty() {
        return;
    }
    page.section("Ratios");
    let mut table =
        Table::new("Costs divided, from the same rounds", &["of", "to", "ratio", "interval"])
            .words(&[1]);
    let mut groups: Vec<Group> = Vec::new();
    for ratio in &report.ratios {
        let value = digits(ratio.ratio);
        let interval = format!("{} to {}", digits(ratio.ci_low), digits(ratio.ci_high));
        table.row(vec![full_name(&ratio.of), full_name(&ratio.to), value.clone(), interval]);
        let colour = Colour::of_route(&ratio.of.route);
        let mark = Mark::Interval(ratio.ci_low, ratio.ratio, ratio.ci_high, colour);
        let (name, to) = (subject(&ratio.of), subject(&ratio.to));
        let to = if name == to { &ratio.to.route } else { to };
        let label = format!("{} / {to}", ratio.of.route);
        let row = Row { label, value, marks: vec![mark] };
        match groups.iter_mut().find(|group| group.name == name) {
            Some(group) => group.rows.push(row),
            None => groups.push(Group { name: name.to_owned(), rows: vec![row] }),
        }
    }
    let rows = Rows {
        title: "Costs of pairs of paths divided".to_owned(),
        axis: "quotient of the costs".to_owned(),
        unit: Unit::Plain(String::new()),
        wish: Wish::Fitting,
        groups,
        band: None,
        markers: vec![(1.0, "equal".to_owned())],
    };
    page.figure(
        &rows.draw(),
        &largest(&report.ratios),
        "Both costs of a quotient are of the same rounds, so that what disturbed one disturbed the \
         other. The line is the interval.",
    );
    page.table(&table);
}

fn largest(ratios: &[RatioRow]) -> String {
    let known = ratios.iter().filter(|ratio| ratio.ratio.is_finite());
    match known.max_by(|a, b| a.ratio.total_cmp(&b.ratio)) {
        Some(ratio) => format!(
            "{} costs {} times as much as {} (from {} to {}).",
            full_name(&ratio.of),
            digits(ratio.ratio),
            full_name(&ratio.to),
            digits(ratio.ci_low),
            digits(ratio.ci_high)
        ),
        None => "No ratio could be computed.".to_owned(),
    }
}
