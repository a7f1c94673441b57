//! The wrongness report as a page.

mod bins;
mod clocks;
mod counters;
mod staleness;
#[cfg(test)]
mod tests;
mod time_lost;

use crate::chart::quantity::{Unit, digits};
use crate::page::{Page, Table, Tone};
use clockscope_model::wrongness::{Discipline, RateRow, WrongnessReport};
use clockscope_text::units::{count, counted, nanos};

/// The report as one HTML document that needs no network and no script.
#[must_use]
pub fn render(report: &WrongnessReport) -> String {
    let title = match &report.host.cpu_model {
        Some(cpu) => format!("How wrong each clock is on {cpu}"),
        None => "How wrong each clock is".to_owned(),
    };
    let mut page = Page::new(&title, "clockscope wrongness");
    faults(&mut page, report);
    page.section("Each clock in a sentence");
    if report.clocks.is_empty() {
        page.paragraph("No clock was looked at.");
    }
    let sentences = report.clocks.iter().map(|clock| clock.sentence.clone());
    page.list(&sentences.filter(|sentence| !sentence.is_empty()).collect::<Vec<_>>());
    staleness::section(&mut page, report);
    clocks::order(&mut page, report);
    clocks::resolution(&mut page, report);
    counters::warps(&mut page, report);
    counters::offsets(&mut page, report);
    rates(&mut page, report);
    steps(&mut page, report);
    time_lost::gaps(&mut page, report);
    time_lost::stability(&mut page, report);
    declines(&mut page, report);
    page.section("The machine");
    page.host_facts(&report.host);
    page.section("How it was measured");
    page.paragraph(&method(report));
    page.paragraph("The same again on this machine, as a page:");
    page.command(&command(report));
    page.finish()
}

/// What is wrong, on top of the page; or that nothing was found.
fn faults(page: &mut Page, report: &WrongnessReport) {
    if report.faults.is_empty() {
        let clocks = u64::try_from(report.clocks.len()).unwrap_or(u64::MAX);
        let reads = report.clocks.iter().fold(0, |sum: u64, c| sum.saturating_add(c.reads));
        let sentence = format!(
            "No fault was found in {}, {} reads.",
            counted(clocks, "clock", "clocks"),
            count(reads)
        );
        let mut sentences = vec![sentence];
        sentences.extend(staleness::worst(report));
        page.say(Tone::Conclusion, "In short", &sentences);
    } else {
        let sentences: Vec<String> = report.faults.iter().map(|f| f.sentence.clone()).collect();
        page.say(Tone::Warning, "What is wrong", &sentences);
    }
}

/// Rates of clocks against each other, and what the kernel says of its own.
fn rates(page: &mut Page, report: &WrongnessReport) {
    if report.rates.is_empty() && report.discipline.is_none() {
        return;
    }
    page.section("Rate and offset");
    if let Some(sentence) = largest_rate(&report.rates) {
        page.paragraph(&sentence);
    }
    if let Some(discipline) = &report.discipline {
        page.paragraph(&synchronisation(discipline));
    }
    let mut table = Table::new(
        "Rate of one clock against another, in parts per million",
        &["clock", "against", "rate", "bound", "expected", "offset at the end", "measured for"],
    )
    .words(&[1]);
    for rate in &report.rates {
        let offset = rate.offset_ns.map(offset);
        table.row(vec![
            rate.clock.clone(),
            rate.reference.clone(),
            format!("{} ppm", ppm(rate.ppm)),
            format!("\u{b1}{} ppm", ppm(rate.bound_ppm)),
            rate.expected_ppm.map_or_else(|| "-".to_owned(), |p| format!("{} ppm", ppm(p))),
            offset.unwrap_or_else(|| "-".to_owned()),
            nanos(rate.baseline_ms.saturating_mul(1_000_000)),
        ]);
    }
    page.table(&table);
}

