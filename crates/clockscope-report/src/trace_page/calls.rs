//! The table of calls, and how long single calls took.

use super::super::answers;
use super::super::chart::axis::Wish;
use super::super::chart::palette::Colour;
use super::super::chart::quantity::Unit;
use super::super::chart::rows::{Group, Mark, Row, Rows, Side};
use super::super::entries::{self, Calls, Entry};
use super::super::page::{Cell, Page, Table};
use crate::text::SortBy;
use clockscope_model::trace::{Latency, TraceReport};
use clockscope_text::units::{count, nanos, picos, rate, share};

/// Rows of the figure.
const SPREADS_MAX: usize = 24;
/// Values that stand for a distribution in the figure.
const VALUES: u64 = 1_500;
/// Columns of the table that are there always.
const COLUMNS: [&str; 7] = ["call", "via", "calls", "calls/s", "time", "share", "average"];

/// Both.
pub(super) fn section(page: &mut Page, report: &TraceReport) {
    let syscalls_timed = entries::were_timed(&report.syscalls);
    let all = Calls { vdso: &report.vdso, syscalls: &report.syscalls, syscalls_timed };
    let rows = all.entries(SortBy::Time);
    page.section("The calls");
    if rows.is_empty() {
        page.paragraph("No call was counted.");
        return;
    }
    page.table(&table(report, &rows));
    page.paragraph("Shares are of the time of all rows.");
    spreads(page, report, &rows);
}

#[expect(clippy::cast_precision_loss, reason = "keys to sort by, and rates of three digits")]
fn table(report: &TraceReport, rows: &[Entry]) -> Table {
    let has_latency = rows.iter().any(|row| row.latency.is_some());
    let mut columns = COLUMNS.to_vec();
    if has_latency {
        columns.extend(["p50", "p90", "p99", "max"]);
    }
    columns.push("errors");
    let total = rows.iter().fold(0_u64, |sum, row| sum.saturating_add(row.time_ns.unwrap_or(0)));
    let seconds = report.wall_ns as f64 / 1e9;
    let mut table = Table::new("Calls of all processes", &columns).words(&[1]).sorted_by(4);
    let unknown = || Cell::from("-".to_owned());
    let time = |ns: Option<u64>| ns.map_or_else(unknown, |ns| Cell::number(nanos(ns), ns as f64));
    for row in rows {
        let a_second = row.calls as f64 / seconds;
        let part = row.time_ns.filter(|_| total > 0).map(|ns| answers::ratio(ns, total));
        let mut cells = vec![
            Cell::from(row.name.clone()),
            Cell::from(row.via.to_owned()),
            Cell::number(count(row.calls), row.calls as f64),
            rate(a_second).map_or_else(unknown, |text| Cell::number(text, a_second)),
            time(row.time_ns),
            part.map_or_else(unknown, |part| Cell::number(narrow(&share(part)), part)),
            row.average_ps.map_or_else(unknown, |ps| Cell::number(picos(ps), ps as f64)),
        ];
        if has_latency {
            let percentiles: [fn(&Latency) -> u64; 4] =
                [|l| l.p50, |l| l.p90, |l| l.p99, |l| l.max];
            cells.extend(percentiles.map(|of| time(row.latency.map(of))));
        }
        let errors = row.errors as f64;
        cells.push(if row.errors == 0 {
            unknown()
        } else {
            Cell::number(count(row.errors), errors)
        });
        table.cells(cells);
    }
    table
}

