//! The trace report as a page: how often the clock is read, by whom, and what it costs.

mod callers;
mod calls;
mod flame_tree;
mod headline;
mod processes;
mod rates;
mod reproduce;
#[cfg(test)]
mod tests;

use super::page::{Page, Table, Tone};
use super::{declines, overhead};
use clock_doctor::state::HostState;
use clockscope_model::trace::TraceReport;
use clockscope_text::foreign::{joined, printable};
use clockscope_text::lines::cut_middle;
use clockscope_text::units::{count, nanos};

/// What the page looks like, beside what all pages look like.
const STYLE: &str = include_str!("style.css");
/// Sorts the tables, and draws the flame graph that can be zoomed into.
const SCRIPT: &str = include_str!("script.js");
/// Letters of the command in the title.
const TITLE_MAX: usize = 60;

/// The report as one HTML document that needs no network; without script everything but sorting,
/// zooming and searching is there.
#[must_use]
pub fn render(report: &TraceReport, host: &HostState) -> String {
    let mut page = Page::new(&title(report), "clockscope trace").with_script(STYLE, SCRIPT);
    headline::section(&mut page, report);
    page.warn_of_host(host);
    calls::section(&mut page, report);
    rates::section(&mut page, report);
    callers::section(&mut page, report);
    processes::section(&mut page, report);
    attached(&mut page, report);
    if !report.declines.is_empty() {
        page.section("Not counted");
        page.list(
            &declines::sentences(&report.declines).iter().map(|s| sentence(s)).collect::<Vec<_>>(),
        );
    }
    page.section("The machine");
    page.host_facts(host);
    page.section("How it was measured");
    page.list(&method(report));
    page.subheading("The same again");
    for command in reproduce::commands(report) {
        page.command(&command);
    }
    page.finish()
}

fn title(report: &TraceReport) -> String {
    let command = if report.command.is_empty() {
        let names: Vec<String> = report.attached.iter().map(|a| a.command.printable()).collect();
        names.join(", ")
    } else {
        joined(&report.command, " ")
    };
    match cut_middle(&command, TITLE_MAX).as_str() {
        "" => "How often the clock is read".to_owned(),
        command => format!("How often {command} reads the clock"),
    }
}

/// A clause as a sentence.
fn sentence(clause: &str) -> String {
    let mut letters = clause.chars();
    let end = if clause.ends_with(['.', '!', '?']) { "" } else { "." };
    // Names of programs and functions keep their letters: only what begins with a word of ours is raised.
    let is_ours = ["vDSO", "clock"].iter().all(|name| !clause.starts_with(name));
    match letters.next() {
        Some(first) if is_ours => format!("{}{}{end}", first.to_uppercase(), letters.as_str()),
        _ => format!("{clause}{end}"),
    }
}

fn attached(page: &mut Page, report: &TraceReport) {
    if report.attached.is_empty() {
        return;
    }
    page.section("How it was attached to");
    page.paragraph(
        "All threads of a running process stand still while its clock functions are redirected, \
         and once more while they are put back.",
    );
    let mut table = Table::new(
        "Processes that were attached to",
        &[
            "process",
            "program",
            "threads",
            "stood still",
            "stood still at the end",
            "counting ended by",
        ],
    )
    .words(&[1, 5]);
    for process in &report.attached {
        let pause = |ns: u64| if ns == 0 { "-".to_owned() } else { nanos(ns) };
        table.row(vec![
            process.pid.to_string(),
            process.command.printable(),
            count(process.threads),
            pause(process.pause_ns),
            pause(process.detach_pause_ns),
            ended(&process.ended),
        ]);
    }
    page.table(&table);
}

fn ended(how: &str) -> String {
    match how {
        "duration" => "the end of --duration".to_owned(),
        "interrupted" => "Ctrl-C".to_owned(),
        "exited" => "its own end".to_owned(),
        "killed" => "a signal that killed it".to_owned(),
        other => printable(other),
    }
}

fn method(report: &TraceReport) -> Vec<String> {
    let mut sentences = vec![
        "vDSO calls are counted in the program itself, each one; their times are estimated from \
         those calls that were timed."
            .to_owned(),
    ];
    sentences.push(match report.via.as_str() {
        "bpf" => "System calls are counted in the kernel, by eBPF, each one.".to_owned(),
        "ptrace" => "System calls are counted by ptrace, each one.".to_owned(),
        _ => "System calls were not counted.".to_owned(),
    });
    let timed = overhead::how_timed(report);
    if !timed.is_empty() {
        sentences.push(sentence(&format!("times {timed}")));
    }
    let cost = overhead::what_it_cost(report);
    if report.via != "none" || report.overhead.vdso_bracket_ps > 0 {
        sentences
            .extend((!cost.is_empty()).then(|| sentence(&format!("cost of counting: {cost}"))));
    }
    sentences
}

/// A box with warnings; nothing if there are none.
fn warn(page: &mut Page, heading: &str, sentences: &[String]) {
    page.say(Tone::Warning, heading, sentences);
}
