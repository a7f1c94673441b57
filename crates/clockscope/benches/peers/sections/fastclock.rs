//! What a reading costs: fastclock, the libraries beside it, the kernel's clocks and the counter.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use clockscope_sys::affinity;
use clockscope_sys::clock_loops::{self, CounterOrder as CounterLoop};
use clockscope_sys::vdso_call::Call;
use clockscope_sys::vdso_functions::Functions;
use fastclock::arch::CpuCounter;
use fastclock::page::Counter;
use fastclock::{Clock, ClockId};

use crate::arch::fast_clock;
use crate::chunks::{self, Plan, Subject};
use crate::clocks;
use crate::figure::{Target, Unit, or_dash, show, typical, verdict};
use crate::machine::measured_by;
use crate::page::Page;
use crate::process;
use crate::series::{self, Series};
use crate::suite::{LAUNCH_LIMIT, Suite};

const RDTSC: &str = "rdtsc";
const ORDERED: &str = "lfence; rdtsc";
const RDTSCP: &str = "rdtscp";
const LIBC: &str = "clock_gettime, libc";
const CLOCK_BOUND: &str = "clock-bound-client now";
const NOW_FAST: &str = "fastclock now_fast";
const NOW: &str = "fastclock now";
const NOW_BOUNDED: &str = "fastclock now_bounded";
const NOW_BOUNDED_FAST: &str = "fastclock now_bounded_fast";
const RECENT: &str = "fastclock recent";

/// A program that asks for the bound uses both numbers; that they are written to memory together
/// is no part of reading them.
#[inline(always)]
fn both(reading: &fastclock::Bounded<fastclock::Monotonic>) -> i64 {
    reading.time.0.0.wrapping_add(reading.bound.0)
}

pub(crate) fn run(suite: &Suite, page: &mut Page) -> Result<()> {
    page.heading(2, "What a reading costs: fastclock and its peers");
    page.text(&measured_by("fastclock"));
    let cpu = *affinity::allowed()?.last().context("no CPU")?;
    let before = affinity::allowed()?;
    affinity::restrict_to(&[cpu])?;
    let done = on_this_cpu(suite, page);
    affinity::restrict_to(&before)?;
    done
}

fn on_this_cpu(suite: &Suite, page: &mut Page) -> Result<()> {
    let clock: &'static Clock = Box::leak(Box::new(Clock::alone()));
    for clock in [clock, Clock::global()] {
        clock.calibrate(Duration::from_secs(1));
    }
    back_to_back(suite, page, clock)?;
    from_c(suite, page)?;
    page.text(&format!("Afterwards fastclock says: {}.", clock.status()));
    Ok(())
}

fn plan(suite: &Suite) -> Plan {
    Plan {
        rounds: suite.options.rounds.unwrap_or(suite.options.choose(21, 3)),
        chunks: suite.options.choose(9, 3),
        chunk_ns: 1_000_000,
    }
}

