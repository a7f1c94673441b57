//! Reads of the CPU's counter by the program itself: what counting adds to one, and whether the count is right.

use anyhow::Result;
use clockscope_tracee::lacks;

use crate::counted;
use crate::figure::{Target, Unit, show, verdict};
use crate::loops::{Loop, launch_in_rounds, series};
use crate::page::Page;
use crate::sections::exactness::{self, Tally};
use crate::series::{ratio_to, time_table};
use crate::suite::Suite;
use crate::tracer::Tracer;

const TRACE_COUNTERS: Tracer = Tracer::Clockscope("trace --counters");

pub(crate) fn run(suite: &Suite, page: &mut Page) -> Result<()> {
    page.heading(2, "Reads of the CPU's counter");
    if let Some(lacks) = lacks::SITES {
        page.text(lacks);
        return Ok(());
    }
    let several = suite.cpus.min(4);
    for (kind, threads) in [("rdtsc", 1), ("rdtscp", 1), ("lfence_rdtsc", 1), ("rdtsc", several)] {
        let what = format!("{kind}, {threads} {}", if threads == 1 { "thread" } else { "threads" });
        page.heading(3, &what);
        // Threads are on the CPUs from the first on.
        let loops = Loop::new(suite, kind);
        let first_cpu = if threads > 1 { Some(0) } else { loops.first_cpu };
        let workload = Loop { threads, first_cpu, ..loops };
        let tracers = [Tracer::Untraced, TRACE_COUNTERS];
        let variants = launch_in_rounds(suite, &tracers, suite.options.loop_rounds(), &workload);
        let all = series(&variants);
        time_table(page, &all, Unit::Nanos);
        let slower = ratio_to(&all, "untraced", &TRACE_COUNTERS.name());
        let counted = format!("a counted {what}, over the plain one");
        if threads == 1 {
            page.verdict(&verdict(&counted, Target::AtMost(1.15), Unit::Ratio, slower));
        } else if let Some(slower) = slower {
            page.text(&format!("{counted}: {}", show(&slower, Unit::Ratio)));
        }
        let instruction = if kind == "rdtscp" { "rdtscp" } else { "rdtsc" };
        let read = |_, summary: &str| counted::from_counters(summary, instruction);
        let tally = variants.iter().find_map(|variant| Tally::of(variant, read));
        if let Some(tally) = tally {
            page.verdict(&tally.verdict(&what));
            exactness::table(page, &[tally]);
        }
    }
    Ok(())
}
