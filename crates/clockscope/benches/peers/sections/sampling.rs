//! What sampling callers costs: requests a second with stacks, against the same trace without.

use anyhow::Result;

use crate::figure::{Target, Unit, verdict};
use crate::loops::{Loop, launch_in_rounds, series};
use crate::page::Page;
use crate::series::{added_to, ratio_to, time_table};
use crate::servers::{postgres, redis};
use crate::suite::Suite;
use crate::tracer::{TRACE_VDSO, Tracer};

use super::real::{cluster, rates};

const CALLERS: Tracer = Tracer::Clockscope("trace --via none --callers");
const TRACERS: [Tracer; 3] = [Tracer::Untraced, TRACE_VDSO, CALLERS];

pub(crate) fn run(suite: &Suite, page: &mut Page) -> Result<()> {
    page.heading(2, "Sampling callers");
    page.text("At the default rate, 1,000 stacks a second over the whole tree.");
    read_in_a_loop(suite, page);
    let what = "redis-server under redis-benchmark, GET, sampled";
    server(suite, page, what, &redis::PROGRAMS, |tracer| redis::rate(suite, tracer));
    let what = "PostgreSQL under pgbench, select only, sampled";
    if let Some(cluster) = cluster(suite, page, what) {
        server(suite, page, what, &postgres::PROGRAMS, |tracer| cluster.rate(suite, tracer));
    }
    Ok(())
}

fn read_in_a_loop(suite: &Suite, page: &mut Page) {
    page.heading(3, "clock_gettime in a loop, sampled");
    let workload = Loop::new(suite, "clock_gettime");
    let tracers = [Tracer::Untraced, TRACE_VDSO, CALLERS];
    let variants = launch_in_rounds(suite, &tracers, suite.options.loop_rounds(), &workload);
    let all = series(&variants);
    time_table(page, &all, Unit::Nanos);
    let added = added_to(&all, &TRACE_VDSO.name(), &CALLERS.name());
    let what = "sampling adds to the average read of a program that does nothing else";
    page.verdict(&verdict(what, Target::AtMost(1.0), Unit::Nanos, added));
}

fn server(
    suite: &Suite,
    page: &mut Page,
    what: &str,
    programs: &[&str],
    rate: impl FnMut(Tracer) -> Result<f64>,
) {
    let Some(all) = rates(suite, page, what, programs, &TRACERS, rate) else { return };
    let kept = ratio_to(&all, &TRACE_VDSO.name(), &CALLERS.name());
    let what = format!("{what}: throughput with --callers of that without");
    page.verdict(&verdict(&what, Target::AtLeast(0.98), Unit::Ratio, kept));
}
