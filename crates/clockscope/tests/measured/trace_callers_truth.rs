//! The callers that are reported are the ones that made the calls: every program here prints how often each of its
//! call paths led to a call.
//!
//! A share that is drawn from n samples has a standard error of at most sqrt(0.25 / n), and a little more because
//! samples stand for different numbers of calls: 0.4 points for 20,000 samples, 0.8 for 5,000. So chance alone exceeds
//! the allowance once in a million times. Sampling may take a fiftieth of processor time, which is about 800 samples a
//! second: `make test-callers` (`THOROUGH=1`) asks for more of them, and allows less. Programs run until there are
//! enough samples, however long that takes on the machine. The figures found are printed.
#![allow(clippy::print_stdout, reason = "the figures, for who runs it with --nocapture")]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use crate::support::builds::{self, Link};
use crate::support::printed::{Key, Printed};
use crate::support::running::{Report, Tracing, rows, trace};
use crate::support::servers;
use crate::support::true_callers::{
    Way, called_by, frames_of, judge, key_of, percent, plain_name, share_of, ways,
};
use clockscope_report::callers::interval::unseen;
use clockscope_report::callers::sites::{Site, sites};
use clockscope_stats::proportion::wilson;
use serde_json::Value;

/// Numbers of samples wanted, and the allowed error of a share.
pub(crate) struct Demand {
    /// Samples that are enough to compare shares.
    pub(crate) for_shares: u64,
    /// How far a share may be off, in points.
    pub(crate) allowance: f64,
    /// Samples that are enough to check that 99 % have the true caller.
    enough: u64,
}

/// The demand of `make test`, or of `make test-callers` if `THOROUGH` is set.
pub(crate) fn demand() -> Demand {
    if std::env::var_os("THOROUGH").is_some() {
        Demand { for_shares: 20_000, allowance: 2.0, enough: 10_000 }
    } else {
        Demand { for_shares: 5_000, allowance: 4.0, enough: 3_000 }
    }
}

/// Samples wanted of each clock that is read often.
const ENOUGH_OF_A_CLOCK: u64 = 200;
#[test]
fn names_of_all_languages_are_made_plain() {
    for (name, plain) in [
        ("site_direct", "site_direct"),
        ("site_direct.constprop.0", "site_direct"),
        ("shop::Counter<long>::site_template(int)", "site_template"),
        ("shop::Guard::~Guard()", "~Guard"),
        ("void shop::site_inlined<100>()", "site_inlined"),
        ("callers::descend", "descend"),
        ("callers::site_generic::h0123456789abcdef", "site_generic"),
        ("<callers::Wall as callers::Site>::site_trait::h0123456789abcdef", "site_trait"),
        ("main.(*wall).siteMethod", "siteMethod"),
        ("main.main", "main"),
    ] {
        assert_eq!(plain_name(name), plain, "{name}");
    }
}

/// The call paths that a program prints, and the report of its sampled run.
struct Sampled {
    ways: Vec<Way>,
    is_go: bool,
    report: Report,
}

/// Runs a program with more and more rounds until there are enough samples; the samples of one run give the rounds of
/// the next. `missing` gives the factor by which there are too few samples, at most 1 if there are enough.
#[track_caller]
fn sample(
    command: &[OsString],
    first_rounds: u64,
    missing: impl Fn(&Sampled) -> f64,
) -> Option<Sampled> {
    let mut rounds = first_rounds;
    for _ in 0..6 {
        let command = words![command, rounds.to_string()];
        let traced = trace(&SAMPLING, &command).succeeded();
        let is_go = command[0].to_string_lossy().ends_with("-go");
        let sampled = Sampled { ways: ways(&traced.stdout), is_go, report: traced.report() };
        sampled.report.callers_or_skip()?;
        assert_calls_are_exact(&sampled);
        let missing = missing(&sampled);
        if missing <= 1.0 {
            return Some(sampled);
        }
        rounds = more(rounds, missing);
    }
    panic!("too few samples with {rounds} rounds");
}

/// A number of rounds that probably gives enough samples.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub(crate) fn more(rounds: u64, missing: f64) -> u64 {
    (rounds as f64 * (missing * 1.3).min(20.0)) as u64
}

/// Samples as often as the limit on processor time allows.
const SAMPLING: [&str; 5] = ["--via", "none", "--callers", "--freq", "20000"];

