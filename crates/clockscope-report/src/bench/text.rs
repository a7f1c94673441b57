//! The bench report as text: the host, a table grouped by clock, notes, and paths that were not measured.

use super::instructions;
use super::names::subject;
use crate::costs::whole;
use crate::host;
use crate::table::{Head, draw};
use clockscope_model::bench::{BenchReport, PathRow};
use clockscope_text::foreign::printable;
use clockscope_text::lines::labelled;
use clockscope_text::units;

/// Columns of the picture of the spread; its right end is twice its left.
const SPREAD: usize = 10;

/// Lines of at most 80 columns.
pub fn render(report: &BenchReport) -> String {
    let mut out = host::render(&report.host);
    out += &labelled("Method", &method(report));
    out.push('\n');
    out += &table(report);
    let net = if report.method.net { ", less the empty loop" } else { "" };
    out += &labelled(
        "Columns",
        &format!(
            "ns a call{net}; +/- is the wider side of the median's {:.0} % interval; {}spread: 5th \
             to 95th percentile of all batches, o the median, from the cheapest batch (left) to \
             twice that",
            report.method.confidence_percent,
            ratio_words(report),
        ),
    );
    out.extend(report.notes.iter().map(|note| labelled("Note", &printable(note))));
    out += &declines(report);
    if let Some(counted) = &report.instructions {
        out.push('\n');
        out += &instructions::render(counted);
    }
    out
}

/// Legend of the column of ratios: the divisors.
fn ratio_words(report: &BenchReport) -> &'static str {
    let of_calls = report.ratios.iter().any(|row| row.of.call.is_some());
    let of_clocks = report.ratios.iter().any(|row| row.of.clock.is_some());
    match (of_clocks, of_calls) {
        (false, false) => "",
        (false, true) => "ratio: to the first system call; ",
        (true, false) => "ratio: to the vdso route of the same clock, of counters to the first; ",
        (true, true) => {
            "ratio: to the vdso route of the same clock, of counters and of system calls to the first; "
        }
    }
}

fn method(report: &BenchReport) -> String {
    let method = &report.method;
    let launches = units::counted(u64::from(method.launches), "launch", "launches");
    let (least, most) =
        (method.rounds.iter().min().unwrap_or(&0), method.rounds.iter().max().unwrap_or(&0));
    let rounds = if least == most { format!("{least}") } else { format!("{least} to {most}") };
    let place = method.cpu.map_or_else(|| "any CPU".to_owned(), |cpu| format!("CPU {cpu}"));
    let level = match method.speed {
        Some(speed) if speed < 0.995 => format!("{speed:.2} of the best speed, where most ran"),
        _ => "the best".to_owned(),
    };
    format!(
        "{launches} of {rounds} rounds on {place} in {:.1} s; kept are batches that kept the CPU, \
         between control loops within {:.0} % of {level}",
        method.elapsed_ms as f64 / 1e3,
        method.gate_percent
    )
}

/// The columns with their least widths; names and grades stand left.
const HEADS: [(&str, usize, bool); 9] = [
    ("clock", 18, true),
    ("route", 7, true),
    ("median", 7, false),
    ("+/-", 5, false),
    ("min", 7, false),
    ("kept", 4, false),
    ("grade", 8, true),
    ("ratio", 5, false),
    ("spread", SPREAD, true),
];

fn table(report: &BenchReport) -> String {
    let mut heads = HEADS.map(|(text, least, is_left)| Head { text, least, is_left });
    if report.paths.iter().any(|path| path.name.call.is_some()) {
        heads[0].text = "call";
    }
    let row = |(index, path): (usize, &PathRow)| {
        let before = index.checked_sub(1).map(|before| subject(&report.paths[before].name));
        let name = subject(&path.name);
        cells(report, path, if before.as_ref() == Some(&name) { String::new() } else { name })
    };
    draw(&heads, report.paths.iter().enumerate().map(row).collect(), false, 0)
}

