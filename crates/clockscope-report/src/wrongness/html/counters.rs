//! Warp and offset between CPUs.

use crate::chart::axis::Wish;
use crate::chart::palette::Colour;
use crate::chart::quantity::{Unit, digits};
use crate::chart::rows::{Group, Mark, Row, Rows};
use crate::page::{Page, Table};
use clockscope_model::wrongness::{OffsetRow, WarpRow, WrongnessReport};
use clockscope_text::units::count;

fn pair(cpus: (u32, u32)) -> String {
    format!("{} and {}", cpus.0, cpus.1)
}

/// The section about warp, if it was looked for.
pub(super) fn warps(page: &mut Page, report: &WrongnessReport) {
    if report.warps.is_empty() {
        return;
    }
    page.section("Warp between CPUs");
    page.paragraph(&verdict(report));
    let mut table = Table::new(
        "Readings less than that of another CPU before",
        &["source", "CPUs", "hand-overs", "warps", "the worst", "floor", "verdict"],
    )
    .words(&[6]);
    for warp in &report.warps {
        let worst = format!("{} {}", count(warp.max_warp), warp.unit);
        let floor = warp.floor.map(|floor| format!("{} {}", count(floor), warp.unit));
        table.row(vec![
            warp.source.clone(),
            pair(warp.cpus),
            count(warp.handovers),
            count(warp.warps),
            if warp.warps == 0 { "-".to_owned() } else { worst },
            floor.unwrap_or_else(|| "-".to_owned()),
            word(warp),
        ]);
    }
    page.table(&table);
}

fn word(warp: &WarpRow) -> String {
    match (warp.warps, warp.random, warp.behind) {
        (0, ..) => "none seen".to_owned(),
        _ if warp.unordered => "not ordered: no fault".to_owned(),
        (_, true, _) => "both ways: not usable".to_owned(),
        (_, false, Some(cpu)) => format!("CPU {cpu} is behind"),
        (_, false, None) => "warp".to_owned(),
    }
}

fn verdict(report: &WrongnessReport) -> String {
    let found = report.warps.iter().filter(|warp| warp.warps > 0 && !warp.unordered);
    if let Some(worst) = found.max_by_key(|warp| warp.max_warp) {
        return format!(
            "{} goes back by up to {} {} between CPUs {}: {}.",
            worst.source,
            count(worst.max_warp),
            worst.unit,
            pair(worst.cpus),
            word(worst)
        );
    }
    let early = report.warps.iter().filter(|warp| warp.warps > 0).max_by_key(|warp| warp.max_warp);
    let early = early.map_or_else(String::new, |warp| {
        format!(
            " {} went back by up to {} {}, because nothing orders it: it may be read before its \
             turn, which is no fault of the counter.",
            warp.source,
            count(warp.max_warp),
            warp.unit
        )
    });
    let warps: Vec<&WarpRow> = report.warps.iter().filter(|warp| warp.warps == 0).collect();
    let turns = warps.iter().fold(0_u64, |sum, warp| sum.saturating_add(warp.handovers));
    let mut units: Vec<&str> = warps.iter().map(|warp| warp.unit.as_str()).collect();
    units.sort_unstable();
    units.dedup();
    let floors = units.iter().filter_map(|unit| {
        let of_unit = warps.iter().filter(|warp| warp.unit == *unit);
        let floor = of_unit.filter_map(|warp| warp.floor).max()?;
        Some(format!("{} {unit}", count(floor)))
    });
    let floors: Vec<String> = floors.collect();
    let floor = if floors.is_empty() {
        String::new()
    } else {
        format!(" A warp below the floor ({} at most) cannot be seen.", floors.join(", "))
    };
    format!(
        "No ordered reading was less than that of another CPU before, in {} hand-overs.{floor}{early}",
        count(turns)
    )
}

/// The section about offsets, if they were measured.
pub(super) fn offsets(page: &mut Page, report: &WrongnessReport) {
    if report.offsets.is_empty() {
        return;
    }
    page.section("Offset between CPUs");
    let mut units: Vec<&str> = report.offsets.iter().map(|row| row.unit.as_str()).collect();
    units.sort_unstable();
    units.dedup();
    for unit in units {
        let rows: Vec<&OffsetRow> = report.offsets.iter().filter(|row| row.unit == unit).collect();
        figure(page, unit, &rows);
    }
    let mut table = Table::new(
        "Offset of the second CPU's reading to the first's",
        &["source", "CPUs", "offset", "error", "interval of all exchanges", "exchanges", "skew"],
    )
    .words(&[6]);
    for row in &report.offsets {
        let unit = &row.unit;
        table.row(vec![
            row.source.clone(),
            pair(row.cpus),
            format!("{} {unit}", row.offset),
            format!("\u{b1}{} {unit}", count(row.error)),
            format!("{} to {} {unit}", row.interval.0, row.interval.1),
            count(row.exchanges),
            if row.proven { "proven" } else { "not proven" }.to_owned(),
        ]);
    }
    page.table(&table);
}

fn figure(page: &mut Page, unit: &str, offsets: &[&OffsetRow]) {
    let mut groups: Vec<Group> = Vec::new();
    for row in offsets {
        let colour = if row.proven { Colour::Vermillion } else { Colour::Blue };
        let (low, high) = row.interval;
        let mark = Mark::Interval(low as f64, row.offset as f64, high as f64, colour);
        let label = format!("CPUs {}", pair(row.cpus));
        let drawn = Row { label, value: digits(row.offset as f64), marks: vec![mark] };
        match groups.last_mut().filter(|group| group.name == row.source) {
            Some(group) => group.rows.push(drawn),
            None => groups.push(Group { name: row.source.clone(), rows: vec![drawn] }),
        }
    }
    let rows = Rows {
        title: "Offset between counters of pairs of CPUs, with the interval that holds it"
            .to_owned(),
        axis: format!("offset in {unit}"),
        unit: Unit::Plain(String::new()),
        wish: Wish::FromZero,
        groups,
        band: None,
        markers: vec![(0.0, "no offset".to_owned())],
    };
    let reading = "The line is the interval that holds the offset by all exchanges, the dot the \
        estimate of the shortest one. A line that misses zero proves skew.";
    page.figure(&rows.draw(), &skew(offsets, unit), reading);
}

fn skew(offsets: &[&OffsetRow], unit: &str) -> String {
    let proven = offsets.iter().filter(|row| row.proven);
    if let Some(worst) = proven.max_by_key(|row| row.offset.unsigned_abs()) {
        return format!(
            "The counters of CPUs {} are apart: {} by {} {unit} (from {} to {}).",
            pair(worst.cpus),
            worst.source,
            worst.offset,
            worst.interval.0,
            worst.interval.1
        );
    }
    let widest =
        |row: &&&OffsetRow| row.interval.0.unsigned_abs().max(row.interval.1.unsigned_abs());
    let widest = offsets.iter().map(|row| widest(&row)).max().unwrap_or(0);
    format!(
        "Every interval holds zero: no skew is proven, and none can be larger than {} {unit}.",
        count(widest)
    )
}
