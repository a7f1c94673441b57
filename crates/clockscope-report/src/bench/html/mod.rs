//! The bench report as a page.

mod costs;
mod extras;
mod paths;
#[cfg(test)]
mod tests;
mod threads;

use crate::chart::quantity::digits;
use crate::page::{Page, Table, Tone};
use clockscope_model::bench::{BenchReport, Method, PathRow};
use clockscope_text::units::{count, nanos, picos, share};
use paths::{full_name, is_empty_loop, joined};

/// The report as one HTML document that needs no network and no script.
#[must_use]
pub fn render(report: &BenchReport) -> String {
    let has_clocks = report.paths.iter().any(|path| path.name.clock.is_some());
    let title = match (&report.host.cpu_model, has_clocks) {
        (Some(cpu), true) => format!("What clock reads cost on {cpu}"),
        (None, true) => "What clock reads cost".to_owned(),
        (Some(cpu), false) => format!("What system calls cost on {cpu}"),
        (None, false) => "What system calls cost".to_owned(),
    };
    let mut page = Page::new(&title, "clockscope bench");
    page.say(Tone::Conclusion, "In short", &conclusions(report));
    page.warn_of_host(&report.host);
    page.say(Tone::Warning, "Notes", &report.notes);
    costs::section(&mut page, report);
    costs::ratios(&mut page, report);
    threads::section(&mut page, report);
    extras::in_work(&mut page, report);
    extras::instructions(&mut page, report);
    declines(&mut page, report);
    page.section("The machine");
    page.host_facts(&report.host);
    page.section("How it was measured");
    page.paragraph(&method(&report.method));
    page.paragraph("The same again on this machine, as a page:");
    page.command(&command(report));
    page.finish()
}

/// The sentences on top.
fn conclusions(report: &BenchReport) -> Vec<String> {
    let mut sentences = Vec::new();
    sentences.extend(costs::routes_of_one_clock(report));
    sentences.extend(costs::cheapest_and_dearest(&report.paths));
    sentences.extend(quality(&report.paths));
    sentences
}

/// How far the figures are to be trusted.
fn quality(paths: &[PathRow]) -> Option<String> {
    let made: u64 = paths.iter().fold(0, |sum, path| sum.saturating_add(path.batches));
    let accepted: u64 = paths.iter().fold(0, |sum, path| sum.saturating_add(path.accepted));
    if paths.is_empty() || made == 0 {
        return None;
    }
    let graded = |grade: &str| {
        let names = paths.iter().filter(|path| path.grade == grade);
        names.map(|path| full_name(&path.name)).collect::<Vec<_>>()
    };
    let (noisy, unusable) = (graded("noisy"), graded("unusable"));
    let grades = match (noisy.len(), unusable.len()) {
        (0, 0) => "All figures are of grade quiet".to_owned(),
        (_, 0) => format!("Noisy, and less sure: {}", joined(&noisy, 4)),
        (0, _) => format!("Unusable: {}", joined(&unusable, 4)),
        _ => format!("Noisy: {}. Unusable: {}", joined(&noisy, 4), joined(&unusable, 4)),
    };
    let part = share(accepted as f64 / made as f64);
    Some(format!("{grades}; {part} of {} batches ran undisturbed and count.", count(made)))
}

fn declines(page: &mut Page, report: &BenchReport) {
    if report.declines.is_empty() {
        return;
    }
    page.section("Not measured");
    let mut table = Table::new("What was not measured, and why", &["path", "why"]).words(&[1]);
    for decline in &report.declines {
        table.row(vec![full_name(&decline.name), decline.reason.clone()]);
    }
    page.table(&table);
}

/// The method in one paragraph.
fn method(method: &Method) -> String {
    let launches = match method.launches {
        0 | 1 => "one process".to_owned(),
        many => format!("{many} fresh processes, one after another"),
    };
    let rounds: Vec<String> = method.rounds.iter().map(ToString::to_string).collect();
    let rounds = if rounds.is_empty() {
        String::new()
    } else {
        format!(" in {} rounds", joined(&rounds, 8))
    };
    let cpu = match method.cpu {
        Some(cpu) => format!("pinned to CPU {cpu}"),
        None => "not pinned to a CPU, because that was refused".to_owned(),
    };
    let net = if method.net { "subtracted from" } else { "not subtracted from" };
    format!(
        "Measured by {launches}{rounds}, {cpu}, in {}. In each round every path has one batch, with \
         a control loop before and after it. A batch counts if neither control loop was more than \
         {} % slower than the best one. A figure is the median of those batches; its interval holds \
         the true median with a confidence of {} %. One turn of the empty loop, {}, is {net} every \
         figure.",
        nanos(method.elapsed_ms.saturating_mul(1_000_000)),
        digits(method.gate_percent),
        digits(method.confidence_percent),
        picos(method.empty_loop_ps),
    )
}

/// The command that makes such a page.
fn command(report: &BenchReport) -> String {
    let mut command = "clockscope bench".to_owned();
    let mut paths = report.paths.iter().filter(|path| !is_empty_loop(&path.name)).peekable();
    if paths.peek().is_some() && paths.all(|path| path.name.call.is_some()) {
        command.push_str(" syscalls");
    }
    let mut threads: Vec<u32> = report.threads.iter().map(|row| row.threads).collect();
    threads.sort_unstable();
    threads.dedup();
    if !threads.is_empty() {
        let threads: Vec<String> = threads.iter().map(ToString::to_string).collect();
        command.push_str(&format!(" --threads {}", threads.join(",")));
    }
    for (wanted, option) in [
        (!report.in_work.is_empty(), " --in-work"),
        (report.instructions.is_some(), " --instructions"),
        (report.method.net, " --net"),
    ] {
        if wanted {
            command.push_str(option);
        }
    }
    command + " --format html -o bench.html"
}