fn back_to_back(suite: &Suite, page: &mut Page, clock: &'static Clock) -> Result<()> {
    page.heading(3, "back to back");
    let plan = plan(suite);
    page.text(&format!(
        "One process, all readings in turn, the loop's own cost (first row) included. A round's figure is the best of \
         {} chunks of about {} ms of the thread's CPU time; the table has the median of {} rounds.",
        plan.chunks,
        plan.chunk_ns / 1_000_000,
        plan.rounds
    ));
    let mut subjects = counters_and_kernel()?;
    subjects.extend(peers(suite, page)?);
    subjects.extend(own(clock));
    let all = chunks::measure(&mut subjects, plan);
    costs_table(page, &all, RDTSC, LIBC);
    series::note_regimes(page, series::named(&all, RDTSC).context("no rdtsc")?);
    let floor = |name: &str| {
        let over = series::ratio_to(&all, LIBC, name)?;
        Some(format!("`{name}` {}x", show(&over, Unit::Ratio)))
    };
    let floors: Vec<String> = [ORDERED, RDTSCP].into_iter().filter_map(floor).collect();
    page.text(&format!(
        "No ordered reading can cost less than the instructions that put the counter in order; of {LIBC} they are: \
         {}.",
        floors.join(", ")
    ));
    let judge = |page: &mut Page, name: &str, base: &str, target: Target| {
        let what = format!("{name} over {base}");
        page.verdict(&verdict(&what, target, Unit::Ratio, series::ratio_to(&all, base, name)));
    };
    judge(page, NOW_FAST, RDTSC, Target::AtMost(1.20));
    judge(page, NOW, LIBC, Target::AtMost(0.83));
    judge(page, NOW_BOUNDED, LIBC, Target::AtMost(0.85));
    judge(page, CLOCK_BOUND, NOW_BOUNDED, Target::AtLeast(4.0));
    // ClockBound's client is not ordered either.
    if let Some(over) = series::ratio_to(&all, NOW_BOUNDED_FAST, CLOCK_BOUND) {
        let over = show(&over, Unit::Ratio);
        page.text(&format!("{CLOCK_BOUND} over {NOW_BOUNDED_FAST}, unordered as well: {over}x."));
    }
    let recent = series::named(&all, RECENT).and_then(|found| typical(&found.values));
    page.verdict(&verdict(RECENT, Target::AtMost(0.7), Unit::Nanos, recent));
    Ok(())
}

fn counters_and_kernel() -> Result<Vec<Subject>> {
    let functions = Functions::own().map_err(|error| anyhow!("{error}"))?;
    let monotonic = Call::ClockGettime(ClockId::Monotonic);
    let coarse = Call::ClockGettime(ClockId::MonotonicCoarse);
    let mut subjects = vec![
        Subject::reading("the empty loop", || 0_u64),
        Subject::reading(RDTSC, || CpuCounter.unordered().0),
        Subject::reading(ORDERED, || CpuCounter.ordered().0),
    ];
    // Where the CPU has it.
    let rdtscp = clock_loops::of_counter(CounterLoop::Rdtscp).ok();
    subjects.extend(rdtscp.map(|rdtscp| Subject::of_loop(RDTSCP, rdtscp)));
    subjects.extend([
        Subject::of_loop(LIBC, clock_loops::by_libc(monotonic)?),
        Subject::of_loop(
            "clock_gettime, vDSO by pointer",
            clock_loops::by_vdso(monotonic, &functions)?,
        ),
        Subject::of_loop("clock_gettime, COARSE", clock_loops::by_libc(coarse)?),
        Subject::reading("std Instant::now", std::time::Instant::now),
        Subject::reading("std SystemTime::now", std::time::SystemTime::now),
    ]);
    Ok(subjects)
}

fn peers(suite: &Suite, page: &mut Page) -> Result<Vec<Subject>> {
    let quanta = quanta::Clock::new();
    quanta::set_recent(quanta.now());
    let (raw, now, recent) = (quanta.clone(), quanta.clone(), quanta);
    let mut subjects = vec![
        Subject::reading("quanta raw", move || raw.raw()),
        Subject::reading("quanta Clock::now", move || now.now()),
        Subject::reading("quanta Instant::now", quanta::Instant::now),
        Subject::reading("quanta recent", move || recent.recent()),
        Subject::reading("minstant now (no conversion)", minstant::Instant::now),
        Subject::reading("fastant now (no conversion)", fastant::Instant::now),
    ];
    match fast_clock() {
        Ok(read) => subjects.push(Subject::reading("fast-clock now, to ns", read)),
        Err(error) => page.text(&format!("Not measured: {error:#}.")),
    }
    match clocks::clock_bound(&suite.path("clock-bound")) {
        Ok(mut client) => subjects.push(Subject::reading(CLOCK_BOUND, move || client.now())),
        Err(error) => page.text(&format!("`{CLOCK_BOUND}` does not run here: {error:#}")),
    }
    Ok(subjects)
}

