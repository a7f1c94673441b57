//! `clockscope trace --callers`: the rows of the calls are exact, stacks are sampled in every thread and process, and
//! the calls of the stacks add up.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::builds::{self, Link};
use crate::support::compare::assert_exact_and_nothing_else;
use crate::support::placed::{as_nobody, for_everybody};
use crate::support::printed::{Key, Printed};
use crate::support::root_or_skip;
use crate::support::running::{Report, Traced, clockscope, rows, trace, untraced};
use crate::support::true_callers::{self, called_by, frames_of, key_of};
use serde_json::Value;

/// Rounds of the program with calls at known places. Gives some samples of each call.
const ROUNDS: &str = "20000";
/// Enough rounds for hundreds of samples, so that shares can be compared.
const MANY_ROUNDS: &str = "400000";

/// Runs `call_sites` with its callers sampled, if it can be built. The counts must be exact.
#[track_caller]
fn sampled(mode: &str, link: Link, options: &[&str]) -> Option<(Traced, Report)> {
    sampled_in(mode, ROUNDS, link, options)
}

/// As [`sampled`], with this number of rounds.
#[track_caller]
fn sampled_in(mode: &str, rounds: &str, link: Link, options: &[&str]) -> Option<(Traced, Report)> {
    let program = builds::c_with("call_sites", link, &["-fomit-frame-pointer"])?;
    let options = [&["--via", "none", "--callers"], options].concat();
    let traced = trace(&options, &words![program, mode, rounds]);
    assert_exact_and_nothing_else(&traced);
    assert_eq!(traced.code(), 0, "{traced:?}");
    let report = traced.report();
    // If the kernel allows no sampling, the report has a reason instead, and the test is skipped.
    assert!(report.field("callers").is_object(), "{traced:?}");
    report.callers_or_skip()?;
    Some((traced, report))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("-")
}

/// The rows of the calls: count and samples by function and clock.
fn called(callers: &Value) -> BTreeMap<Key, (u64, u64)> {
    rows(&callers["called"])
        .map(|row| {
            let count = |name: &str| row[name].as_u64().expect("a count");
            (key_of(row), (count("calls"), count("samples")))
        })
        .collect()
}

/// Checks the sums that hold in any report.
#[track_caller]
fn assert_adds_up(traced: &Traced, callers: &Value) {
    let printed = Printed::parse(&traced.stdout);
    let called = called(callers);
    for (key, calls) in &printed.vdso {
        let (exact, samples) = called.get(key).copied().unwrap_or_default();
        assert_eq!(exact, *calls, "{key:?}");
        assert!(samples > 0, "{key:?} was not sampled: {traced:?}");
    }
    for (index, row) in rows(&callers["called"]).enumerate() {
        let stacks = || rows(&callers["stacks"]).filter(|stack| stack["called"] == index);
        let calls: f64 = stacks().map(|stack| number(&stack["calls"])).sum();
        let samples: f64 = stacks().map(|stack| number(&stack["samples"])).sum();
        assert!((calls / number(&row["calls"]) - 1.0).abs() < 1e-6, "{row}: {calls}");
        assert!((samples - number(&row["samples"])).abs() < 0.5, "{row}: {samples}");
    }
}

/// The functions in a stack, the caller first.
fn functions<'a>(callers: &'a Value, stack: &'a Value) -> Vec<&'a str> {
    frames_of(callers, stack).map(|frame| text(&frame["function"])).collect()
}

/// Calls and samples of the stacks, by the function of the program that made the call and the function called.
fn by_site(callers: &Value) -> BTreeMap<(String, String), (f64, f64)> {
    let mut sums = BTreeMap::new();
    for stack in rows(&callers["stacks"]) {
        let called = called_by(callers, stack);
        let site = functions(callers, stack).into_iter().find(|name| name.starts_with("reads_"));
        let key = (site.unwrap_or("nobody").to_owned(), text(&called["name"]).to_owned());
        let (calls, samples): &mut (f64, f64) = sums.entry(key).or_default();
        *calls += number(&stack["calls"]);
        *samples += number(&stack["samples"]);
    }
    sums
}

