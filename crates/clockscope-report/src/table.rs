//! The table: cells of each column, drawn below their heads as by `strace -c`.

use super::entries::{Entry, Kind, sum_of_known};
use clockscope_model::trace::{Latency, Via};
use clockscope_text::lines::{WIDTH, cut_middle, width};
use clockscope_text::style::standing_out;
use clockscope_text::units;

/// Least width of a name: the other columns leave at least this much.
pub(super) const NAME_MIN: usize = 8;

/// Heads of the table of calls.
const CALLS: [Head; 7] = [
    Head::right("% time", 6),
    Head::right("seconds", 8),
    Head::right("usecs/call", 10),
    Head::right("calls", 6),
    Head::right("errors", 6),
    Head::VIA,
    Head::NAME,
];
/// Heads of the table of the time of single calls.
const TIMES: [Head; 6] = [
    Head::right("p50", 7),
    Head::right("p90", 7),
    Head::right("p99", 7),
    Head::right("max", 7),
    Head::VIA,
    Head::NAME,
];

/// The table of `entries` with a total line; without entries, a line that says so. Names are cut to keep
/// lines within `limit`. If the table is `coloured`, rows of vDSO calls, which no other tool counts, stand
/// out.
pub(super) fn render(entries: &[Entry], limit: usize, coloured: bool) -> String {
    if entries.is_empty() {
        return "no calls were counted\n".to_owned();
    }
    let total = Total::of(entries);
    let mut rows: Vec<Vec<String>> = entries.iter().map(|entry| total.row(entry)).collect();
    rows.push(total.cells());
    drawn(&CALLS, rows, true, (NAME_MIN, limit), &marks(entries, coloured))
}

/// Whether the row of each entry stands out.
fn marks(entries: &[Entry], coloured: bool) -> Vec<bool> {
    entries.iter().map(|entry| coloured && entry.via == Some(Via::Vdso)).collect()
}

/// The distributions of all entries that have one; empty if none has.
pub(super) fn latencies(entries: &[Entry], coloured: bool) -> String {
    let mut entries = entries.to_vec();
    entries.retain(|entry| entry.latency.is_some());
    if entries.is_empty() {
        return String::new();
    }
    let row = |entry: &Entry| {
        let Latency { p50, p90, p99, max, .. } = entry.latency?;
        let times = [p50, p90, p99, max].map(|ns| units::nanos(*ns).replace(' ', ""));
        Some(times.into_iter().chain([via(entry), entry.name.clone()]).collect())
    };
    let rows = entries.iter().filter_map(row).collect();
    drawn(&TIMES, rows, false, (NAME_MIN, WIDTH), &marks(&entries, coloured))
}

fn via(entry: &Entry) -> String {
    entry.via.map_or("", Via::name).to_owned()
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

    /// The row of an entry.
    fn row(&self, entry: &Entry) -> Vec<String> {
        let time_ns = entry.time_ns.map(u128::from);
        let waits = entry.kind == Kind::Waiting;
        vec![
            if waits { WAITS.to_owned() } else { percent(time_ns, self.time_ns) },
            time_ns.map_or_else(dash, seconds),
            entry.average_ps.map_or_else(dash, |ps| micros(u128::from(ps))),
            number(u128::from(entry.calls)),
            errors(entry.errors),
            via(entry),
            entry.name.clone(),
        ]
    }

    /// The line of the sums.
    fn cells(&self) -> Vec<String> {
        let timed_ns = self.time_ns.filter(|_| self.timed_calls > 0);
        vec![
            percent(self.time_ns, self.time_ns),
            self.time_ns.map_or_else(dash, seconds),
            timed_ns.map_or_else(dash, |ns| micros(ns * 1_000 / self.timed_calls)),
            number(self.calls),
            errors(self.errors),
            String::new(),
            "total".to_owned(),
        ]
    }
}

/// Stands for the share of a call that waits.
const WAITS: &str = "waits";

/// Blank for no errors, a dash if unknown.
fn errors(errors: Option<u64>) -> String {
    match errors {
        Some(0) => String::new(),
        errors => errors.map_or_else(dash, |errors| number(errors.into())),
    }
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
    short(format!("{}.{:06}", us / 1_000_000, us % 1_000_000), us / 1_000_000)
}

/// Microseconds with three decimals, which are nanoseconds.
fn micros(ps: u128) -> String {
    let ns = (ps + 500) / 1_000;
    short(format!("{}.{:03}", ns / 1_000, ns % 1_000), ns / 1_000)
}

/// The text, or with an exponent if it is too long.
fn short(text: String, whole: u128) -> String {
    if text.len() > 14 { format!("{whole:.4e}") } else { text }
}

fn number(count: u128) -> String {
    if count < 1_000_000_000_000 { count.to_string() } else { format!("{count:.4e}") }
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

    const VIA: Head = Head { text: "via", least: "syscall".len(), is_left: true };

    /// A column of numbers.
    pub(super) const fn right(text: &'static str, least: usize) -> Head {
        Head { text, least, is_left: false }
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