fn cells(report: &BenchReport, path: &PathRow, name: String) -> Vec<String> {
    let route = if path.name.route == "none" { "-" } else { &path.name.route };
    let ratio = report.ratios.iter().find(|row| row.of == path.name);
    vec![
        name,
        route.to_owned(),
        nanos(path.cost_ps_median),
        interval(path),
        nanos(path.cost_ps_min),
        format!("{}%", path.accepted * 100 / path.batches.max(1)),
        path.grade.clone(),
        ratio.map_or_else(String::new, |row| quotient(row.ratio)),
        spread(path),
    ]
}

/// Nanoseconds with four digits.
fn nanos(ps: u64) -> String {
    let ns = ps as f64 / 1e3;
    match ps {
        0..100_000 => format!("{ns:.2}"),
        100_000..1_000_000 => format!("{ns:.1}"),
        _ => format!("{ns:.0}"),
    }
}

/// The wider side of the median's interval, in percent of the median.
fn interval(path: &PathRow) -> String {
    let median = path.cost_ps_median;
    let wider =
        path.cost_ps_ci_high.saturating_sub(median).max(median.saturating_sub(path.cost_ps_ci_low));
    let percent = wider as f64 * 100.0 / median.max(1) as f64;
    if percent < 9.95 { format!("{percent:.1}%") } else { format!("{percent:.0}%") }
}

fn quotient(ratio: f64) -> String {
    if ratio < 100.0 { format!("{ratio:.2}") } else { format!("{ratio:.0}") }
}

/// The spread as a picture: `-` from the 5th to the 95th percentile, `o` at the median, `>` if the spread
/// exceeds the right end.
fn spread(path: &PathRow) -> String {
    // The column of a share above the cheapest batch; `SPREAD` for shares beyond the picture.
    let place = |ps: u64| {
        let share = ps as f64 / path.cost_ps_min.max(1) as f64 - 1.0;
        usize::try_from(whole(share * SPREAD as f64)).unwrap_or(SPREAD).min(SPREAD)
    };
    let (from, middle, to) =
        (place(path.cost_ps_p5), place(path.cost_ps_median), place(path.cost_ps_p95));
    let draw = |column: usize| match column {
        _ if column == middle.min(SPREAD - 1) => 'o',
        _ if column == SPREAD - 1 && to >= SPREAD => '>',
        _ if (from..=to).contains(&column) => '-',
        _ => ' ',
    };
    (0..SPREAD).map(draw).collect::<String>().trim_end().to_owned()
}

/// The paths that were not measured; one line for each reason.
fn declines(report: &BenchReport) -> String {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for decline in &report.declines {
        let name = format!("{} by {}", subject(&decline.name), decline.name.route);
        match reasons.iter_mut().find(|(reason, _)| *reason == decline.reason) {
            Some((_, names)) => names.push(name),
            None => reasons.push((&decline.reason, vec![name])),
        }
    }
    let lines = reasons.into_iter().map(|(reason, names)| {
        labelled("Not measured", &printable(&format!("{}: {reason}", names.join(", "))))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> BenchReport {
        crate::tests::read(include_str!("../tests/bench.json"))
    }

    #[test]
    fn the_table_is_as_it_was_looked_at() {
        let text = render(&sample());
        let from = text.find("Method:").unwrap();
        insta::assert_snapshot!(&text[from..]);
    }

    #[test]
    fn every_line_fits_80_columns() {
        for line in render(&sample()).lines() {
            assert!(line.chars().count() <= 80, "{line:?}");
            assert_eq!(line, line.trim_end());
        }
    }

    #[test]
    fn odd_reports_are_rendered_too() {
        let report = BenchReport { paths: vec![PathRow::default()], ..BenchReport::default() };
        assert!(render(&report).contains("0.00"));
        assert!(!render(&BenchReport::default()).is_empty());
    }
}