/// Samples of a call.
fn samples_of(report: &Report, key: &Key) -> u64 {
    rows(&report.field("callers")["called"])
        .filter(|row| key_of(row) == *key)
        .map(|row| row["samples"].as_u64().expect("a number of samples"))
        .sum()
}

/// Calls are counted exactly, whatever number of them is sampled, and the calls of a call's stacks add up to its count.
#[track_caller]
fn assert_calls_are_exact(sampled: &Sampled) {
    let mut sums: BTreeMap<&Key, u64> = BTreeMap::new();
    for way in &sampled.ways {
        *sums.entry(&way.key).or_default() += way.calls;
    }
    let callers = sampled.report.field("callers");
    for (key, calls) in sums {
        let counted = sampled.report.vdso_calls(key);
        // Packages of Go ask for the time before `main`, in some versions.
        let by_runtime = u64::from(sampled.is_go && key.1 == "CLOCK_REALTIME");
        let right = calls..=calls + by_runtime;
        assert!(right.contains(&counted), "{key:?}: {counted}, truly {calls}");
        let of_key = |stack: &&Value| key_of(called_by(callers, stack)) == *key;
        let stacks = rows(&callers["stacks"]).filter(of_key);
        let sum: f64 = stacks.filter_map(|stack| stack["calls"].as_f64()).sum();
        #[expect(clippy::cast_precision_loss)]
        let calls = counted as f64;
        assert!(
            samples_of(&sampled.report, key) == 0 || (sum - calls).abs() <= calls * 1e-6 + 0.5,
            "the stacks of {key:?} stand for {sum} of {calls} calls"
        );
    }
}

/// The factor by which there are too few samples, of all calls and of each clock; clocks that are read rarely do not
/// count.
#[expect(clippy::cast_precision_loss)]
fn missing(sampled: &Sampled) -> f64 {
    let all: u64 = sampled.ways.iter().map(|way| way.calls).sum();
    let often = sampled.ways.iter().filter(|way| way.calls * 20 >= all);
    let of = |samples: u64, enough: u64| enough as f64 / samples.max(1) as f64;
    let keys: BTreeSet<&Key> = sampled.ways.iter().map(|way| &way.key).collect();
    let total = keys.into_iter().map(|key| samples_of(&sampled.report, key)).sum();
    often
        .map(|way| of(samples_of(&sampled.report, &way.key), ENOUGH_OF_A_CLOCK))
        .fold(of(total, demand().enough), f64::max)
}

/// Compares the callers with the truth, if the program could be built. Where `is_whole`, nearly every stack must reach
/// its thread's first function.
#[track_caller]
fn true_callers(name: &str, program: Option<PathBuf>, rounds: u64, source: &str, is_whole: bool) {
    let Some(program) = program else { return };
    let Some(sampled) = sample(&words![program], rounds, missing) else { return };
    let inlines = name != "C without -g";
    let verdict = judge(&sampled.report, &sampled.ways, source, &program, inlines);
    verdict.print(name);
    verdict.assert_true_callers();
    let whole = if is_whole { share_of(verdict.samples, 0.95) } else { 0 };
    assert!(verdict.complete >= whole, "whole stacks: {}", verdict.worst());
}

#[test]
fn c_without_frame_pointers() {
    for link in [Link::Dynamic, Link::Static, Link::StaticPie] {
        let program = builds::c_with("callers", link, &["-fomit-frame-pointer"]);
        true_callers(&format!("C, {link:?}"), program, 30_000, "callers.c", true);
    }
}

#[test]
fn c_without_debugging_information() {
    let program = builds::c_with("callers", Link::Dynamic, &["-fomit-frame-pointer", "-g0"]);
    true_callers("C without -g", program, 30_000, "callers.c", false);
}

#[test]
fn c_plus_plus_with_inlines_templates_and_exceptions() {
    true_callers("C++", builds::cpp_with("callers", &["-g"]), 70_000, "callers.cpp", false);
}

#[test]
fn rust_release() {
    true_callers("Rust", builds::rust_with("callers", &["-g"]), 40_000, "callers.rs", true);
}

#[test]
fn go() {
    true_callers("Go", builds::go_program("callers"), 40_000, "callers.go", false);
}