/// The figure of distributions.
#[expect(clippy::cast_precision_loss, reason = "for a picture")]
fn spreads(page: &mut Page, report: &TraceReport, rows: &[Entry]) {
    let known: Vec<(&Entry, &Latency)> = rows
        .iter()
        .filter_map(|row| row.latency.map(|latency| (row, latency)))
        .filter(|(_, latency)| latency.buckets.iter().any(|(_, calls)| *calls > 0))
        .collect();
    let is_vdso = |row: &Entry| row.via == "vdso";
    let most_calls = known.iter().copied().max_by_key(|(row, _)| (is_vdso(row), row.calls));
    let Some((first, latency)) = most_calls else { return };
    page.subheading("How long single calls took");
    let mut groups: Vec<Group> = Vec::new();
    for (row, latency) in known.iter().take(SPREADS_MAX) {
        let is_vdso = row.via == "vdso";
        let colour = if is_vdso { Colour::Green } else { Colour::Vermillion };
        let values = values(latency);
        // Functions with clocks have a group each, so that there is room for the clocks.
        let (group, label) = match row.name.strip_suffix(')').and_then(|n| n.split_once('(')) {
            Some((function, clock)) if is_vdso => (function, clock),
            _ => (if is_vdso { "vDSO" } else { "system calls" }, row.name.as_str()),
        };
        let place = groups.iter().position(|known| known.name == group).unwrap_or_else(|| {
            groups.push(Group { name: group.to_owned(), rows: Vec::new() });
            groups.len() - 1
        });
        groups[place].rows.push(Row {
            label: label.to_owned(),
            value: nanos(latency.p50),
            marks: vec![
                Mark::Lane(values, Side::Above, colour),
                Mark::Span(latency.p50.max(1) as f64, latency.p99.max(1) as f64, colour),
                Mark::Tick(latency.p50.max(1) as f64, Colour::Ink),
            ],
        });
    }
    groups.sort_by_key(|group| group.name == "system calls");
    let syscall_ns = report.clock_reads.syscall_read_ps as f64 / 1e3;
    let markers =
        if syscall_ns > 0.0 { vec![(syscall_ns, "by system call".to_owned())] } else { Vec::new() };
    let rows = Rows {
        title: "Distribution of the time of single calls".to_owned(),
        axis: "time of a call".to_owned(),
        unit: Unit::Nanos,
        wish: Wish::Logarithmic,
        groups,
        band: None,
        markers,
    };
    let conclusion = format!(
        "Half of the calls of {} took {} or less, one in a hundred {} or more.",
        first.name,
        nanos(latency.p50),
        nanos(latency.p99)
    );
    let cut = match known.len().saturating_sub(SPREADS_MAX) {
        0 => String::new(),
        more => format!(" {more} more are in the table only."),
    };
    let reading = format!(
        "The hills are the calls that were timed, as high as the root of their number. The short \
         upright line is the median, printed at the end too; the coloured line goes on to the 99th \
         percentile.{cut}"
    );
    page.figure(&rows.draw(), &conclusion, &reading);
}

/// `less than 0.01 %` in fewer letters.
fn narrow(share: &str) -> String {
    share.replace("less than", "<")
}

/// Values that are distributed as the calls in the buckets; each bucket has some, so that a single
/// slow call is seen too.
#[expect(clippy::cast_precision_loss, reason = "for a picture")]
fn values(latency: &Latency) -> Vec<f64> {
    let total: u128 = latency.buckets.iter().map(|(_, calls)| u128::from(*calls)).sum();
    let mut values = Vec::new();
    for (index, (lower, calls)) in latency.buckets.iter().enumerate().filter(|(_, b)| b.1 > 0) {
        let wanted = u128::from(*calls) * u128::from(VALUES) / total.max(1);
        let number = u32::try_from(wanted.max(2)).unwrap_or(u32::MAX);
        // Buckets are a sixteenth of their value wide at most, and do not overlap.
        let next = latency.buckets.get(index + 1).map_or(u64::MAX, |bucket| bucket.0);
        let width = (lower / 16).max(1).min(next.saturating_sub(*lower).max(1)) as f64;
        let step = width / f64::from(number);
        let low = (*lower as f64).max(0.5);
        values.extend((0..number).map(|n| low + step * (f64::from(n) + 0.5)));
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_lie_in_their_buckets_and_none_is_forgotten() {
        let buckets = vec![(20, 1_000_000), (21, 500_000), (3_000, 1)];
        let values = values(&Latency { buckets, ..Latency::default() });
        let inside =
            |low: f64, high: f64| values.iter().filter(|v| **v > low && **v < high).count();
        assert!((990..1_010).contains(&inside(20.0, 21.0)), "{}", inside(20.0, 21.0));
        assert_eq!(inside(21.0, 22.0), 499);
        assert_eq!(inside(3_000.0, 3_187.0), 2);
        assert_eq!(values.len(), inside(0.0, 3_200.0));
    }
}
