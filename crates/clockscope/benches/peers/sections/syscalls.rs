//! System calls: what counting and timing them costs, what is lost, and how true the averages are.

use anyhow::{Context, Result};
use clockscope_stats::median::MedianInterval;

use crate::figure::{Target, Unit, at_most, ratio, verdict};
use crate::loops::{Launch, Loop, launch, series};
use crate::page::Page;
use crate::process::{self, words};
use crate::rounds::{Variant, interleave};
use crate::sections::exactness::{self, Tally};
use crate::series::{Series, judge, named, time_table};
use crate::suite::{LAUNCH_LIMIT, Suite};
use crate::tools::path_of;
use crate::tracer::{
    STRACE, STRACE_SECCOMP, TRACE_COUNTS, TRACE_SITES, TRACE_SITES_COUNTS, TRACE_TIME, TRACE_VDSO,
    Tracer,
};

/// The tracers to compare; `perf stat` with all its events only where there is time for it.
fn tracers(suite: &Suite) -> [Tracer; 13] {
    [
        Tracer::Untraced,
        TRACE_VDSO,
        TRACE_SITES_COUNTS,
        TRACE_SITES,
        TRACE_COUNTS,
        TRACE_TIME,
        Tracer::Clockscope("trace --latency"),
        suite.options.choose(Tracer::PerfStat, Tracer::PerfStatFew),
        Tracer::BpftraceCount,
        Tracer::BpftraceTime,
        Tracer::PerfTrace,
        STRACE,
        STRACE_SECCOMP,
    ]
}

pub(crate) fn run(suite: &Suite, page: &mut Page) -> Result<()> {
    page.heading(2, "System calls");
    getppid(suite, page);
    dd(suite, page);
    Ok(())
}

fn getppid(suite: &Suite, page: &mut Page) {
    page.heading(3, "getppid");
    let workload = Loop::new(suite, "getppid");
    let variants = interleave(suite, &tracers(suite), suite.options.peer_rounds(), |tracer| {
        launch(suite, tracer, &workload)
    });
    let all = series(&variants);
    time_table(page, &all, Unit::Nanos);
    write_ratio_verdicts(page, &all, "getppid");
    let tallies = tallies(&variants);
    page.text(
        "Calls made and counted in all rounds together, and the average that each tracer reports; a tracer that \
         lost every launch's count says none.",
    );
    exactness::table(page, &tallies);
    for tally in tallies
        .iter()
        .filter(|tally| [TRACE_SITES, TRACE_COUNTS, TRACE_TIME].contains(&tally.tracer()))
    {
        page.verdict(&tally.verdict("getppid"));
    }
    write_average_verdict(page, &all, &tallies);
}

fn tallies(variants: &[Variant<Launch>]) -> Vec<Tally> {
    let read =
        |tracer: Tracer, summary: &str| tracer.syscall(summary, "getppid", libc::SYS_getppid);
    let counting =
        variants.iter().filter(|variant| ![TRACE_VDSO, STRACE_SECCOMP].contains(&variant.tracer));
    counting.filter_map(|variant| Tally::of(variant, read)).collect()
}

fn write_ratio_verdicts(page: &mut Page, all: &[Series], what: &str) {
    let sites = [(TRACE_SITES_COUNTS, 1.05), (TRACE_SITES, 1.15)].map(at_most);
    let kernel = [(TRACE_COUNTS, 1.5), (TRACE_TIME, 3.0)].map(at_most);
    let targets = [sites, kernel].concat();
    judge(page, all, Unit::Ratio, &targets, |tracer| format!("{what} under {tracer}"));
}

/// The average that `trace` reports, over what a call costs untraced: within 15 % either way.
fn write_average_verdict(page: &mut Page, all: &[Series], tallies: &[Tally]) {
    let what = "getppid's reported average over its untraced cost, distance from 1";
    let distance = reported_over_untraced(all, tallies).map(distance_from_one);
    page.verdict(&verdict(what, Target::AtMost(0.15), Unit::Ratio, distance));
}

fn reported_over_untraced(all: &[Series], tallies: &[Tally]) -> Option<MedianInterval> {
    let reported = tallies.iter().find(|tally| tally.tracer() == TRACE_TIME)?;
    ratio(&named(all, "untraced")?.values, reported.averages_ns())
}

fn distance_from_one(figure: MedianInterval) -> MedianInterval {
    let (low, high) = ((figure.low - 1.0).abs(), (figure.high - 1.0).abs());
    let encloses_one = figure.low <= 1.0 && figure.high >= 1.0;
    MedianInterval {
        low: if encloses_one { 0.0 } else { low.min(high) },
        median: (figure.median - 1.0).abs(),
        high: low.max(high),
        ..figure
    }
}

/// One `dd bs=1`: its own time per byte, and what the tracer counted.
struct Copy {
    byte_ns: f64,
    writes: Option<u64>,
    bytes: u64,
}

fn dd(suite: &Suite, page: &mut Page) {
    page.heading(3, "dd bs=1");
    page.text(
        "A read and a write per byte, by dd's own time. It writes a few messages more than bytes.",
    );
    let variants = interleave(suite, &tracers(suite), suite.options.peer_rounds(), |tracer| {
        copy(suite, tracer)
    });
    let all: Vec<Series> =
        variants.iter().map(|variant| Series::of(variant, |copy| copy.byte_ns)).collect();
    time_table(page, &all, Unit::Nanos);
    write_ratio_verdicts(page, &all, "dd bs=1");
    let rows: Vec<Vec<String>> = variants.iter().filter_map(write_row).collect();
    page.table(&["tracer", "bytes copied", "writes counted"], &rows);
}

fn write_row(variant: &Variant<Copy>) -> Option<Vec<String>> {
    let copies: Vec<&Copy> = variant.rounds.iter().flatten().collect();
    let writes: u64 = copies.iter().map(|copy| copy.writes).sum::<Option<u64>>()?;
    let bytes: u64 = copies.iter().map(|copy| copy.bytes).sum();
    (!copies.is_empty()).then(|| vec![variant.tracer.name(), bytes.to_string(), writes.to_string()])
}

fn copy(suite: &Suite, tracer: Tracer) -> Result<Copy> {
    let bytes =
        suite.options.choose(500_000, 100_000) / if tracer.is_slow_on_syscalls() { 100 } else { 1 };
    let summary = suite.path("summary");
    // It is not there at the first launch.
    let _ = std::fs::remove_file(&summary);
    // bpftrace wants the whole path.
    let mut command = vec![path_of("dd").context("dd is not installed")?.into_os_string()];
    command.extend(words(&format!("if=/dev/zero of=/dev/null bs=1 count={bytes}")));
    let finished = process::run(&tracer.wrap(&suite.tools, &summary, &command), LAUNCH_LIMIT)?;
    let seconds = copied_seconds(&finished.stderr).context("dd did not say how long it took")?;
    let text = std::fs::read(&summary).unwrap_or_default();
    let counted = tracer.syscall(&String::from_utf8_lossy(&text), "write", libc::SYS_write);
    Ok(Copy {
        byte_ns: seconds * 1e9 / bytes as f64,
        writes: counted.map(|counted| counted.calls),
        bytes,
    })
}

/// Reads `500000 bytes (500 kB, 488 KiB) copied, 0.123 s, 4.1 MB/s`.
fn copied_seconds(text: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.contains(" copied, "))?;
    line.split(" copied, ").nth(1)?.split_whitespace().next()?.parse().ok()
}
