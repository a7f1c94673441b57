//! Starting programs: one exec, a whole cold run, and a script of many short commands.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::figure::{Unit, at_most, verdict};
use crate::loops::{Loop, launch_in_rounds, series};
use crate::page::Page;
use crate::rounds::interleave;
use crate::series::{Series, judge, ratio_to, share_of_added, time_table};
use crate::suite::{LAUNCH_LIMIT, Suite};
use crate::tools::path_of;
use crate::tracer::{
    DOCTOR, RUN_KERNEL, RUN_TSC, STRACE, STRACE_FOLLOW, STRACE_SECCOMP, TRACE_COUNTS, TRACE_SITES,
    TRACE_TIME, TRACE_VDSO, Tracer, VERSION,
};

const TRACERS: [Tracer; 9] = [
    Tracer::Untraced,
    RUN_KERNEL,
    TRACE_VDSO,
    TRACE_SITES,
    TRACE_COUNTS,
    TRACE_TIME,
    STRACE,
    STRACE_SECCOMP,
    STRACE_FOLLOW,
];

const NO_TRUE: &str = "true is not installed";

pub(crate) fn run(suite: &Suite, page: &mut Page) -> Result<()> {
    page.heading(2, "Starting programs");
    one_exec(suite, page, "static", suite.workloads.true_program.clone(), (3.0, 3.0));
    one_exec(suite, page, "dynamic", path_of("true").context(NO_TRUE)?, (0.25, 0.6));
    cold_run(suite, page)?;
    script(suite, page);
    Ok(())
}

/// Fork, exec and wait of a program, inside a traced parent. Targets: without system calls, and with those counted by
/// code in the program.
fn one_exec(suite: &Suite, page: &mut Page, what: &str, program: PathBuf, targets: (f64, f64)) {
    page.heading(3, &format!("fork, exec and wait of a {what} program, in a traced parent"));
    let batches = suite.options.choose(200, 40);
    let workload = Loop { executes: program, ..Loop::new(suite, "execs") };
    let workload = workload.in_batches(1, batches).unpinned();
    let rounds = suite.options.loop_rounds();
    let all: Vec<Series> = series(&launch_in_rounds(suite, &TRACERS, rounds, &workload))
        .into_iter()
        .map(in_millis)
        .collect();
    time_table(page, &all, Unit::Millis);
    let targets =
        [(TRACE_VDSO, targets.0), (TRACE_SITES, targets.1), (TRACE_TIME, 3.0)].map(at_most);
    judge(page, &all, Unit::Millis, &targets, |tracer| {
        format!("{tracer} adds to an exec of a {what} program")
    });
    for (tracer, anchor, limit) in [
        (TRACE_VDSO, STRACE_FOLLOW, 1.0),
        (TRACE_SITES, STRACE, 0.5),
        (TRACE_TIME, STRACE_FOLLOW, 1.3),
    ] {
        let (name, anchor) = (tracer.name(), anchor.name());
        let figure = share_of_added(&all, &anchor, &name);
        let what = format!("{name} adds to an exec of a {what} program, of what {anchor} adds");
        page.verdict(&verdict(&what, at_most(((), limit)).1, Unit::Ratio, figure));
    }
}

fn in_millis(mut series: Series) -> Series {
    let millis = |ns: f64| ns / 1e6;
    series.minimum = series.minimum.map(millis);
    series.values = series.values.into_iter().map(|value| value.map(millis)).collect();
    series
}

/// The whole command, the tracer's own start included.
fn cold_run(suite: &Suite, page: &mut Page) -> Result<()> {
    page.heading(3, "a whole run of true(1), the tracer's own start included");
    let peers = [Tracer::Ltrace, Tracer::PerfTrace, Tracer::BpftraceCount];
    let more = [RUN_TSC, DOCTOR, VERSION];
    let tracers: Vec<Tracer> = TRACERS.into_iter().chain(more).chain(peers).collect();
    let command = vec![path_of("true").context(NO_TRUE)?.into_os_string()];
    let rounds = suite.options.choose(30, 3);
    let all = walls(suite, &tracers, rounds, &command);
    time_table(page, &all, Unit::Millis);
    let targets = [(TRACE_VDSO, 10.0), (TRACE_SITES, 10.0), (TRACE_TIME, 25.0), (RUN_TSC, 25.0)];
    judge(page, &all, Unit::Millis, &targets.map(at_most), |tracer| {
        format!("{tracer} adds to a run of true")
    });
    for (tracer, limit) in [(TRACE_VDSO, 0.7), (TRACE_SITES, 1.5), (TRACE_TIME, 2.0), (DOCTOR, 4.0)]
    {
        let (name, anchor) = (tracer.name(), STRACE.name());
        let figure = ratio_to(&all, &anchor, &name);
        let what = format!("{name}, of the time of {anchor} true");
        page.verdict(&verdict(&what, at_most(((), limit)).1, Unit::Ratio, figure));
    }
    Ok(())
}

fn script(suite: &Suite, page: &mut Page) {
    let commands = suite.options.choose(1000, 200);
    page.heading(3, &format!("a shell script of {commands} short commands"));
    page.text("The tracer's own start is in the figures.");
    // The real /bin/true: the shell's own would start nothing.
    let command: Vec<OsString> =
        vec!["sh".into(), "-c".into(), repeat(commands, "/bin/true").into()];
    let all = walls(suite, &TRACERS, suite.options.load_rounds(), &command);
    time_table(page, &all, Unit::Millis);
    let targets = [(TRACE_VDSO, 1.25), (TRACE_SITES, 1.25), (TRACE_TIME, 1.5)].map(at_most);
    judge(page, &all, Unit::Ratio, &targets, |tracer| {
        format!("{commands} short commands under {tracer}")
    });
}

/// A line for the shell that runs a command so many times.
pub(super) fn repeat(count: u32, command: &str) -> String {
    format!("i=0; while [ $i -lt {count} ]; do {command}; i=$((i+1)); done")
}

/// Wall times of whole runs, in milliseconds.
pub(super) fn walls(
    suite: &Suite,
    tracers: &[Tracer],
    rounds: usize,
    command: &[OsString],
) -> Vec<Series> {
    let variants = interleave(suite, tracers, rounds, |tracer| {
        let line = tracer.wrap_as_text(&suite.tools, &suite.path("summary"), command);
        Ok(tracer.run(&line, LAUNCH_LIMIT)?.wall.as_secs_f64() * 1e3)
    });
    variants.iter().map(|variant| Series::of(variant, |&millis| millis)).collect()
}
