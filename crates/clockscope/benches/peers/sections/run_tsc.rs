//! `clockscope run --clock tsc`: what a read costs through its image, and whether threads see it run
//! backwards.

use std::ffi::OsString;

use anyhow::{Result, bail};

use crate::figure::{Unit, at_most};
use crate::loops::{Loop, launch_in_rounds, series};
use crate::machine::measured_by;
use crate::page::Page;
use crate::process;
use crate::sections::order::{COLUMNS, Found};
use crate::series::{judge, time_table};
use crate::suite::{LAUNCH_LIMIT, Suite};
use crate::tracer::{RUN_KERNEL, RUN_TSC, Tracer};

const RUN_TSC_FAST: Tracer = Tracer::Clockscope("run --clock tsc-fast");
/// The page answers only when the timekeeper has seen enough of the counter.
const SLEEP_MS: usize = 400;

pub(crate) fn run(suite: &Suite, page: &mut Page) -> Result<()> {
    page.heading(2, "clockscope run --clock tsc");
    page.text(&measured_by("run-tsc"));
    page.text(&format!(
        "Each launch sleeps {SLEEP_MS} ms before its first batch: until the timekeeper has measured the counter, \
         the kernel answers."
    ));
    is_offered(suite)?;
    by_pointer(suite, page, "pointer", "MONOTONIC");
    by_pointer(suite, page, "realtime_pointer", "REALTIME");
    coarse(suite, page, "clock_gettime_coarse", "MONOTONIC_COARSE");
    coarse(suite, page, "realtime_coarse", "REALTIME_COARSE");
    order(suite, page)
}

/// Fails with clockscope's own words where it declines.
fn is_offered(suite: &Suite) -> Result<()> {
    let command = under(suite, RUN_TSC, &[suite.workloads.true_program.clone().into()]);
    process::run(&command, LAUNCH_LIMIT).map(drop)
}

fn under(suite: &Suite, tracer: Tracer, command: &[OsString]) -> Vec<OsString> {
    tracer.wrap(&suite.tools, &suite.path("summary"), command)
}

fn rounds(suite: &Suite) -> usize {
    suite.options.rounds.unwrap_or(suite.options.choose(7, 2))
}

fn by_pointer(suite: &Suite, page: &mut Page, kind: &'static str, clock: &str) {
    page.heading(3, &format!("clock_gettime({clock}), called by its address in the vDSO"));
    let tracers = [Tracer::Untraced, RUN_KERNEL, RUN_TSC, RUN_TSC_FAST];
    let workload = Loop { sleep_ms: SLEEP_MS, ..Loop::new(suite, kind) };
    let all = series(&launch_in_rounds(suite, &tracers, rounds(suite), &workload));
    time_table(page, &all, Unit::Nanos);
    let targets = [(RUN_TSC, 0.95), (RUN_TSC_FAST, 0.62)].map(at_most);
    judge(page, &all, Unit::Ratio, &targets, |tracer| {
        format!("{tracer} over the kernel's vDSO, {clock} by pointer")
    });
}

fn coarse(suite: &Suite, page: &mut Page, kind: &'static str, clock: &str) {
    page.heading(3, &format!("clock_gettime({clock}), through the C library"));
    let tracers = [Tracer::Untraced, RUN_TSC, RUN_TSC_FAST];
    let workload = Loop { sleep_ms: SLEEP_MS, ..Loop::new(suite, kind) };
    let all = series(&launch_in_rounds(suite, &tracers, rounds(suite), &workload));
    time_table(page, &all, Unit::Nanos);
    let targets = [(RUN_TSC, 0.5), (RUN_TSC_FAST, 0.5)].map(at_most);
    judge(page, &all, Unit::Ratio, &targets, |tracer| {
        format!("{tracer} over the kernel's vDSO, {clock}")
    });
    page.text(
        "The kernel answers this clock under `--clock tsc` too, in user space on every clocksource; what the image adds \
         are four comparisons. The target cannot be reached: most of the untraced time is the call through the C \
         library and the loop.",
    );
}

fn order(suite: &Suite, page: &mut Page) -> Result<()> {
    let reads = suite.options.choose(52_000_000, 2_000_000);
    page.heading(3, "whether threads see time run backwards");
    page.text("A C program of 4 threads that reads MONOTONIC by its address in the vDSO.");
    let (mut rows, mut judged) = (Vec::new(), String::new());
    for tracer in [Tracer::Untraced, RUN_TSC, RUN_TSC_FAST] {
        let found = watch(suite, tracer, reads)?;
        rows.push(found.row(&tracer.name(), 1.0));
        if tracer == RUN_TSC {
            judged = found.verdict("run --clock tsc");
        }
    }
    page.table(&COLUMNS, &rows);
    page.verdict(&judged);
    Ok(())
}

fn watch(suite: &Suite, tracer: Tracer, reads: u64) -> Result<Found> {
    let program = suite.workloads.order.clone().into_os_string();
    let arguments = format!("4 {reads} {SLEEP_MS}");
    let mut command = vec![program];
    command.extend(process::words(&arguments));
    let finished = process::run(&under(suite, tracer, &command), LAUNCH_LIMIT)?;
    let words: Vec<&str> = finished.stdout.split_whitespace().collect();
    let ["order", reads, backwards, worst] = words.as_slice() else {
        bail!("the threads said {:?}", finished.stdout);
    };
    Ok(Found { reads: reads.parse()?, backwards: backwards.parse()?, worst: worst.parse()? })
}
