//! Clock reads through the vDSO: what counting adds to one, and whether the count is right.

use anyhow::Result;

use crate::figure::{Target, Unit, verdict};
use crate::loops::{Launch, Loop, launch_in_rounds, series};
use crate::page::Page;
use crate::rounds::Variant;
use crate::sections::exactness::{self, Tally};
use crate::series::{added_to, ratio_to, time_table};
use crate::suite::Suite;
use crate::tracer::{RUN_KERNEL, TRACE_VDSO, Tracer};

const RUN_STATS: Tracer = Tracer::Clockscope("run --clock kernel --stats");
const RUN_SYSCALL: Tracer = Tracer::Clockscope("run --clock syscall");
const RUN_COARSE: Tracer = Tracer::Clockscope("run --clock coarse");

pub(crate) fn run(suite: &Suite, page: &mut Page) -> Result<()> {
    page.heading(2, "Clock reads through the vDSO");
    average_read(suite, page);
    counted_read(suite, page);
    gettimeofday(suite, page);
    several_threads(suite, page);
    Ok(())
}

/// Batches of 200 us: the timed calls among the counted ones are in the figure.
fn average_read(suite: &Suite, page: &mut Page) {
    page.heading(3, "clock_gettime, one thread, batches of 200 us");
    page.text("The average read: the calls that clockscope times are part of every batch.");
    let tracers = [
        Tracer::Untraced,
        TRACE_VDSO,
        RUN_KERNEL,
        RUN_STATS,
        RUN_SYSCALL,
        RUN_COARSE,
        Tracer::Breakpoint,
        Tracer::Ltrace,
    ];
    let workload = Loop::new(suite, "clock_gettime");
    let variants = launch_in_rounds(suite, &tracers, suite.options.loop_rounds(), &workload);
    let all = series(&variants);
    time_table(page, &all, Unit::Nanos);
    let added = added_to(&all, "untraced", &TRACE_VDSO.name());
    let what = "counting and timing adds to the average read";
    page.verdict(&verdict(what, Target::AtMost(7.0), Unit::Nanos, added));
    let added = added_to(&all, "untraced", &RUN_KERNEL.name());
    let what = "run --clock kernel adds to a read";
    page.verdict(&verdict(what, Target::AtMost(2.5), Unit::Nanos, added));
    write_counts(page, &variants, "clock_gettime", "clock_gettime, one thread");
}

/// Batches so short that most of them hold no timed call.
fn counted_read(suite: &Suite, page: &mut Page) {
    page.heading(3, "clock_gettime, one thread, batches of 32 calls");
    page.text(
        "A read that is counted and not timed: the median batch is too short to hold a timed call. The two time \
         stamps of a batch, system calls both, are in every figure and cancel in the difference.",
    );
    let tracers = [Tracer::Untraced, TRACE_VDSO, RUN_KERNEL];
    let batches = suite.options.choose(4000, 1000);
    let workload = Loop::new(suite, "clock_gettime").in_batches(32, batches);
    let all = series(&launch_in_rounds(suite, &tracers, suite.options.loop_rounds(), &workload));
    time_table(page, &all, Unit::Nanos);
    let added = added_to(&all, "untraced", &TRACE_VDSO.name());
    page.verdict(&verdict("vDSO counting adds to a read", Target::AtMost(5.0), Unit::Nanos, added));
}

fn gettimeofday(suite: &Suite, page: &mut Page) {
    page.heading(3, "gettimeofday, one thread");
    let tracers = [Tracer::Untraced, TRACE_VDSO, Tracer::Ltrace];
    let workload = Loop::new(suite, "gettimeofday");
    let variants = launch_in_rounds(suite, &tracers, suite.options.loop_rounds(), &workload);
    time_table(page, &series(&variants), Unit::Nanos);
    write_counts(page, &variants, "gettimeofday", "gettimeofday, one thread");
}

fn several_threads(suite: &Suite, page: &mut Page) {
    let threads = suite.cpus.min(4);
    page.heading(3, &format!("clock_gettime, {threads} threads reading at once"));
    let tracers = [Tracer::Untraced, TRACE_VDSO, RUN_KERNEL];
    // On the CPUs from the first on.
    let workload = Loop { threads, first_cpu: Some(0), ..Loop::new(suite, "clock_gettime") };
    let variants = launch_in_rounds(suite, &tracers, suite.options.loop_rounds(), &workload);
    let all = series(&variants);
    time_table(page, &all, Unit::Nanos);
    let slower = ratio_to(&all, "untraced", &TRACE_VDSO.name());
    let what = format!("the traced loop on {threads} threads over the untraced");
    page.verdict(&verdict(&what, Target::AtMost(1.25), Unit::Ratio, slower));
    write_counts(page, &variants, "clock_gettime", &format!("clock_gettime, {threads} threads"));
}

fn write_counts(page: &mut Page, variants: &[Variant<Launch>], function: &str, what: &str) {
    let read = |tracer: Tracer, summary: &str| tracer.vdso_call(summary, function);
    let counting = |variant: &&Variant<Launch>| {
        matches!(variant.tracer, Tracer::Breakpoint | Tracer::Ltrace)
            || variant.tracer == TRACE_VDSO
            || variant.tracer == RUN_STATS
    };
    let tallies: Vec<Tally> =
        variants.iter().filter(counting).filter_map(|variant| Tally::of(variant, read)).collect();
    if tallies.is_empty() {
        return;
    }
    exactness::table(page, &tallies);
    if let Some(tally) = tallies.iter().find(|tally| tally.tracer() == TRACE_VDSO) {
        page.verdict(&tally.verdict(what));
    }
}