/// Checks that every sampled stack leads to a function of the program that made such calls.
#[track_caller]
fn assert_sites(traced: &Traced, callers: &Value) {
    let made: BTreeSet<(String, String)> = traced
        .stdout
        .lines()
        .filter_map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            (words[0] == "site").then(|| (words[1].to_owned(), words[2].to_owned()))
        })
        .collect();
    for ((site, called), (calls, samples)) in by_site(callers) {
        assert!(
            samples == 0.0 || made.contains(&(site.clone(), called.clone())),
            "{site} made no {called}, but {calls} calls: {callers:#}"
        );
    }
}

#[test]
fn call_sites_of_a_program_without_frame_pointers() {
    for link in [Link::Dynamic, Link::Static] {
        let Some((traced, report)) = sampled_in("flat", MANY_ROUNDS, link, &[]) else { continue };
        let callers = report.field("callers");
        assert_adds_up(&traced, callers);
        assert_sites(&traced, callers);
        let sites = by_site(callers);
        let calls = |site: &str| {
            sites.get(&(site.to_owned(), "clock_gettime".to_owned())).map_or(0.0, |site| site.0)
        };
        assert!(calls("reads_often") > calls("reads_seldom"), "{sites:?}");
        for row in rows(&callers["called"]) {
            let (samples, effective) = (number(&row["samples"]), number(&row["samples_effective"]));
            assert!(effective >= 1.0 && effective <= samples * (1.0 + 1e-9), "{row}");
        }
        let stacks = rows(&callers["stacks"]);
        let complete = stacks.filter(|stack| functions(callers, stack).contains(&"main")).count();
        assert!(complete > 0 && callers["lost"].is_u64(), "{callers:#}");
    }
}

/// A trap at the sample probe that the kernel takes for the program's own is none of the program.
#[test]
fn a_trap_at_the_sample_probe_does_not_end_the_program() {
    let Some(program) = builds::c("sample_trap", Link::Dynamic) else { return };
    let traced = trace(&["--via", "none", "--callers"], &words![program]);
    let Some(_) = traced.report().callers_or_skip() else { return };
    if traced.code() == 77 {
        skips::skip(
            "this kernel has no breakpoints that give a signal, or the program does not know this CPU's probe",
        );
        return;
    }
    assert_eq!((traced.code(), &*traced.stdout), (0, "result hits 1\n"), "{traced:?}");
}

/// musl has no unwind tables for its own functions. The program's calls come through `qsort`, from signal handlers and
/// in threads.
#[test]
fn stacks_through_musl_reach_the_first_function_of_the_program() {
    for link in [Link::MuslStatic, Link::MuslDynamic] {
        let Some(program) = builds::c("callers", link) else { return };
        let options = ["--via", "none", "--callers", "--freq", "10000"];
        let traced = trace(&options, &words![program, "20000"]);
        let report = traced.report();
        let Some(callers) = report.callers_or_skip() else { return };
        let mut sites = BTreeSet::new();
        for stack in rows(&callers["stacks"]) {
            let found = functions(callers, stack);
            let reaches = |name: &str| found.contains(&name);
            assert!(reaches("main") || reaches("pool_thread"), "{link:?}: {found:?}");
            assert_eq!(stack["complete"], true, "{link:?}: {found:?}");
            sites.extend(
                found.iter().filter(|name| name.starts_with("site_")).map(|n| n.to_string()),
            );
            if reaches("site_compare") {
                assert!(reaches("run_sort"), "{link:?}: {found:?}");
            }
            if reaches("site_handler") {
                assert!(reaches("run_raise"), "{link:?}: {found:?}");
            }
        }
        for site in ["site_direct", "site_deep", "site_compare", "site_gettimeofday", "site_pool"] {
            assert!(sites.contains(site), "{link:?}: {sites:?}");
        }
    }
}

/// The process ids of the stacks with samples.
fn processes(callers: &Value) -> BTreeSet<u64> {
    let seen = rows(&callers["stacks"]).filter(|stack| number(&stack["samples"]) > 0.0);
    seen.filter_map(|stack| stack["pid"].as_u64()).collect()
}

