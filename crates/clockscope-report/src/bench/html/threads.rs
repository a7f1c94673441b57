//! How paths scale with threads.

use super::paths::{full_name, joined};
use crate::chart::axis::Wish;
use crate::chart::curves::{Axis, Curves, Series, Shape, Size};
use crate::chart::palette::Colour;
use crate::chart::quantity::Unit;
use crate::page::{Page, Table};
use clockscope_model::bench::{BenchReport, PathName, ThreadsRow};
use clockscope_text::units::{picos, share};

/// More panels than this make the page long; the table has all.
const PANELS_MAX: usize = 12;
/// Below this efficiency threads wait for each other.
const SERIALISES_BELOW: f64 = 0.7;

/// The section, if threads were measured.
pub(super) fn section(page: &mut Page, report: &BenchReport) {
    if report.threads.is_empty() {
        return;
    }
    page.section("Threads");
    let paths = by_path(&report.threads);
    let panels: Vec<_> = paths.iter().take(PANELS_MAX).map(|rows| panel(rows).draw()).collect();
    let reading = "A path that nothing serialises stays on the dashed line: each thread calls as \
        often as one alone does.";
    page.figure(&panels, &conclusion(&paths), reading);
    if paths.len() > PANELS_MAX {
        page.paragraph(&format!("{} more paths are in the table only.", paths.len() - PANELS_MAX));
    }
    page.table(&table(&report.threads));
}

/// Rows of each path, by number of threads.
fn by_path(rows: &[ThreadsRow]) -> Vec<Vec<&ThreadsRow>> {
    let mut paths: Vec<(&PathName, Vec<&ThreadsRow>)> = Vec::new();
    for row in rows {
        match paths.iter_mut().find(|(name, _)| **name == row.name) {
            Some((_, rows)) => rows.push(row),
            None => paths.push((&row.name, vec![row])),
        }
    }
    let mut paths: Vec<Vec<&ThreadsRow>> = paths.into_iter().map(|(_, rows)| rows).collect();
    for rows in &mut paths {
        rows.sort_by_key(|row| row.threads);
    }
    paths
}

fn panel(rows: &[&ThreadsRow]) -> Curves {
    let name = rows.first().map_or_else(String::new, |row| full_name(&row.name));
    let route = rows.first().map_or("", |row| row.name.route.as_str());
    let measured = rows.iter().map(|row| (f64::from(row.threads), row.calls_per_second)).collect();
    let ideal = ideal_of_one(rows);
    let most = rows.iter().map(|row| row.threads).max().unwrap_or(1);
    let ideal = [1, most].map(|threads| (f64::from(threads), ideal * f64::from(threads)));
    let axis = |name: &str, unit, wish| Axis { name: name.to_owned(), unit, wish };
    let series =
        |name: &str, colour, shape, points| Series { name: name.to_owned(), colour, shape, points };
    Curves {
        title: format!("Calls a second of {name} against threads, with the ideal line"),
        x: axis("threads, each on a CPU of its own", Unit::Plain(String::new()), Wish::Whole),
        y: axis("calls a second, all threads", Unit::PerSecond, Wish::FromZero),
        series: vec![
            series("ideal", Colour::Faint, Shape::Dashed, ideal.to_vec()),
            series(&name, Colour::of_route(route), Shape::Dotted, measured),
        ],
        markers: Vec::new(),
        size: Size::Panel,
    }
}

/// Calls a second of one thread: as measured, or as the efficiency of more threads implies.
fn ideal_of_one(rows: &[&ThreadsRow]) -> f64 {
    let row = rows.iter().find(|row| row.threads == 1).or(rows.first());
    row.map_or(0.0, |row| {
        let ideal = row.calls_per_second / (f64::from(row.threads.max(1)) * row.efficiency);
        if row.threads == 1 { row.calls_per_second } else { ideal }
    })
}

fn conclusion(paths: &[Vec<&ThreadsRow>]) -> String {
    let most: Vec<&ThreadsRow> = paths
        .iter()
        .filter_map(|rows| rows.last().copied())
        .filter(|row| row.threads > 1 && row.efficiency.is_finite())
        .collect();
    let said = |row: &&ThreadsRow| {
        format!("{} ({} with {})", full_name(&row.name), share(row.efficiency), row.threads)
    };
    let (serial, free): (Vec<_>, Vec<_>) =
        most.iter().copied().partition(|row| row.efficiency < SERIALISES_BELOW);
    let least = free.iter().map(|row| row.efficiency).fold(f64::INFINITY, f64::min);
    if most.is_empty() {
        "Only one thread was measured: nothing can be said about scaling.".to_owned()
    } else if serial.is_empty() {
        format!(
            "Every path scales with threads: none falls below {} of the ideal rate.",
            share(least)
        )
    } else {
        let names: Vec<String> = serial.iter().map(said).collect();
        format!("Threads slow each other down in {}.", joined(&names, 4))
    }
}

fn table(rows: &[ThreadsRow]) -> Table {
    let mut table = Table::new(
        "Threads at once",
        &[
            "path",
            "threads",
            "CPUs",
            "calls a second",
            "efficiency",
            "median by thread",
            "minimum by thread",
            "grade",
        ],
    )
    .words(&[7]);
    let ends = |costs: &[u64]| match (costs.iter().min(), costs.iter().max()) {
        (Some(low), Some(high)) if picos(*low) != picos(*high) => {
            format!("{} to {}", picos(*low), picos(*high))
        }
        (Some(one), _) => picos(*one),
        _ => String::new(),
    };
    for row in rows {
        let cpus: Vec<String> = row.cpus.iter().map(ToString::to_string).collect();
        table.row(vec![
            full_name(&row.name),
            row.threads.to_string(),
            cpus.join(", "),
            Unit::PerSecond.text(row.calls_per_second),
            share(row.efficiency),
            ends(&row.cost_ps_by_thread),
            ends(&row.cost_ps_min_by_thread),
            row.grade.clone(),
        ]);
    }
    table
}
