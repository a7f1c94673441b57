//! What following a program costs it when it gets many signals or forks a lot.

use anyhow::Result;

use crate::figure::Unit;
use crate::loops::{Loop, launch_in_rounds, series};
use crate::page::Page;
use crate::series::time_table;
use crate::suite::Suite;
use crate::tracer::{RUN_KERNEL, STRACE, TRACE_COUNTS, TRACE_TIME, TRACE_VDSO, Tracer};

const TRACERS: [Tracer; 7] = [
    Tracer::Untraced,
    Tracer::Clockscope("run --clock kernel --no-follow"),
    RUN_KERNEL,
    TRACE_VDSO,
    TRACE_COUNTS,
    TRACE_TIME,
    STRACE,
];

pub(crate) fn run(suite: &Suite, page: &mut Page) -> Result<()> {
    page.heading(2, "Signals and forks");
    let batches = suite.options.choose(100, 20);
    let signals = Loop::new(suite, "signals").in_batches(1000, batches).unpinned();
    let forks = Loop::new(suite, "forks").in_batches(10, batches * 2).unpinned();
    write_table(suite, page, &signals, "signals that a program sends itself, per signal");
    write_table(suite, page, &forks, "fork, exit and wait, per fork");
    Ok(())
}

fn write_table(suite: &Suite, page: &mut Page, workload: &Loop, what: &str) {
    page.heading(3, &format!("{} {what}", workload.batches * workload.batch_calls));
    let workload = Loop { limit_ms: suite.options.choose(10_000, 1000), ..workload.clone() };
    let variants = launch_in_rounds(suite, &TRACERS, suite.options.load_rounds(), &workload);
    time_table(page, &series(&variants), Unit::Nanos);
}
