//! The screen of `trace --top`, as text: totals and a table, redrawn with each reading. The screen works at
//! any size: parts that do not fit are left out.

use clockscope_stats::order;
use clockscope_text::foreign::printable;
use clockscope_text::{lines, units};

use super::reading::{Reading, Row};
use crate::costs::whole;
use clockscope_model::callers::Called;

/// Columns right of the name.
const NUMBERS: usize = 50;
/// Columns of the name: the least and the most.
const NAME: (usize, usize) = (14, 60);

/// A row with its rates.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    row: Row,
    /// Calls a second since the last reading.
    rate: f64,
    /// Recent time in the call as a share of one CPU's time; `None` if unknown.
    share: Option<f64>,
    /// Recent average time of a call in nanoseconds; `None` if unknown.
    average_ns: Option<f64>,
}

/// The content of the screen.
#[derive(Clone, Debug, Default)]
pub struct Screen {
    /// Program and arguments, or process ids.
    program: String,
    /// Whether the terminal shows ASCII only.
    is_ascii: bool,
    reading: Reading,
    lines: Vec<Line>,
}

impl Screen {
    /// A screen without a reading.
    pub fn new(program: String, is_ascii: bool) -> Self {
        Self { program, is_ascii, ..Self::default() }
    }

    /// Takes a new reading.
    pub fn read(&mut self, reading: Reading) {
        let elapsed = reading.at.saturating_sub(self.reading.at).as_secs_f64();
        let before = &self.reading.rows;
        let of = |row: &Row| line(row, before.iter().find(|one| one.key == row.key), elapsed);
        let mut lines: Vec<Line> = reading.rows.iter().map(of).collect();
        order::by(&mut lines, |a, b| {
            // On a small terminal the clock's rows must not be those that are cut.
            let by_rate = b.row.is_clock.cmp(&a.row.is_clock).then(b.rate.total_cmp(&a.rate));
            by_rate.then(b.row.calls.cmp(&a.row.calls)).then(a.row.key.cmp(&b.row.key))
        });
        (self.lines, self.reading) = (lines, reading);
    }

    /// At most `height` lines, each of at most `width` columns.
    pub fn draw(&self, width: usize, height: usize) -> Vec<String> {
        let name = width.saturating_sub(NUMBERS).clamp(NAME.0, NAME.1);
        let row = |text: &str, numbers: String| {
            let text = lines::cut_middle(&self.printable(text), name.min(width));
            let pad = name.saturating_sub(lines::width(&text));
            let room = width.saturating_sub(name);
            let numbers: String = numbers.chars().take(room).collect();
            format!("{text}{}{numbers}", " ".repeat(pad.min(room))).trim_end().to_owned()
        };
        let mut drawn = vec![self.heading(width)];
        drawn.extend(self.totals().map(|total| total.chars().take(width).collect()));
        drawn.push(String::new());
        let head = ["rate/s", "% time", "average", "calls", "via"];
        drawn.push(row("call", columns(&head.map(str::to_owned))));
        drawn.extend(self.lines.iter().map(|line| row(&line.row.name, columns(&cells(line)))));
        if self.lines.is_empty() {
            drawn.push(lines::cut_middle("no calls yet", width));
        }
        drawn.truncate(height.saturating_sub(1));
        drawn.push(lines::cut_middle("q quit; the program goes on", width));
        drawn.truncate(height);
        if self.is_ascii {
            drawn.iter_mut().for_each(|line| *line = line.replace('…', "~"));
        }
        drawn
    }

    /// Foreign text in a form that this terminal can show.
    fn printable(&self, text: &str) -> String {
        let text = printable(text);
        if self.is_ascii { text.replace(|c: char| !c.is_ascii(), "?") } else { text }
    }

    fn heading(&self, width: usize) -> String {
        let seconds = self.reading.at.as_secs();
        let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        let processes = units::counted(self.reading.processes, "process", "processes");
        let right = format!("  {processes}  {hours}:{minutes:02}:{seconds:02}");
        let room = width.saturating_sub(right.len() + 12);
        let program = lines::cut_middle(&self.printable(&self.program), room);
        lines::cut_middle(&format!("clockscope  {program}{right}"), width)
    }

    /// Totals: clock reads with their cost, and system calls.
    fn totals(&self) -> [String; 2] {
        let sum = |wanted: fn(&Line) -> bool| -> f64 {
            self.lines.iter().filter(|line| wanted(line)).map(|line| line.rate).sum()
        };
        let total = |name: &str, per_second: f64, cost: &str| {
            let rate = units::rate(per_second).unwrap_or_default();
            format!("{name:<13}{rate:>13}/s  {cost}").trim_end().to_owned()
        };
        let cost = self.clock_cost().map(|(each_ns, share)| {
            format!("{} each, {} of a CPU", picos(each_ns), percent(share))
        });
        [
            total("clock reads", sum(|line| line.row.is_clock), &cost.unwrap_or_default()),
            total("system calls", sum(|line| matches!(line.row.key, Called::Syscall(_))), ""),
        ]
    }

    /// The recent cost of clock reads of known time: the mean of one in nanoseconds, and the share of one
    /// CPU's time.
    fn clock_cost(&self) -> Option<(f64, f64)> {
        let timed = || self.lines.iter().filter(|line| line.row.is_clock && line.share.is_some());
        let rate: f64 = timed().map(|line| line.rate).sum();
        let share: f64 = timed().filter_map(|line| line.share).sum();
        (rate > 0.0).then(|| (share / rate * 1e9, share))
    }
}

/// The columns right of the name.
fn columns([rate, share, average, calls, via]: &[String; 5]) -> String {
    format!(" {rate:>11} {share:>7} {average:>8} {calls:>15} {via:>4}")
}

fn cells(line: &Line) -> [String; 5] {
    [
        units::rate(line.rate).unwrap_or_default(),
        match line.share {
            Some(_) if line.row.waits => "waits".to_owned(),
            share => share.map_or_else(String::new, percent),
        },
        line.average_ns.map_or_else(String::new, picos),
        units::count(line.row.calls),
        if matches!(line.row.key, Called::Vdso(_)) { "vdso" } else { "sys" }.to_owned(),
    ]
}

/// A share in percent, in six columns.
fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn picos(ns: f64) -> String {
    units::picos(whole(ns * 1e3))
}

fn line(row: &Row, before: Option<&Row>, elapsed: f64) -> Line {
    let (calls_before, time_before) = before.map_or((0, 0), |row| (row.calls, row.time_ns));
    let new = row.calls.saturating_sub(calls_before);
    let rate = if elapsed > 0.0 { new as f64 / elapsed } else { 0.0 };
    let so_far = (row.time_ns > 0).then(|| row.time_ns as f64 / row.calls.max(1) as f64);
    // The time of vDSO calls is estimated from samples: only the average is meaningful, not its change.
    let average_ns = match row.key {
        Called::Syscall(_) if new > 0 && row.time_ns > 0 => {
            Some(row.time_ns.saturating_sub(time_before) as f64 / new as f64)
        }
        _ => so_far,
    };
    Line { row: row.clone(), rate, share: average_ns.map(|ns| ns * rate / 1e9), average_ns }
}
