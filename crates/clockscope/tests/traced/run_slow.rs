//! `clockscope run --clock slow`: reads take as long as `--read-cost` says, with the kernel's answers. Other calls take
//! no longer.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Output};

use crate::support::builds::{self, Link};
use crate::support::clocksource::DELAYED;
use crate::support::printed::Printed;
use crate::support::running::{clockscope, code_as_shell, run, run_with_stats, text};

/// Cost of a read in these tests, as an option and in nanoseconds. Reads without a delay take about a thousandth of it.
const COST: &str = "100us";
const COST_NS: &str = "100000";

const OTHERS: [&str; 6] = [
    "CLOCK_REALTIME_COARSE",
    "CLOCK_MONOTONIC_COARSE",
    "CLOCK_PROCESS_CPUTIME_ID",
    "CLOCK_THREAD_CPUTIME_ID",
    "time",
    "getres",
];

fn tracee() -> Option<PathBuf> {
    builds::c("slow_reads", Link::Dynamic)
}

fn slow(options: &[&str], command: &[OsString]) -> Output {
    run(&[&["--clock", "slow", "--read-cost", COST], options].concat(), command)
}

fn printed(output: &Output) -> Printed {
    Printed::parse(&text(output))
}

#[track_caller]
fn assert_delayed(output: &Output) {
    assert_eq!(code_as_shell(output.status), 0, "{output:?}");
    let printed = printed(output);
    for name in DELAYED {
        assert!(printed.has_result(&format!("{name} long enough 1")), "{name}: {output:?}");
    }
    for name in OTHERS {
        assert!(printed.has_result(&format!("{name} long enough 0")), "{name}: {output:?}");
    }
}

#[test]
fn every_read_of_the_clocksource_takes_as_long_as_was_asked_and_no_other_call() {
    let Some(program) = tracee() else { return };
    let output = slow(&[], &words![program, "500", COST_NS, "zone"]);
    assert_delayed(&output);
    assert!(printed(&output).has_result("zone long enough 0"), "{output:?}");
}

#[test]
fn counts_are_exact_and_the_verdict_says_what_was_added() {
    let Some(program) = tracee() else { return };
    let slow = ["--clock", "slow", "--read-cost", COST];
    let (output, report) = run_with_stats(&slow, &words![program, "503", COST_NS]);
    assert_delayed(&output);
    assert_eq!(report.vdso_rows(), printed(&output).vdso);
    let verdict = report.field("verdict");
    assert_eq!(verdict["clock"], "slow");
    assert_eq!(verdict["reads"], DELAYED.len() * 503);
    let time_ns = verdict["time_ns"].as_u64().expect("all were timed often enough");
    let by_kernel_ns = verdict["by_kernel_ns"].as_u64().expect("is a number");
    assert!(time_ns > by_kernel_ns, "{verdict}");
}

#[test]
fn what_a_program_forks_and_executes_reads_slowly_too_if_it_is_followed() {
    let Some(program) = tracee() else { return };
    let arguments = words![program, "100", COST_NS];
    let shell = words!["sh", "-c", "\"$@\"; exit $?", "sh", arguments];
    assert_delayed(&slow(&[], &shell));
    assert_delayed(&slow(&["--no-follow"], &arguments));
    let left = slow(&["--no-follow"], &shell);
    assert!(printed(&left).has_result("CLOCK_MONOTONIC long enough 0"), "{left:?}");
}

#[test]
fn where_the_counter_may_not_be_read_it_says_so_in_one_line() {
    let options = ["-shared", "-fPIC"];
    let Some(library) = builds::c_with("denies_counter", Link::Dynamic, &options) else { return };
    let mut command = Command::new(clockscope());
    command.args(["run", "--clock", "slow", "--", "true"]).env("LD_PRELOAD", library);
    let output = command.output().expect("run clockscope");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(code_as_shell(output.status), 125, "{output:?}");
    assert!(said.starts_with("clockscope: --clock slow: this process may not read"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}
