//! `clockscope run --clock` gives a program the wanted clock, and leaves other calls as they are.

use std::ffi::OsString;

use crate::support::builds::{self, Link};
use crate::support::clocksource::counter_is_a_clock;
use crate::support::printed::Printed;
use crate::support::running::{code_as_shell, rows, run, run_with_stats, text, untraced};

const CLOCKS: [&str; 4] = ["kernel", "syscall", "coarse", "slow"];
/// Exit status of a program that a seccomp filter has killed (by SIGSYS).
const KILLED_BY_FILTER: i32 = 128 + 31;

fn run_with(clock: &str, command: &[OsString]) -> std::process::Output {
    run(&["--clock", clock], command)
}

#[test]
fn kernel_syscall_and_slow_clocks_lie_between_two_system_calls() {
    let Some(program) = builds::c("sandwich", Link::Dynamic) else { return };
    for clock in ["kernel", "syscall", "slow"] {
        let output = run_with(clock, &words![program]);
        assert_eq!(output.stdout, untraced(&words![program]).stdout, "{clock}: {output:?}");
        assert!(Printed::parse(&text(&output)).has_result("CLOCK_REALTIME wrong 0"));
    }
}

#[test]
fn coarse_clocks_lie_between_two_coarse_system_calls() {
    let Some(program) = builds::c("sandwich", Link::Dynamic) else { return };
    let output = run_with("coarse", &words![program, "0", "coarse"]);
    let printed = Printed::parse(&text(&output));
    for clock in
        ["CLOCK_REALTIME", "CLOCK_MONOTONIC", "CLOCK_REALTIME_COARSE", "CLOCK_MONOTONIC_COARSE"]
    {
        assert!(printed.has_result(&format!("{clock} wrong 0")), "{printed:?}");
    }
}

/// The program installs a filter that kills it at the first clock read by system call. What a program executes and
/// forks gets the clock too, but with `--no-follow` it has the kernel's.
#[test]
fn only_the_syscall_clock_makes_system_calls_also_in_what_is_executed_if_it_is_followed() {
    let Some(program) = builds::c("confined", Link::Dynamic) else { return };
    let forks = words!["sh", "-c", "env \"$@\"; exit $?", "sh"];
    let executes = words![program, "nothing", "exec"];
    for (options, starter, code) in [
        (&["--clock", "kernel"][..], &[][..], 0),
        (&["--clock", "coarse"], &[], 0),
        (&["--clock", "syscall"], &[], KILLED_BY_FILTER),
        (&["--clock", "syscall"], &forks, KILLED_BY_FILTER),
        (&["--clock", "syscall", "--no-follow"], &executes, 0),
    ] {
        let output = run(options, &words![starter, program, "clock-calls-kill"]);
        assert_eq!(code_as_shell(output.status), code, "{options:?} {starter:?}: {output:?}");
    }
}

#[test]
fn no_follow_leaves_the_times_of_a_verdict() {
    let Some(program) = builds::c("steady", Link::Dynamic) else { return };
    let options = ["--clock", "kernel", "--no-follow"];
    let (output, report) = run_with_stats(&options, &words![program]);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    let timed: u64 = rows(report.field("vdso")).filter_map(|row| row["timed"].as_u64()).sum();
    assert!(timed > 0, "{report:#?}");
}

#[test]
fn output_and_exit_status_are_the_programs_with_every_clock() {
    let mut clocks = CLOCKS.to_vec();
    if counter_is_a_clock() {
        clocks.extend(["tsc", "tsc-fast"]);
    }
    for (name, link) in [
        ("reads", Link::Dynamic),
        ("reads", Link::Static),
        ("reads", Link::Bits32),
        ("own_parser", Link::Dynamic),
        ("steady", Link::Dynamic),
        ("shared_vm", Link::Dynamic),
        ("roundtrips", Link::Dynamic),
    ] {
        let Some(program) = builds::c(name, link) else { continue };
        // 1009 is the number of round trips; the other programs ignore it.
        let command = words![program, "1009"];
        let alone = untraced(&command);
        for clock in &clocks {
            let output = run_with(clock, &command);
            assert_eq!(output.stdout, alone.stdout, "{name} with {clock}: {output:?}");
            // It is said that a 32-bit program keeps the kernel's clock.
            let is_silent = output.stderr == alone.stderr || link == Link::Bits32;
            assert!(is_silent, "{name} with {clock}: {output:?}");
            assert_eq!(code_as_shell(output.status), code_as_shell(alone.status), "{name}");
        }
    }
}
