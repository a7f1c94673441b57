//! `clockscope run --clock tsc` and `tsc-fast`: answers are right within the bound and in order, and come from the
//! kernel where the page has none.

use std::ffi::OsString;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::support::builds::{self, Link};
use crate::support::clocksource::counter_is_a_clock;
use crate::support::moments::{Outcome, RunTime, by_workers, random};
use crate::support::placed::{as_nobody, for_everybody};
use crate::support::printed::Printed;
use crate::support::running::{
    Report, clockscope, code_as_shell, rows, run, run_with_stats, text, untraced,
};
use crate::support::{root_or_skip, works_or_skip};

/// `None` (a skip) if the TSC is not usable here; then only the refusal is checked.
fn tracee() -> Option<std::path::PathBuf> {
    builds::c("page_clock", Link::Dynamic).filter(|_| counter_is_a_clock())
}

/// The program, and the clocks that it may have here: `slow` needs no usable TSC.
fn with_slow(by_counter: &[&'static str]) -> Option<(std::path::PathBuf, Vec<&'static str>)> {
    let program = builds::c("page_clock", Link::Dynamic)?;
    let by_counter = by_counter.iter().filter(|_| counter_is_a_clock());
    Some((program, by_counter.copied().chain(["slow"]).collect()))
}

/// Runs a program with `--stats`; gives its output and the report.
fn with_stats(clock: &str, command: &[OsString]) -> (Output, Report) {
    run_with_stats(&["--clock", clock], command)
}

/// Runs a program whose argument is the number of milliseconds to wait for the page to begin. A busy machine may need
/// longer, so up to four runs with longer waits are made until the report `is_so`.
#[track_caller]
fn in_time(
    clock: &str,
    command: impl Fn(&str) -> Vec<OsString>,
    is_so: impl Fn(&Report) -> bool,
) -> (Output, Report) {
    let mut runs = ["500", "2000", "8000", "30000"].map(|millis| (millis, None));
    for (millis, run) in &mut runs {
        let (output, report) = with_stats(clock, &command(millis));
        if is_so(&report) {
            return (output, report);
        }
        *run = Some(report);
    }
    panic!("the page did not begin in time: {runs:?}");
}

fn answered(report: &Report) -> u64 {
    report.field("clock_page")["answered"].as_u64().expect("is a number")
}

/// Number of reads that the kernel answered for the reason with this number.
fn by_kernel(report: &Report, number: u64) -> u64 {
    let row = rows(&report.field("clock_page")["by_kernel"]).find(|row| row["number"] == number);
    row.map_or(0, |row| row["reads"].as_u64().expect("is a number"))
}

#[test]
fn four_threads_never_see_time_run_backwards() {
    let Some((program, clocks)) = with_slow(&["tsc"]) else { return };
    for clock in clocks {
        let output = run(&["--clock", clock], &words![program, "order", "4", "1500"]);
        let printed = Printed::parse(&text(&output));
        for clock in ["CLOCK_MONOTONIC", "CLOCK_BOOTTIME", "CLOCK_MONOTONIC_COARSE"] {
            assert!(printed.has_result(&format!("{clock} backwards 0")), "{output:?}");
        }
        assert_eq!(output.status.code(), Some(0));
    }
}

#[test]
fn every_clock_lies_between_two_system_calls_within_the_bound() {
    let Some(program) = tracee() else { return };
    for clock in ["tsc", "tsc-fast"] {
        // The bound is below a microsecond. A step or a slew shows in the page one renewal late.
        let output = run(&["--clock", clock], &words![program, "bound", "700", "20000"]);
        let printed = Printed::parse(&text(&output));
        for clock in ["CLOCK_REALTIME", "CLOCK_MONOTONIC", "CLOCK_BOOTTIME", "CLOCK_TAI"] {
            assert!(printed.has_result(&format!("{clock} outside 0")), "{output:?}");
        }
    }
}

#[test]
fn every_read_is_answered_by_the_page_or_by_the_kernel() {
    let Some(program) = tracee() else { return };
    for clock in ["tsc", "tsc-fast"] {
        let command = |millis: &str| words![program, "count", "10007", millis];
        let (output, report) = in_time(clock, command, |report| answered(report) > 0);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let page = report.field("clock_page");
        assert_eq!(page["reads"], 5 * 10007, "{page}");
        assert_eq!(page["ordered"], clock == "tsc");
        let reads = |row: &Value| row["reads"].as_u64().expect("is a number");
        let kernel: u64 = rows(&page["by_kernel"]).map(reads).sum();
        assert_eq!(page["answered"].as_u64(), Some(5 * 10007 - kernel), "{page}");
        assert!(page["lines"].as_u64() > Some(0), "{page}");
        assert!(page["worst_bound_ns"].as_u64() > Some(0), "{page}");
    }
}

#[test]
fn a_short_program_is_answered_by_the_kernel_because_the_counter_is_not_measured_yet() {
    let Some(program) = tracee() else { return };
    // A program that had to wait for a CPU may have run too long, so another run is made.
    let is_short = |_: &u32| {
        let (_, report) = with_stats("tsc", &words![program, "count", "11", "0"]);
        let page = report.field("clock_page");
        assert_eq!(page["reads"], 55);
        assert_eq!(answered(&report) + by_kernel(&report, 1), 55, "{page}");
        answered(&report) == 0
    };
    assert!((0..50).find(is_short).is_some(), "each was answered by the page");
}

#[test]
fn a_program_that_forbids_itself_the_counter_sees_what_it_would_see_without_us() {
    let Some((program, clocks)) = with_slow(&["tsc", "tsc-fast"]) else { return };
    for mode in ["forbid", "strict"] {
        let command = words![program, mode];
        let alone = untraced(&command);
        for clock in &clocks {
            let output = run(&["--clock", clock], &command);
            assert_eq!(text(&output), text(&alone), "{mode} {clock}: {output:?}");
            assert_eq!(code_as_shell(output.status), code_as_shell(alone.status), "{mode}");
            let (counted, _) = with_stats(clock, &command);
            assert_eq!(text(&counted), text(&alone), "{mode} {clock}: {counted:?}");
        }
    }
    if clocks == ["slow"] {
        return;
    }
    let command = |millis: &str| words![program, "forbid", millis];
    in_time("tsc", command, |report| by_kernel(report, 16) > 0);
}

#[test]
fn children_and_what_they_execute_have_the_clock_and_never_less_than_their_parent() {
    let Some(program) = tracee() else { return };
    let script = "\"$0\" fork 3 && exec \"$0\" count 1009 \"$1\"";
    let command = |millis: &str| words!["sh", "-c", script, program, millis];
    let (output, _) = in_time("tsc", command, |report| answered(report) >= 8 * 1009 / 2);
    assert!(text(&output).starts_with("result forked\n"), "{output:?}");
}

#[test]
fn a_process_in_a_time_namespace_has_the_kernels_clock_of_that_namespace() {
    let Some(()) = root_or_skip() else { return };
    let Some(program) = tracee() else { return };
    for offsets in [["100000", "100000"], ["0", "5"], ["7", "0"]] {
        let [monotonic, boottime] = offsets;
        let unshare = ["unshare", "-T", "--monotonic", monotonic, "--boottime", boottime];
        let can = works_or_skip(&words![unshare, "true"], "no time namespaces here");
        let Some(()) = can else { return };
        let inner = words![unshare, "--", program, "bound", "500", "0"];
        let (output, report) = with_stats("tsc", &inner);
        let printed = Printed::parse(&text(&output));
        for clock in ["CLOCK_REALTIME", "CLOCK_MONOTONIC", "CLOCK_BOOTTIME", "CLOCK_TAI"] {
            assert!(printed.has_result(&format!("{clock} outside 0")), "{offsets:?} {output:?}");
        }
        assert!(by_kernel(&report, 5) > 0, "{offsets:?}: {report:?}");
        assert_eq!(answered(&report), 0, "{offsets:?}: {report:?}");
    }
}

/// Another user may read the page. Only clockscope may write it.
#[test]
fn a_program_of_another_user_has_the_clock() {
    let Some(()) = root_or_skip() else { return };
    let Some(program) = tracee() else { return };
    let directory = for_everybody(&[(&program, "page_clock", 0o755)]);
    let copy = directory.path().join("page_clock");
    let command = |millis: &str| words![as_nobody(), copy, "count", "1009", millis];
    let (output, _) = in_time("tsc", command, |report| answered(report) > 0);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn languages_find_the_functions() {
    let directory = crate::support::sources();
    let source = |name: &str| directory.join(name).into_os_string();
    if !counter_is_a_clock() {
        return;
    }
    let mut commands = Vec::new();
    for (place, words) in [
        ("/usr/bin/python3", words![source("reads.py"), "211"]),
        ("/usr/bin/perl", words![source("reads.pl"), "211"]),
        ("/usr/bin/node", words!["--jitless", source("reads.js"), "211"]),
    ] {
        if let Some(program) = crate::support::installed_or_skip(&[place]) {
            commands.push(words![program, words]);
        }
    }
    for program in [builds::go_program("reads"), builds::rust_with("reads", &[])] {
        commands.extend(program.map(|program| words![program, "211"]));
    }
    let java = ["java", "-Xint", "-XX:+UseSerialGC", "-cp"];
    let classes = builds::java_class("Reads");
    commands.extend(classes.map(|classes| words![java, classes, "Reads", "211"]));
    for command in commands {
        let (output, alone) = (run(&["--clock", "tsc"], &command), untraced(&command));
        assert_eq!(text(&output), text(&alone), "{command:?}: {output:?}");
        assert_eq!(code_as_shell(output.status), code_as_shell(alone.status), "{command:?}");
    }
}

/// Kills clockscope after so many microseconds, and tells how the program ended.
fn kill_after(killer: &Path, program: &Path, micros: u64) -> Outcome {
    let starter = words![killer, micros.to_string(), clockscope()];
    let run = ["run", "--clock", "tsc", "--"];
    let output = untraced(&words![starter, run, program, "wait-order", "2", "500"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!stderr.contains("left signal"), "killed after {micros} us: {output:?}");
    let in_order = text(&output).lines().all(|line| line.ends_with(" backwards 0"));
    assert!(in_order, "killed after {micros} us: {output:?}");
    if stderr.contains("left status 7") {
        Outcome::Survived
    } else if stderr.contains("tool status 7") {
        Outcome::TooLate
    } else {
        Outcome::BeforeStart
    }
}

#[test]
fn time_goes_on_when_clockscope_is_killed_at_any_moment() {
    const KILLS: u64 = 60;
    let Some(program) = tracee() else { return };
    let Some(killer) = builds::c("killer", Link::Dynamic) else { return };
    // The page begins to answer after about 200 ms; the program ends after 500 ms.
    let time = RunTime::about(600_000);
    let outcomes = by_workers(3, KILLS, |kill| {
        let outcome = kill_after(&killer, &program, random(kill) % time.micros());
        time.learn(outcome);
        outcome
    });
    let survived = outcomes.iter().filter(|outcome| **outcome == Outcome::Survived).count();
    assert!(survived >= 15, "too few kills hit a running program: {survived}");
}