/// An offset in nanoseconds; clocks of different origin are apart by whole seconds.
fn offset(ns: i64) -> String {
    const SECOND: i64 = 1_000_000_000;
    if ns.unsigned_abs() >= 1_000 * SECOND.unsigned_abs() {
        format!("{:+} s", ns / SECOND)
    } else {
        Unit::Nanos.signed(ns as f64)
    }
}

fn ppm(value: f64) -> String {
    if value.is_finite() { digits(value) } else { "?".to_owned() }
}

fn largest_rate(rates: &[RateRow]) -> Option<String> {
    let apart = |rate: &RateRow| (rate.ppm - rate.expected_ppm.unwrap_or(0.0)).abs();
    let known = rates.iter().filter(|r| r.expected_ppm.is_some() && apart(r).is_finite());
    let rate = known.max_by(|a, b| apart(a).total_cmp(&apart(b)))?;
    Some(if apart(rate) > rate.bound_ppm {
        format!(
            "{} runs {} ppm off {}, more than the bound of the measurement ({} ppm): that is {} a \
             day.",
            rate.clock,
            digits(apart(rate)),
            rate.reference,
            digits(rate.bound_ppm),
            Unit::Seconds.text(apart(rate) * 1e-6 * 86_400.0)
        )
    } else {
        "No rate differs from what is expected by more than the bound of its measurement."
            .to_owned()
    })
}

fn synchronisation(discipline: &Discipline) -> String {
    let state = if discipline.synchronised {
        "The kernel says that its clock is synchronised"
    } else {
        "The kernel says that nobody synchronises its clock"
    };
    let micros = |us: u64| nanos(us.saturating_mul(1_000));
    format!(
        "{state}: frequency correction {} ppm, maximum error {}, estimated error {}, TAI minus UTC \
         {} s.",
        ppm(discipline.frequency_ppm),
        micros(discipline.max_error_us),
        micros(discipline.est_error_us),
        discipline.tai_offset_s
    )
}

fn steps(page: &mut Page, report: &WrongnessReport) {
    page.section("Steps of CLOCK_REALTIME");
    let steps = &report.steps;
    let watched = nanos(steps.watched_ms.saturating_mul(1_000_000));
    if steps.notices == 0 && steps.steps_ns.is_empty() {
        page.paragraph(&format!("Nobody set the clock while it was watched, for {watched}."));
        return;
    }
    page.paragraph(&format!(
        "In {watched} the kernel gave notice {} that the clock was set; steps seen: {}.",
        counted(steps.notices, "time", "times"),
        counted(u64::try_from(steps.steps_ns.len()).unwrap_or(u64::MAX), "one", "in all")
    ));
    let mut table = Table::new("Steps seen", &["step", "by"]);
    for (index, step) in steps.steps_ns.iter().enumerate() {
        table.row(vec![(index + 1).to_string(), Unit::Nanos.signed(*step as f64)]);
    }
    page.table(&table);
}

fn declines(page: &mut Page, report: &WrongnessReport) {
    if report.declines.is_empty() {
        return;
    }
    page.section("Not measured");
    let mut table = Table::new("What was not measured, and why", &["what", "why"]).words(&[1]);
    for (what, why) in &report.declines {
        table.row(vec![what.clone(), why.clone()]);
    }
    page.table(&table);
}

fn method(report: &WrongnessReport) -> String {
    format!(
        "Measured for {}. Order: bursts of reads on one CPU. Routes: a read by system call, one by \
         the vDSO and one by system call, which must not go back. Staleness: a read between two of \
         the precise clock, kept if those are close together; once without pause (busy) and once \
         at random moments with sleeps between them (idle). Warp and offset: two threads on two \
         CPUs that hand a reading to each other. No clock was set.",
        nanos(report.elapsed_ms.saturating_mul(1_000_000))
    )
}

fn command(report: &WrongnessReport) -> String {
    let stability = if report.stability.is_empty() { "" } else { " --stability" };
    format!("clockscope wrongness{stability} --format html -o wrongness.html")
}
