//! The table: cells of each column, drawn below their heads as by `strace -c`.

use super::entries::{Entry, Kind, sum_of_known};
use clockscope_model::trace::Via;
use clockscope_text::lines::{WIDTH, cut_middle, width};
use clockscope_text::style::standing_out;
use clockscope_text::units;

/// Least width of a name: the other columns leave at least this much.
pub(super) const NAME_MIN: usize = 8;

/// A column of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    /// Share of the time of all calls, in percent.
    TimePercent,
    /// Time of all calls, in seconds.
    Seconds,
    /// Average time of one call, in microseconds.
    Average,
    /// Number of calls.
    Calls,
    /// Number of calls that returned an error.
    Errors,
    /// How the call got its answer: `vdso` or `syscall`.
    Via,
    /// Name of the system call, or of the vDSO function and its clock.
    Name,
    /// Median time of one call.
    P50,
    /// 90th percentile of the time of one call.
    P90,
    /// 99th percentile of the time of one call.
    P99,
    /// The longest call.
    Max,
}

/// The table of `entries` with a total line; without entries, a line that says so. Names are cut to keep
/// lines within `limit`. If the table is `coloured`, rows of vDSO calls, which no other tool counts, stand
/// out.
pub(super) fn render(entries: &[Entry], limit: usize, coloured: bool) -> String {
    const COLUMNS: [Column; 7] = [
        Column::TimePercent,
        Column::Seconds,
        Column::Average,
        Column::Calls,
        Column::Errors,
        Column::Via,
        Column::Name,
    ];
    if entries.is_empty() {
        return "no calls were counted\n".to_owned();
    }
    let total = Total::of(entries);
    let mut rows = cells(entries, &COLUMNS, &total);
    rows.push(COLUMNS.map(|column| total.cell(column)).to_vec());
    drawn(&COLUMNS.map(Head::of), rows, true, (NAME_MIN, limit), &marks(entries, coloured))
}

/// A row for each entry.
fn cells(entries: &[Entry], columns: &[Column], total: &Total) -> Vec<Vec<String>> {
    let row = |entry: &Entry| columns.iter().map(|column| cell(*column, entry, total)).collect();
    entries.iter().map(row).collect()
}

/// Whether the row of each entry stands out.
fn marks(entries: &[Entry], coloured: bool) -> Vec<bool> {
    entries.iter().map(|entry| coloured && entry.via == Some(Via::Vdso)).collect()
}

/// The distributions of all entries that have one; empty if none has.
pub(super) fn latencies(entries: &[Entry], coloured: bool) -> String {
    const COLUMNS: [Column; 6] =
        [Column::P50, Column::P90, Column::P99, Column::Max, Column::Via, Column::Name];
    let total = Total::of(entries);
    let entries: Vec<Entry> =
        entries.iter().filter(|entry| entry.latency.is_some()).cloned().collect();
    if entries.is_empty() {
        return String::new();
    }
    let (rows, heads) = (cells(&entries, &COLUMNS, &total), COLUMNS.map(Head::of));
    drawn(&heads, rows, false, (NAME_MIN, WIDTH), &marks(&entries, coloured))
}

/// Sums over all rows; times without those of calls that wait. The sums are wide, so no report overflows them.
struct Total {
    /// `None` if no row was timed.
    time_ns: Option<u128>,
    timed_calls: u128,
    calls: u128,
    /// `None` if the errors of one row are unknown.
    errors: Option<u64>,
}

impl Total {
    fn of(entries: &[Entry]) -> Total {
        let timed = || entries.iter().filter(|e| e.time_ns.is_some() && e.kind != Kind::Waiting);
        Total {
            time_ns: timed()
                .next()
                .map(|_| timed().filter_map(|e| e.time_ns).map(u128::from).sum()),
            timed_calls: timed().map(|e| u128::from(e.timed_calls)).sum(),
            calls: entries.iter().map(|e| u128::from(e.calls)).sum(),
            errors: sum_of_known(entries),
        }
    }