#[test]
fn threads_children_and_what_they_execute_are_sampled() {
    let by_cpu = ["--count-by", "cpu"];
    for (mode, options, number) in
        [("threads", &[][..], 1), ("threads", &by_cpu, 1), ("fork", &[], 4), ("exec", &[], 4)]
    {
        let Some((traced, report)) = sampled(mode, Link::Dynamic, options) else { return };
        let callers = report.field("callers");
        assert_adds_up(&traced, callers);
        assert_sites(&traced, callers);
        assert_eq!(processes(callers).len(), number, "{mode} {options:?}: {traced:?}");
    }
}

#[test]
fn a_call_and_the_next_one_are_paired_within_a_thread() {
    let Some((_, report)) = sampled("flat", Link::Dynamic, &[]) else { return };
    let callers = report.field("callers");
    let site = |index: &Value| {
        let stack = &callers["stacks"][true_callers::index(index)];
        functions(callers, stack).into_iter().find(|name| name.starts_with("reads_"))
    };
    let mut pairs = 0;
    for pair in rows(&callers["pairs"]) {
        let (first, second) = (site(&pair["first"]), site(&pair["second"]));
        let clock_follows = matches!(
            (first, second),
            (Some("reads_often" | "reads_seldom"), Some("reads_often" | "reads_seldom"))
        );
        assert!(first == second || clock_follows, "{pair}: {first:?}, then {second:?}");
        assert!((0.0..=1.0).contains(&number(&pair["share"])), "{pair}");
        pairs += 1;
    }
    assert!(pairs > 0, "{callers:#}");
}

#[test]
fn without_the_option_nothing_is_said_of_callers() {
    let Some(program) = builds::c("call_sites", Link::Dynamic) else { return };
    let traced = trace(&["--via", "none"], &words![program, "flat", "10"]);
    assert_exact_and_nothing_else(&traced);
    assert!(traced.report().field("callers").is_null());
}

#[test]
fn system_calls_have_callers_for_root() {
    let Some(program) = builds::c("tree", Link::Dynamic) else { return };
    let traced = trace(&["--via", "ptrace", "--callers=syscalls"], &words![program, "fork"]);
    let report = traced.report();
    let callers = report.field("callers");
    let (calls, _) = called(callers)[&("getppid".to_owned(), "-".to_owned())];
    assert_eq!(calls, report.syscall("getppid", "calls"));
    assert!(rows(&callers["called"]).all(|row| row["via"] == "syscall"));
    if rows(&callers["declines"]).next().is_some() || root_or_skip().is_none() {
        assert!(rows(&callers["declines"]).all(|row| row["reason"] != ""));
        return;
    }
    assert!(callers["samples"].as_u64().is_some_and(|samples| samples > 0), "{callers:#}");
    let ours = ["shmat", "mremap"];
    let mut sampled = rows(&callers["called"]).filter(|row| row["samples"] != 0);
    assert!(sampled.all(|row| !ours.contains(&text(&row["name"]))), "{callers:#}");
}

#[test]
fn a_user_without_privileges_samples_own_programs_or_is_told_why_not() {
    let Some(()) = root_or_skip() else { return };
    let Some(program) = builds::c("call_sites", Link::Dynamic) else { return };
    // Another user cannot enter the folder in which the tests are built.
    let files = [(&*clockscope(), "clockscope", 0o755), (&program, "call_sites", 0o755)];
    let directory = for_everybody(&files);
    let [own, tracee] = ["clockscope", "call_sites"].map(|name| directory.path().join(name));
    let trace = ["trace", "--via", "none", "--callers", "--format", "json", "--"];
    let output = untraced(&words![as_nobody(), own, trace, tracee, "flat", ROUNDS]);
    let report: Value = serde_json::from_slice(&output.stderr).expect("a report");
    let callers = &report["callers"];
    let samples = callers["samples"].as_u64().expect("a number");
    let declines = rows(&callers["declines"]).count();
    assert!((samples > 0) == (declines == 0) && declines <= 1, "{callers:#}");
    let printed = Printed::parse(&String::from_utf8_lossy(&output.stdout));
    let exact: BTreeMap<Key, u64> =
        called(callers).into_iter().map(|(key, (calls, _))| (key, calls)).collect();
    assert_eq!(exact, printed.vdso);
}
