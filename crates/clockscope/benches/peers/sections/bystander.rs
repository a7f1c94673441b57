//! The bystander tax: what tracing one process costs another that is not traced.

use std::ffi::OsString;
use std::time::Duration;

use anyhow::Result;

use crate::figure::{Target, Unit, verdict};
use crate::loops::{Launch, Loop, launch, series};
use crate::page::Page;
use crate::process::Running;
use crate::rounds::interleave;
use crate::series::{ratio_to, time_table};
use crate::suite::Suite;
use crate::tracer::{STRACE, TRACE_COUNTS, TRACE_SITES, TRACE_TIME, TRACE_VDSO, Tracer};

fn tracers(suite: &Suite) -> [Tracer; 9] {
    [
        Tracer::Untraced,
        TRACE_VDSO,
        TRACE_SITES,
        TRACE_COUNTS,
        TRACE_TIME,
        suite.options.choose(Tracer::PerfStat, Tracer::PerfStatFew),
        Tracer::BpftraceCount,
        Tracer::PerfTrace,
        STRACE,
    ]
}

const LIMIT: Duration = Duration::from_secs(30);

pub(crate) fn run(suite: &Suite, page: &mut Page) -> Result<()> {
    page.heading(2, "Bystanders");
    page.text(
        "A getppid loop that nobody traces, while the tracer watches another process that sleeps.",
    );
    let workload = Loop::new(suite, "getppid");
    let variants = interleave(suite, &tracers(suite), suite.options.peer_rounds(), |tracer| {
        beside(suite, tracer, &workload)
    });
    let all = series(&variants);
    time_table(page, &all, Unit::Nanos);
    for (tracer, target, via) in [(TRACE_VDSO, 1.02, "none"), (TRACE_SITES, 1.01, "sites")] {
        let tax = ratio_to(&all, "untraced", &tracer.name());
        let what = format!("an unrelated getppid while --via {via} traces another process");
        page.verdict(&verdict(&what, Target::AtMost(target), Unit::Ratio, tax));
    }
    Ok(())
}

/// Runs the loop while the tracer watches a process that sleeps.
fn beside(suite: &Suite, tracer: Tracer, workload: &Loop) -> Result<Launch> {
    let idle: Vec<OsString> = vec![suite.workloads.loop_program.clone().into(), "idle".into()];
    let mut tracee = Running::start(&tracer.wrap(&suite.tools, &suite.path("idle"), &idle))?;
    tracee.wait_for_line("ready", LIMIT)?;
    let result = launch(suite, Tracer::Untraced, workload);
    tracee.finish(LIMIT)?;
    result
}