    fn cell(&self, column: Column) -> String {
        match column {
            Column::TimePercent => percent(self.time_ns, self.time_ns),
            Column::Seconds => self.time_ns.map_or_else(dash, seconds),
            Column::Average => match self.time_ns {
                Some(ns) if self.timed_calls > 0 => micros(ns * 1_000 / self.timed_calls),
                _ => dash(),
            },
            Column::Calls => number(self.calls),
            Column::Errors => errors(self.errors),
            Column::Name => "total".to_owned(),
            Column::Via | Column::P50 | Column::P90 | Column::P99 | Column::Max => String::new(),
        }
    }
}

fn cell(column: Column, entry: &Entry, total: &Total) -> String {
    let time_ns = entry.time_ns.map(u128::from);
    let latency = |value: fn(&clockscope_model::trace::Latency) -> u64| {
        entry.latency.map_or_else(String::new, |l| units::nanos(value(l)).replace(' ', ""))
    };
    match column {
        Column::TimePercent if entry.kind == Kind::Waiting => WAITS.to_owned(),
        Column::TimePercent => percent(time_ns, total.time_ns),
        Column::Seconds => time_ns.map_or_else(dash, seconds),
        Column::Average => entry.average_ps.map_or_else(dash, |ps| micros(u128::from(ps))),
        Column::Calls => number(u128::from(entry.calls)),
        Column::Errors => errors(entry.errors),
        Column::Via => entry.via.map_or("", Via::name).to_owned(),
        Column::Name => entry.name.clone(),
        Column::P50 => latency(|l| l.p50),
        Column::P90 => latency(|l| l.p90),
        Column::P99 => latency(|l| l.p99),
        Column::Max => latency(|l| l.max),
    }
}

/// Stands for the share of a call that waits.
const WAITS: &str = "waits";

/// Blank for no errors, a dash if unknown.
fn errors(errors: Option<u64>) -> String {
    errors.map_or_else(dash, |errors| number_or_blank(u128::from(errors)))
}

/// Stands for a missing figure.
fn dash() -> String {
    "-".to_owned()
}

fn percent(part: Option<u128>, whole: Option<u128>) -> String {
    let (Some(part), Some(whole)) = (part, whole) else { return dash() };
    let hundredths = (part * 10_000 + whole / 2).checked_div(whole).unwrap_or(0);
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

fn seconds(ns: u128) -> String {
    let us = (ns + 500) / 1_000;
    let text = format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    if text.len() > 14 { format!("{:.4e}", us / 1_000_000) } else { text }
}

/// Microseconds with three decimals, which are nanoseconds.
fn micros(ps: u128) -> String {
    let ns = (ps + 500) / 1_000;
    let text = format!("{}.{:03}", ns / 1_000, ns % 1_000);
    if text.len() > 14 { format!("{:.4e}", ns / 1_000) } else { text }
}

fn number(count: u128) -> String {
    if count < 1_000_000_000_000 { count.to_string() } else { format!("{count:.4e}") }
}

fn number_or_blank(count: u128) -> String {
    if count == 0 { String::new() } else { number(count) }
}

/// Head of a column, and the alignment of its cells.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) text: &'static str,
    /// Least width: that of the usual content, which makes the tables of a run look alike.
    pub(super) least: usize,
    pub(super) is_left: bool,
}

impl Head {
    /// The column of names, which are cut if a line is too long.
    pub(super) const NAME: Head = Head { text: "name", least: 4, is_left: true };

    fn of(column: Column) -> Head {
        let (text, least) = match column {
            Column::TimePercent => ("% time", 6),
            Column::Seconds => ("seconds", 8),
            Column::Average => ("usecs/call", 10),
            Column::Calls => ("calls", 6),
            Column::Errors => ("errors", 6),
            Column::Via => ("via", "syscall".len()),
            Column::Name => return Head::NAME,
            Column::P50 => ("p50", 7),
            Column::P90 => ("p90", 7),
            Column::P99 => ("p99", 7),
            Column::Max => ("max", 7),
        };
        Head { text, least, is_left: column == Column::Via }
    }
}