/// A program without unwind tables, symbols and frame pointers: clockscope cannot walk its frames, so a stack has at
/// most one frame of the program, without a function.
#[test]
fn nothing_is_invented_without_unwind_information() {
    let options = [
        "-g0",
        "-s",
        "-fno-asynchronous-unwind-tables",
        "-fno-unwind-tables",
        "-fomit-frame-pointer",
    ];
    let Some(program) = builds::c_with("callers", Link::Dynamic, &options) else { return };
    let Some(sampled) = sample(&words![program], 20_000, |_| 1.0) else { return };
    let callers = sampled.report.field("callers");
    let samples = callers["samples"].as_u64().expect("a number of samples");
    assert!(samples > 0, "no samples");
    let file = program.file_name().expect("has a name").to_string_lossy().into_owned();
    let is_ours = |row: &Value| row["module"].as_str().is_some_and(|name| name.ends_with(&file));
    let mut cut = 0;
    for stack in rows(&callers["stacks"]) {
        let ours: Vec<&Value> = frames_of(callers, stack).filter(|row| is_ours(row)).collect();
        assert!(ours.len() <= 1, "frames below code of which nothing is known: {stack}");
        assert!(ours.iter().all(|row| row["function"].is_null()), "invented: {ours:?}");
        if stack["complete"] == false {
            cut += stack["samples"].as_u64().expect("a number");
        }
    }
    let explained: u64 = rows(&callers["cut"]).filter_map(|row| row["samples"].as_u64()).sum();
    assert!(cut * 10 >= samples * 9, "{cut} of {samples} end early");
    assert!(explained >= cut, "each has a reason: {explained} of {cut}");
}

/// Keeps the CPUs busy with as many threads while `run` runs.
fn beside<T>(threads: usize, run: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let result = run();
        is_over.store(true, Relaxed);
        result
    })
}

/// At least nine in ten intervals of shares hold the truth in short runs and long ones, and they are not much wider than
/// those of as many samples that weigh the same.
#[test]
#[ignore = "traces a program a hundred times: part of make test-callers"]
fn intervals_of_shares_hold_the_truth() {
    let Some(program) = builds::c("shares", Link::Dynamic) else { return };
    for threads in [0, 4] {
        let (mut held, mut all, mut wider) = (0, 0, Vec::new());
        for run in 0..50 {
            let rounds: u64 = [3_000, 10_000, 30_000, 100_000, 300_000][run % 5];
            let command = words![program, rounds.to_string()];
            let traced = beside(threads, || trace(&["--via", "none", "--callers"], &command));
            let report = traced.report();
            let Some(callers) = report.callers_or_skip() else { return };
            let samples = callers["samples"].as_f64().expect("a number");
            let (model, ways) = (report.model(), ways(&traced.stdout));
            let made: u64 = ways.iter().map(|way| way.calls).sum();
            let sites = sites(&model);
            for way in &ways {
                let of_way = |site: &&Site| site.function.as_deref() == Some(way.names(true)[0]);
                let found = sites.iter().find(of_way).map(|site| site.reads_between);
                let unseen = || (0.0, unseen(model.callers.as_ref().expect("callers")));
                let (low, high) = found.unwrap_or_else(unseen);
                #[expect(clippy::cast_precision_loss)]
                let (calls, made) = (way.calls as f64, made as f64);
                let equal = wilson(calls / made, samples);
                wider.push((high - low) / ((equal.1 - equal.0) * made));
                all += 1;
                held += i32::from(low <= calls && calls <= high);
            }
        }
        wider.sort_by(f64::total_cmp);
        let median = wider[wider.len() / 2];
        println!(
            "beside {threads} busy threads: {held} of {all} intervals hold, {median:.2} times as wide as the least"
        );
        assert!(held * 10 >= all * 9, "{held} of {all} intervals hold");
        assert!(median <= 1.5, "intervals are {median} times as wide as they must be");
    }
}

