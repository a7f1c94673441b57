//! Real programs under load: requests a second, traced against untraced.

use anyhow::Result;

use crate::figure::{Target, Unit};
use crate::page::Page;
use crate::rounds::interleave;
use crate::series::{Series, judge, rate_table};
use crate::servers::postgres::Cluster;
use crate::servers::{nginx, postgres, redis, sqlite};
use crate::suite::Suite;
use crate::tools::missing;
use crate::tracer::{
    STRACE, TRACE_COUNTS, TRACE_SITES, TRACE_SITES_COUNTS, TRACE_TIME, TRACE_VDSO, Tracer,
};

const TRACERS: [Tracer; 7] = [
    Tracer::Untraced,
    TRACE_VDSO,
    TRACE_SITES_COUNTS,
    TRACE_SITES,
    TRACE_COUNTS,
    TRACE_TIME,
    STRACE,
];

const POSTGRES: &str = "PostgreSQL under pgbench, select only";

pub(crate) fn run(suite: &Suite, page: &mut Page) -> Result<()> {
    page.heading(2, "Real programs");
    page.text(
        "Where there are four CPUs the server has 0 and 1 and the load generator 2 and 3, else all are shared; a fresh \
         server for each variant and round; what a second means is the load generator's own clock.",
    );
    compare(suite, page, "nginx under wrk", &nginx::PROGRAMS, |tracer| nginx::rate(suite, tracer));
    compare(suite, page, "redis-server under redis-benchmark, GET", &redis::PROGRAMS, |tracer| {
        redis::rate(suite, tracer)
    });
    compare(suite, page, "sqlite3, inserts of the current time", &sqlite::PROGRAMS, |tracer| {
        sqlite::rate(suite, tracer)
    });
    if let Some(cluster) = cluster(suite, page, POSTGRES) {
        let rate = |tracer| cluster.rate(suite, tracer);
        compare(suite, page, POSTGRES, &postgres::PROGRAMS, rate);
    }
    Ok(())
}

/// A cluster of PostgreSQL; if there can be none, the reason stands below the heading.
pub(super) fn cluster(suite: &Suite, page: &mut Page, what: &str) -> Option<Cluster> {
    let cluster = missing(&postgres::PROGRAMS).map_or_else(
        || Cluster::create(suite).map_err(|error| format!("does not run here: {error:#}")),
        Err,
    );
    let because = |reason: String| {
        page.heading(3, what);
        page.text(&reason);
    };
    cluster.map_err(because).ok()
}

fn compare(
    suite: &Suite,
    page: &mut Page,
    what: &str,
    programs: &[&str],
    rate: impl FnMut(Tracer) -> Result<f64>,
) {
    let Some(all) = rates(suite, page, what, programs, &TRACERS, rate) else { return };
    let limits = [
        (TRACE_VDSO, 0.98),
        (TRACE_SITES_COUNTS, 0.97),
        (TRACE_SITES, 0.93),
        (TRACE_COUNTS, 0.90),
        (TRACE_TIME, 0.85),
    ];
    let targets = limits.map(|(tracer, limit)| (tracer, Target::AtLeast(limit)));
    judge(page, &all, Unit::Ratio, &targets, |tracer| format!("{what} with {tracer}"));
}

/// The rates under each tracer, with their heading and table; `None` where programs are missing.
pub(super) fn rates(
    suite: &Suite,
    page: &mut Page,
    what: &str,
    programs: &[&str],
    tracers: &[Tracer],
    rate: impl FnMut(Tracer) -> Result<f64>,
) -> Option<Vec<Series>> {
    page.heading(3, what);
    if let Some(reason) = missing(programs) {
        page.text(&reason);
        return None;
    }
    let variants = interleave(suite, tracers, suite.options.load_rounds(), rate);
    let all: Vec<Series> =
        variants.iter().map(|variant| Series::of(variant, |&rate| rate)).collect();
    rate_table(page, &all);
    Some(all)
}
