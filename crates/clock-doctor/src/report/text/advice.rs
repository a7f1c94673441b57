//! The advice, the warnings, the stopgaps, and the open questions.

use super::TextOptions;
use super::paragraph::{command, wrapped};
use crate::facts::Unread;
use crate::report::model::DoctorReport;
use crate::rules::catalogue::capitalised;
use crate::rules::finding::{Advice, State};

/// The usual place of an advice; the text omits it.
const HERE: &str = "here";
/// The indent below a numbered line.
const PAD: &str = "   ";
/// For a slow clock without advice.
const HELPLESS: &str = "Nothing that doctor knows of mends this. Where a timer tick's resolution \
    will do, coarse clocks stay cheap [fix:coarse].";

/// The numbered list.
pub(super) fn render(report: &DoctorReport, options: &TextOptions) -> String {
    if report.advice.is_empty() {
        let is_helpless = report.state != State::Fast && report.source.is_some();
        return if is_helpless { format!("\n{}", wrapped("", 2, HELPLESS)) } else { String::new() };
    }
    let several = if report.advice.len() > 1 { ", best first" } else { "" };
    let mut out = format!("\n{}\n", options.bold(&format!("What to do{several}:")));
    for (at, advice) in report.advice.iter().enumerate() {
        if at > 0 {
            out.push('\n');
        }
        out += &numbered(at + 1, advice);
        out += &verification(&report.advice[..at], advice);
        if !advice.caveats.is_empty() {
            out += &wrapped(&format!("{PAD}Risk: "), PAD.len(), &advice.caveats.join(" "));
        }
    }
    out
}

fn numbered(number: usize, advice: &Advice) -> String {
    // Avoids the repetition in `update the firmware, in the firmware`.
    let is_in_title =
        advice.place.rsplit(' ').next().is_some_and(|word| advice.title.contains(word));
    let place = match advice.place.as_str() {
        place if is_in_title || ["", HERE].contains(&place) => String::new(),
        place => format!(", {place}"),
    };
    let title = format!("{}{place} [fix:{}]", capitalised(&advice.title), advice.name);
    let mut out = wrapped(&format!("{number}. "), PAD.len(), &title);
    if !advice.why.is_empty() {
        out += &wrapped(PAD, PAD.len(), &advice.why);
    }
    out.extend(advice.commands.iter().map(|line| command(PAD.len() + 2, line)));
    out
}

/// The commands that verify the fix: each line once, with a reference to earlier advice for repeated ones.
fn verification(before: &[Advice], advice: &Advice) -> String {
    let told = |line: &&String| before.iter().position(|other| other.verify.contains(line));
    let new: Vec<&String> = advice.verify.iter().filter(|line| told(line).is_none()).collect();
    let other = advice.verify.iter().find_map(|line| told(&line)).map(|at| at + 1);
    match (new.as_slice(), other) {
        ([], None) => String::new(),
        ([], Some(other)) => format!("{PAD}Verify as in {other}.\n"),
        (new, other) => {
            let other = other.map(|other| format!(" as in {other}, and")).unwrap_or_default();
            let lines: String = new.iter().map(|line| command(PAD.len() + 2, line)).collect();
            format!("{PAD}Verify{other}:\n{lines}")
        }
    }
}

/// The lines below the list.
pub(super) fn closing(report: &DoctorReport) -> String {
    let mut out = String::new();
    for (heading, lines) in [
        ("Never: ", &report.never),
        ("Meanwhile: ", &report.meanwhile),
        ("Not known: ", &report.missing),
    ] {
        out.extend(lines.iter().map(|line| wrapped(heading, 2, line)));
    }
    out + &unread(report)
}

/// The files that were not read.
pub(super) fn unread(report: &DoctorReport) -> String {
    let line = |one: &Unread| wrapped("Not read: ", 2, &format!("{}: {}", one.file, one.why));
    report.unread.iter().map(line).collect()
}