/// The figure on freeDiameter: which of its functions read the clock, and on whose behalf.
#[test]
fn shares_of_a_server_of_threads_and_queues() {
    let options = ["-fomit-frame-pointer"];
    let Some(program) = builds::c_with("diameter", Link::Dynamic, &options) else { return };
    let realtime: Key = ("clock_gettime".into(), "CLOCK_REALTIME".into());
    let missing = |sampled: &Sampled| short_of_shares(samples_of(&sampled.report, &realtime));
    let Some(sampled) = sample(&words![program], 5_000_000, missing) else { return };
    let verdict = judge(&sampled.report, &sampled.ways, "diameter.c", &program, true);
    verdict.print("diameter");
    verdict.assert_true_callers();
    let of_realtime = |way: &Way| way.key == realtime;
    let mut worst = 0.0_f64;
    let calls: u64 = sampled.ways.iter().filter(|way| of_realtime(way)).map(|way| way.calls).sum();
    let mut functions: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    #[expect(clippy::cast_precision_loss)]
    let all = calls as f64;
    for (number, way) in sampled.ways.iter().enumerate().filter(|(_, way)| of_realtime(way)) {
        let seen = verdict.calls_of_way[number] * 100.0 / all;
        let truth = percent(way.calls, calls);
        assert!(
            (seen - truth).abs() <= demand().allowance,
            "{:?}: {seen:.2} %, truly {truth:.2} %",
            way.frames
        );
        worst = worst.max((seen - truth).abs());
        let function = functions.entry(way.names(false)[0]).or_default();
        *function = (function.0 + seen, function.1 + truth);
    }
    for (function, (seen, truth)) in functions {
        println!("diameter: {function} {seen:.2} %, truly {truth:.2} %");
        worst = worst.max((seen - truth).abs());
        assert!(worst <= demand().allowance, "{function}: {seen:.2} %, truly {truth:.2} %");
    }
    println!("diameter: off by {worst:.2} points at most");
}

/// The factor by which there are too few samples to compare shares.
#[expect(clippy::cast_precision_loss)]
fn short_of_shares(samples: u64) -> f64 {
    demand().for_shares as f64 / samples.max(1) as f64
}

/// PostgreSQL times each row of each node of an explained query at its start and its end.
#[test]
fn a_query_that_postgres_explains() {
    let Some(programs) = servers::postgres_programs() else { return };
    let mut rows_of_query = 8_000_000;
    for _ in 0..6 {
        let report = explained(&programs, rows_of_query);
        let Some(_) = report.callers_or_skip() else { return };
        let missing = short_of_shares(samples_of(&report, &monotonic()));
        if missing <= 1.0 {
            assert_halves(&report, rows_of_query);
            return;
        }
        rows_of_query = more(rows_of_query, missing);
    }
    panic!("too few samples with {rows_of_query} rows");
}

fn monotonic() -> Key {
    ("clock_gettime".into(), "CLOCK_MONOTONIC".into())
}

/// Runs EXPLAIN ANALYZE of a query over so many rows in a single-user server, and gives the report.
#[track_caller]
fn explained(programs: &Path, rows_of_query: u64) -> Report {
    let place = servers::postgres_cluster(programs);
    let query = format!(
        "explain (analyze, timing on) select count(*) from generate_series(1, {rows_of_query})\n"
    );
    let single =
        words![programs.join("postgres"), "--single", "-j", "-D", place.path().join("data")];
    let command = words![servers::as_postgres(), single, "-c", "jit=off", "postgres"];
    let tracing = Tracing::new(&SAMPLING, &command);
    let traced = tracing.finish_with_input(&format!("{query};\n\n")).succeeded();
    assert!(traced.stdout.contains(&format!("rows={rows_of_query}")), "{traced:?}");
    traced.report()
}

/// A row has as many reads at its start as at its end, one each.
#[track_caller]
fn assert_halves(report: &Report, rows_of_query: u64) {
    assert!(report.vdso_calls(&monotonic()) >= 2 * rows_of_query, "two reads a row: {report:#?}");
    let said = ["InstrStartNode", "InstrStopNode"]
        .map(|function| format!("path {function} clock_gettime CLOCK_MONOTONIC {rows_of_query}\n"));
    let ways = ways(&said.concat());
    let verdict = judge(report, &ways, "instrument.c", Path::new("postgres"), true);
    verdict.print("PostgreSQL");
    verdict.assert_true_callers();
    let all: f64 = verdict.calls_of_way.iter().sum();
    for calls in &verdict.calls_of_way {
        let share = calls * 100.0 / all;
        println!("PostgreSQL: {share:.2} % of one, truly 50 %");
        assert!((share - 50.0).abs() <= demand().allowance, "{share:.2} %: {}", verdict.worst());
    }
}

#[test]
fn counts_are_exact_while_callers_are_sampled() {
    let Some(program) = builds::c("threads", Link::Dynamic) else { return };
    let options = ["--via", "none", "--callers", "--freq", "100000"];
    let traced = trace(&options, &words![program, "churn", "5000"]).succeeded();
    let printed = Printed::parse(&traced.stdout);
    crate::support::compare::assert_counts(&printed, &traced.report());
}
