//! The caller's registers and stack after a vDSO call, by every route: `tests/tracees/caller_state.c` calls every
//! function from every alignment of a painted stack.

use std::path::{Path, PathBuf};
use std::process::Output;

use crate::support::builds::{self, Link};
use crate::support::printed::Printed;
use crate::support::running::{clockscope, text, untraced};

/// Most bytes of the caller's stack that a call may use (docs/run.md).
const MOST_STACK: u64 = 256;

/// Every way in which clockscope answers a call.
const ROUTES: [&[&str]; 11] = [
    &["trace", "--via", "none", "-o", "/dev/null"],
    &["trace", "--via", "none", "--callers", "-o", "/dev/null"],
    &["run", "--clock", "kernel"],
    &["run", "--clock", "syscall"],
    &["run", "--clock", "coarse"],
    &["run", "--clock", "coarse", "--stats", "-o", "/dev/null"],
    &["run", "--clock", "slow", "--read-cost", "2us"],
    &["run", "--clock", "slow", "--stats", "-o", "/dev/null"],
    &["run", "--clock", "tsc", "--force"],
    &["run", "--clock", "tsc", "--force", "--stats", "-o", "/dev/null"],
    &["run", "--clock", "tsc-fast", "--force"],
];

fn tracee() -> Option<PathBuf> {
    builds::c("caller_state", Link::Dynamic)
}

/// How long a program must run, in milliseconds, for its clock page to begin, if it has one.
fn millis(route: &[&str]) -> &'static str {
    if route.contains(&"--force") { "1500" } else { "50" }
}

fn by_route(route: &[&str], program: &Path, arguments: &[&str]) -> Output {
    let mut command = std::process::Command::new(clockscope());
    let output = command.args(route).arg("--").arg(program).args(arguments).output();
    output.expect("run clockscope")
}

/// The number behind a word at the beginning of an output line.
#[track_caller]
fn number(output: &Output, word: &str) -> u64 {
    let text = text(output);
    let line = text.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
    let number = line.and_then(|rest| rest.split(' ').next()?.parse().ok());
    number.unwrap_or_else(|| panic!("no {word} in {output:?}"))
}

#[track_caller]
fn assert_nothing_changed(route: &[&str], output: &Output) {
    let printed = Printed::parse(&text(output));
    assert!(printed.has_result("called 1"), "{route:?}: {output:?}");
    assert!(printed.has_result("changed 0"), "{route:?}: {output:?}");
    let deepest = number(output, "deepest");
    assert!(deepest <= MOST_STACK, "{route:?} used {deepest} bytes of stack: {output:?}");
}

#[test]
fn a_call_changes_nothing_and_uses_little_stack_by_every_route() {
    let Some(program) = tracee() else { return };
    assert_nothing_changed(&["untraced"], &untraced(&words![program, "sweep", "50"]));
    for route in ROUTES {
        let output = by_route(route, &program, &["sweep", millis(route)]);
        assert_nothing_changed(route, &output);
    }
}

#[test]
fn nor_does_it_when_the_writer_of_the_page_is_killed() {
    let Some(program) = tracee() else { return };
    for clock in ["tsc", "tsc-fast"] {
        let route = ["run", "--clock", clock, "--force"];
        let output = by_route(&route, &program, &["sweep", "1500", "orphan"]);
        assert_nothing_changed(&route, &output);
    }
}

#[test]
fn a_handler_on_a_small_alternate_stack_can_read_the_clock_by_every_route() {
    let Some(program) = tracee() else { return };
    let plain = number(&untraced(&words![program, "handler", "0"]), "smallest");
    for route in ROUTES {
        let output = by_route(route, &program, &["handler", millis(route)]);
        let smallest = number(&output, "smallest");
        assert!(smallest <= plain + MOST_STACK, "{route:?}: {smallest} bytes, not {plain}");
    }
}

#[test]
fn a_program_starts_with_the_registers_and_flags_that_the_kernel_gives_it() {
    let options = ["-nostdlib", "-fno-stack-protector", "-mno-sse"];
    let Some(program) = builds::c_with("start_state", Link::Static, &options) else { return };
    let expected = text(&untraced(&words![program]));
    assert!(expected.contains("result flags 202\nresult stack-alignment 0\n"), "{expected}");
    let more: [&[&str]; 6] = [
        &["trace", "--via", "ptrace", "-o", "/dev/null"],
        &["trace", "-o", "/dev/null"],
        &["run", "--clock", "kernel", "--no-follow"],
        &["run", "--clock", "coarse", "--no-follow"],
        &["run", "--clock", "syscall", "--no-follow"],
        &["run", "--clock", "slow", "--no-follow"],
    ];
    for route in ROUTES.into_iter().chain(more) {
        assert_eq!(text(&by_route(route, &program, &[])), expected, "{route:?}");
    }
}