fn own(clock: &'static Clock) -> Vec<Subject> {
    clock.refresh_recent();
    vec![
        Subject::reading(NOW_FAST, || clock.now_fast()),
        Subject::reading(NOW, || clock.now()),
        Subject::reading(NOW_BOUNDED, || both(&clock.now_bounded())),
        Subject::reading(NOW_BOUNDED_FAST, || both(&clock.now_bounded_fast())),
        Subject::reading("fastclock Instant::now_fast", fastclock::Instant::now_fast),
        Subject::reading("fastclock Instant::now", fastclock::Instant::now),
        Subject::reading("fastclock realtime_fast", || clock.realtime_fast()),
        Subject::reading("fastclock realtime", || clock.realtime()),
        Subject::reading(RECENT, || clock.recent()),
        Subject::reading("fastclock coarse", || clock.coarse()),
        Subject::reading("fastclock second", || clock.second()),
    ]
}

/// Writes minimum and median of each, and its ratios to two of them.
fn costs_table(page: &mut Page, all: &[Series], first: &str, second: &str) {
    let over = |base: &str, one: &Series| {
        let figure = series::ratio_to(all, base, &one.name).filter(|_| one.name != base);
        or_dash(figure.map(|figure| show(&figure, Unit::Ratio)))
    };
    let row = |one: &Series| {
        let median = typical(&one.values).map(|figure| show(&figure, Unit::Nanos));
        vec![
            one.name.clone(),
            one.minimum.map(|ns| Unit::Nanos.show(ns)).unwrap_or_default(),
            median.unwrap_or_default(),
            over(first, one),
            over(second, one),
        ]
    };
    let rows: Vec<Vec<String>> = all.iter().map(row).collect();
    let (first, second) = (format!("x {first}"), format!("x {second}"));
    page.table(&["reading", "min ns", "median ns", &first, &second], &rows);
}

/// The same through the C library, compiled in C.
fn from_c(suite: &Suite, page: &mut Page) -> Result<()> {
    page.heading(3, "from C, through libfastclock.so");
    let program = match suite.workloads.fastclock_loops() {
        Ok(program) => program,
        Err(error) => {
            page.text(&format!("Not measured: {error:#}"));
            page.verdict(&verdict(C_OVER_RDTSC, Target::AtMost(1.27), Unit::Ratio, None));
            return Ok(());
        }
    };
    let all = c_series(suite, program)?;
    costs_table(page, &all, RDTSC, "clock_gettime");
    let over = series::ratio_to(&all, RDTSC, "fastclock_now_fast");
    page.verdict(&verdict(C_OVER_RDTSC, Target::AtMost(1.27), Unit::Ratio, over));
    let over = series::ratio_to(&all, "clock_gettime", "fastclock_now");
    let what = "fastclock_now over clock_gettime, in C";
    page.verdict(&verdict(what, Target::AtMost(0.83), Unit::Ratio, over));
    Ok(())
}

const C_OVER_RDTSC: &str = "fastclock_now_fast over rdtsc, in C";

/// Runs the program and reads its lines `round NAME NS`.
fn c_series(suite: &Suite, program: PathBuf) -> Result<Vec<Series>> {
    let plan = plan(suite);
    let command =
        vec![program.into(), plan.rounds.to_string().into(), plan.chunks.to_string().into()];
    let finished = process::run(&command, LAUNCH_LIMIT)?;
    let mut all: Vec<(String, Vec<Option<f64>>)> = Vec::new();
    for line in finished.stdout.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ["round", name, ns] = words.as_slice() else { continue };
        let ns: f64 = ns.parse().context("the C loops print no number")?;
        match all.iter_mut().find(|(known, _)| known == name) {
            Some((_, values)) => values.push(Some(ns)),
            None => all.push(((*name).to_owned(), vec![Some(ns)])),
        }
    }
    Ok(all.into_iter().map(|(name, values)| Series::ungated(name, values)).collect())
}
