//! The report as text: verdict, reasons, advice, and open questions.

mod advice;
mod findings;
mod headline;
mod paragraph;
#[cfg(test)]
mod snapshots_tests;

use super::model::DoctorReport;
use super::status::NOTHING_TO_MEND;
use crate::rules::finding::{Severity, State};
use crate::rules::utc::sentence;
use crate::utc::{Reference, duration};
use clockscope_text::units;

/// `text`, wrapped between words, each line indented by `indent`.
pub(super) fn indented(indent: usize, text: &str) -> String {
    paragraph::wrapped(&" ".repeat(indent), indent, text)
}

/// A number and its noun; further lines are indented to the noun.
pub(super) fn counted(number: u64, words: &str) -> String {
    paragraph::wrapped(&format!("{number:>7}  "), 9, words)
}

/// Options of the text report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextOptions {
    /// Columns of the terminal; lines of evidence are cut to them. `None` keeps lines whole.
    pub columns: Option<usize>,
    /// With colours, for a terminal.
    pub colour: bool,
    /// Of a healthy machine, too, all that was found.
    pub all: bool,
}

const BOLD: &str = "\u{1b}[1m";
const PLAIN: &str = "\u{1b}[0m";

impl TextOptions {
    /// `text` as a heading.
    fn bold(self, text: &str) -> String {
        if self.colour { format!("{BOLD}{text}{PLAIN}") } else { text.to_owned() }
    }
}

/// The report, or one line if nothing is to be mended. Sentences keep 80 columns; commands stay whole.
pub fn render(report: &DoctorReport, options: &TextOptions) -> String {
    let is_healthy = report.state == State::Fast && report.severity < Severity::Slow;
    if is_healthy && !options.all {
        let notes = report.findings.iter().filter(|row| row.severity == Severity::Note).count();
        let notes = match notes {
            0 => String::new(),
            notes => format!("; {}: --all", units::counted(notes as u64, "note", "notes")),
        };
        let line = painted(&format!("{}{notes}\n", verdict(report)), report, *options);
        return line + &advice::unread(report);
    }
    let mut out = painted(&headline::render(report), report, *options);
    out += &headline::evidence(report, options);
    out += &findings::render(report, options);
    out += &advice::render(report, options);
    for part in [advice::closing(report), time(report), findings::remarks(report, options)] {
        if !part.is_empty() {
            out += &format!("\n{part}");
        }
    }
    if !report.findings.is_empty() || !report.advice.is_empty() {
        out += "\nMore on a word in brackets: clockscope doctor --explain WORD\n";
    }
    out
}

/// The first line, with the label of the cause; empty if nothing is to be mended.
pub fn quiet(report: &DoctorReport) -> String {
    let cause = report.cause().map(|cause| format!(" [{}]", cause.id)).unwrap_or_default();
    match report.exit_status() {
        NOTHING_TO_MEND => String::new(),
        _ => format!("{}{cause}\n", verdict(report)),
    }
}

/// The first line, without its end: how the clock is read, from which clocksource, and the cost.
pub(super) fn verdict(report: &DoctorReport) -> String {
    headline::render(report).lines().next().unwrap_or_default().to_owned()
}

/// The headline with its first words in the colour of the worst finding.
fn painted(headline: &str, report: &DoctorReport, options: TextOptions) -> String {
    let word = headline::word(report);
    match headline.strip_prefix(&word) {
        Some(rest) if options.colour => format!("{}{word}{PLAIN}{rest}", colour(report)),
        _ => headline.to_owned(),
    }
}

/// Bold red, yellow or green.
fn colour(report: &DoctorReport) -> &'static str {
    match (report.severity, report.state) {
        (Severity::Wrong, _) => "\u{1b}[1;31m",
        (Severity::Slow, _) | (_, State::Slow | State::SlowUnlessPvclockVdso) => "\u{1b}[1;33m",
        (_, State::Fast) => "\u{1b}[1;32m",
        (_, State::Unknown) => BOLD,
    }
}

/// A line for each clock that was read, and for each word about the time; empty if the time was not compared.
fn time(report: &DoctorReport) -> String {
    let measured = report.measured.as_ref();
    let Some(utc) = measured.and_then(|it| it.utc.as_ref()) else { return String::new() };
    let clause = |one: &Reference| match &one.aside {
        Some(why) => format!("{} does not count: {why}", one.name),
        None => sentence(one),
    };
    let mut clauses: Vec<String> = utc.references.iter().map(clause).collect();
    if clauses.is_empty() {
        clauses.push("there is no clock to compare with".to_owned());
    }
    clauses.extend(utc.word.iter().map(|word| match word.age_s {
        Some(_) => format!("{} states an error of at most {}", word.by, duration(word.error_ns)),
        None => format!("{} was not told the time", word.by),
    }));
    let tai = measured.and_then(|measured| measured.discipline.as_ref()).map_or(0, |it| it.tai_s);
    clauses.extend((tai != 0).then(|| format!("TAI is {tai} s ahead of UTC")));
    paragraph::wrapped("Time: ", 6, &format!("{}.", clauses.join("; ")))
}