/// The rows below their heads; with `has_total`, a rule above the last row.
pub(super) fn draw(
    heads: &[Head],
    rows: Vec<Vec<String>>,
    has_total: bool,
    name_min: usize,
) -> String {
    drawn(heads, rows, has_total, (name_min, WIDTH), &[])
}

/// Draws the rows with these limits: names of at least `name_min` columns, otherwise lines of at most
/// `line_most`. Rows with a mark stand out.
fn drawn(
    heads: &[Head],
    mut rows: Vec<Vec<String>>,
    has_total: bool,
    (name_min, line_most): (usize, usize),
    marks: &[bool],
) -> String {
    let widest = widest(&rows, heads.len()).into_iter();
    let mut widths: Vec<usize> = heads.iter().zip(widest).map(|(h, w)| h.least.max(w)).collect();
    if let Some(name) = heads.iter().position(|head| head.text == Head::NAME.text) {
        let others: usize = widths.iter().sum::<usize>() - widths[name] + heads.len() - 1;
        let limit = line_most.saturating_sub(others).max(name_min);
        widths[name] = widths[name].min(limit);
        for row in &mut rows {
            row[name] = cut_middle(&row[name], limit);
        }
    }
    let texts: Vec<String> = heads.iter().map(|head| head.text.to_owned()).collect();
    let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
    let line = |cells: &[String]| line(cells, &widths, " ", |column| heads[column].is_left);
    let mut out = line(&texts) + &line(&rule);
    for (index, row) in rows.iter().enumerate() {
        if has_total && index + 1 == rows.len() {
            out.push_str(&line(&rule));
        }
        let text = line(row);
        out += &if marks.get(index) == Some(&true) { standing_out(&text) } else { text };
    }
    out
}

/// The width of the widest cell of each column.
pub(crate) fn widest<R: AsRef<[String]>>(rows: &[R], columns: usize) -> Vec<usize> {
    let of = |column: usize| rows.iter().map(|row| width(&row.as_ref()[column])).max();
    (0..columns).map(|column| of(column).unwrap_or(0)).collect()
}

/// A line of cells, each as wide as its column.
pub(crate) fn line(
    cells: &[String],
    widths: &[usize],
    between: &str,
    is_left: impl Fn(usize) -> bool,
) -> String {
    let cell = |(column, text): (usize, &String)| {
        let pad = " ".repeat(widths[column].saturating_sub(width(text)));
        if is_left(column) { format!("{text}{pad}") } else { format!("{pad}{text}") }
    };
    let cells: Vec<String> = cells.iter().enumerate().map(cell).collect();
    format!("{}\n", cells.join(between).trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nanoseconds_show_in_usecs_per_call() {
        assert_eq!(micros(21_400), "0.021");
        assert_eq!(micros(21_500), "0.022");
        assert_eq!(micros(1_234_567_890), "1234.568");
        assert_eq!(micros(u128::from(u64::MAX)), "1.8447e13");
    }

    #[test]
    fn seconds_round_to_the_nearest_microsecond() {
        assert_eq!(seconds(0), "0.000000");
        assert_eq!(seconds(499), "0.000000");
        assert_eq!(seconds(500), "0.000001");
        assert_eq!(seconds(1_999_999_500), "2.000000");
        assert_eq!(seconds(u128::from(u64::MAX)), "1.8447e10");
    }

    #[test]
    fn shares_of_nothing_are_zero_and_of_the_unknown_a_dash() {
        assert_eq!(percent(Some(1), Some(3)), "33.33");
        assert_eq!(percent(Some(0), Some(0)), "0.00");
        assert_eq!(percent(None, Some(3)), "-");
    }

    #[test]
    fn counts_too_long_for_a_column_are_rounded() {
        assert_eq!(number(999_999_999_999), "999999999999");
        assert_eq!(number(1_000_000_000_000), "1.0000e12");
    }
}
