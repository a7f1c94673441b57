//! What one call adds inside work, and its instructions.

use super::paths::{full_name, joined};
use crate::chart::axis::Wish;
use crate::chart::palette::Colour;
use crate::chart::quantity::{Unit, digits};
use crate::chart::rows::{Group, Mark, Row, Rows};
use crate::page::{Page, Table};
use clockscope_model::bench::{BenchReport, InWorkRow, Instructions, InstructionsRow};
use clockscope_text::units::{count, picos};

/// The section about work, if that was measured.
pub(super) fn in_work(page: &mut Page, report: &BenchReport) {
    if report.in_work.is_empty() {
        return;
    }
    page.section("Inside work");
    let groups = report.in_work.iter().map(|row| Group {
        name: full_name(&row.name),
        rows: vec![
            bar("alone", row.alone_ps as f64, None, Colour::Faint),
            bar("compute", row.compute_ps as f64, Some(row.compute_ci_ps), Colour::Blue),
            bar("memory", row.memory_ps as f64, Some(row.memory_ci_ps), Colour::Orange),
        ],
    });
    let rows = Rows {
        title: "Cost of one call alone, and what it adds inside work".to_owned(),
        axis: "time of one call".to_owned(),
        unit: Unit::Picos,
        wish: Wish::FromZero,
        groups: groups.collect(),
        band: None,
        markers: Vec::new(),
    };
    page.figure(
        &rows.draw(),
        &conclusion(&report.in_work),
        "Alone: calls back to back. Compute: added to about 10 ns of independent multiplications. \
         Memory: added to one random load from 64 MiB. An ordered read makes the work around it \
         wait, which back-to-back calls do not show. The line is the interval.",
    );
    page.table(&table(&report.in_work));
}

fn bar(label: &str, value: f64, interval: Option<(i64, i64)>, colour: Colour) -> Row {
    let mut marks = vec![Mark::Bar(value, colour)];
    if let Some((low, high)) = interval {
        marks.push(Mark::Whisker(low as f64, high as f64));
    }
    Row { label: label.to_owned(), value: Unit::Picos.text(value), marks }
}

/// The path that work makes dearest, beside what it costs alone.
fn conclusion(rows: &[InWorkRow]) -> String {
    let added = |row: &InWorkRow| row.memory_ps.max(row.compute_ps);
    let times = |row: &InWorkRow| added(row) as f64 / (row.alone_ps as f64).max(1.0);
    let Some(row) = rows.iter().max_by(|a, b| times(a).total_cmp(&times(b))) else {
        return "Nothing was measured inside work.".to_owned();
    };
    format!(
        "{} costs {} back to back, and adds {} to compute-bound and {} to memory-bound work: up to \
         {} times as much.",
        full_name(&row.name),
        picos(row.alone_ps),
        Unit::Picos.text(row.compute_ps as f64),
        Unit::Picos.text(row.memory_ps as f64),
        digits(times(row)),
    )
}

fn table(rows: &[InWorkRow]) -> Table {
    let mut table = Table::new(
        "What one call adds",
        &[
            "path",
            "alone",
            "compute-bound",
            "its interval",
            "memory-bound",
            "its interval",
            "grade",
        ],
    )
    .words(&[6]);
    let time = |ps: i64| Unit::Picos.text(ps as f64);
    let interval = |(low, high): (i64, i64)| format!("{} to {}", time(low), time(high));
    for row in rows {
        table.row(vec![
            full_name(&row.name),
            picos(row.alone_ps),
            time(row.compute_ps),
            interval(row.compute_ci_ps),
            time(row.memory_ps),
            interval(row.memory_ci_ps),
            row.grade.clone(),
        ]);
    }
    table
}

/// The section about instructions, if they were counted.
pub(super) fn instructions(page: &mut Page, report: &BenchReport) {
    let Some(instructions) = &report.instructions else { return };
    page.section("Instructions of one call");
    page.list(&kernel_entries(instructions));
    if let Some(reason) = &instructions.no_counters {
        page.paragraph(&format!("Hardware counters: {reason}."));
    }
    let counted = instructions.rows.iter().any(|row| row.counted.is_some());
    let mut columns = vec!["path", "user", "of them in the vDSO", "system calls", "repeats alike"];
    if counted {
        columns.extend(["user and kernel", "user by counters", "cycles", "per cycle"]);
    }
    let mut table = Table::new("Instructions of one call, the loop subtracted", &columns);
    for row in &instructions.rows {
        table.row(cells(row));
    }
    page.table(&table);
}

fn cells(row: &InstructionsRow) -> Vec<String> {
    let whole = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), count);
    let real = |number: Option<f64>| number.map_or_else(|| "-".to_owned(), digits);
    let alike = row.agreeing.map(|(alike, made)| format!("{alike} of {made}"));
    vec![
        full_name(&row.name),
        whole(row.user),
        whole(row.in_vdso),
        whole(row.syscalls),
        alike.unwrap_or_else(|| "-".to_owned()),
        real(row.counted),
        real(row.counted_user),
        real(row.cycles),
        real(row.ipc),
    ]
}

/// Which paths enter the kernel, for certain.
fn kernel_entries(instructions: &Instructions) -> Vec<String> {
    let named = |enters: bool| {
        let rows = instructions.rows.iter();
        let rows = rows.filter(move |row| row.syscalls.is_some_and(|n| (n > 0) == enters));
        rows.map(|row| full_name(&row.name)).collect::<Vec<_>>()
    };
    let (inside, outside) = (named(true), named(false));
    let mut sentences = Vec::new();
    if !outside.is_empty() {
        sentences.push(format!("Never enter the kernel: {}.", joined(&outside, 12)));
    }
    if !inside.is_empty() {
        sentences.push(format!("Enter the kernel: {}.", joined(&inside, 12)));
    }
    sentences
}
