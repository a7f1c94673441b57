//! `clockscope run --clock` gives a program the wanted clock, and leaves other calls as they are.

use std::ffi::OsString;

use crate::support::builds::{self, Link};
use crate::support::printed::Printed;
use crate::support::running::{code_as_shell, rows, run, run_with_stats, untraced};

const CLOCKS: [&str; 4] = ["kernel", "syscall", "coarse", "slow"];
/// Exit status of a program that a seccomp filter has killed (by SIGSYS).
const KILLED_BY_FILTER: i32 = 128 + 31;

fn run_with(clock: &str, command: &[OsString]) -> std::process::Output {
    run(&["--clock", clock], command)
}

#[test]
fn kernel_and_syscall_clocks_lie_between_two_system_calls() {
    let Some(program) = builds::c("sandwich", Link::Dynamic) else { return };
    for clock in ["kernel", "syscall"] {
        let output = run_with(clock, &words![program]);
        assert_eq!(output.stdout, untraced(&words![program]).stdout, "{clock}: {output:?}");
        assert!(
            Printed::parse(&String::from_utf8_lossy(&output.stdout))
                .has_result("CLOCK_REALTIME wrong 0")
        );
    }
}

#[test]
fn coarse_clocks_lie_between_two_coarse_system_calls() {
    let Some(program) = builds::c("sandwich", Link::Dynamic) else { return };
    let output = run_with("coarse", &words![program, "0", "coarse"]);
    let printed = Printed::parse(&String::from_utf8_lossy(&output.stdout));
    for clock in
        ["CLOCK_REALTIME", "CLOCK_MONOTONIC", "CLOCK_REALTIME_COARSE", "CLOCK_MONOTONIC_COARSE"]
    {
        assert!(printed.has_result(&format!("{clock} wrong 0")), "{printed:?}");
    }
}

/// The program installs a filter that kills it at the first clock read by system call.
#[test]
fn only_the_syscall_clock_makes_system_calls() {
    let Some(program) = builds::c("confined", Link::Dynamic) else { return };
    for (clock, code) in [("kernel", 0), ("coarse", 0), ("syscall", KILLED_BY_FILTER)] {
        let output = run_with(clock, &words![program, "clock-calls-kill"]);
        assert_eq!(code_as_shell(output.status), code, "{clock}: {output:?}");
    }
}

#[test]
fn what_a_program_executes_and_forks_gets_the_clock_too() {
    let Some(program) = builds::c("confined", Link::Dynamic) else { return };
    let inner = words![program, "clock-calls-kill"];
    let outer = words!["sh", "-c", "env \"$@\"; exit $?", "sh"];
    let output = run_with("syscall", &[&outer[..], &inner].concat());
    assert_eq!(code_as_shell(output.status), KILLED_BY_FILTER, "{output:?}");
}

#[test]
fn no_follow_leaves_what_is_executed_later_with_the_kernels_clock() {
    let Some(program) = builds::c("confined", Link::Dynamic) else { return };
    let command = words![program, "nothing", "exec", program, "clock-calls-kill"];
    let output = run(&["--clock", "syscall", "--no-follow"], &command);
    assert_eq!(code_as_shell(output.status), 0, "{output:?}");
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
fn output_and_exit_status_are_the_programs() {
    let Some(program) = builds::c("steady", Link::Dynamic) else { return };
    let expected = untraced(&words![program]);
    for clock in CLOCKS {
        let output = run_with(clock, &words![program]);
        assert_eq!(output.stdout, expected.stdout, "{clock}: {output:?}");
        assert_eq!(output.status.code(), Some(7), "{clock}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{clock}");
    }
}

#[test]
fn every_function_and_error_works_with_every_clock() {
    // 1009 is the number of round trips; the other programs ignore it.
    for name in ["reads", "own_parser", "roundtrips"] {
        let Some(program) = builds::c(name, Link::Dynamic) else { return };
        let command = words![program, "1009"];
        for clock in CLOCKS {
            let output = run_with(clock, &command);
            assert_eq!(code_as_shell(output.status), 0, "{name} with {clock}: {output:?}");
            assert_eq!(output.stdout, untraced(&command).stdout, "{name} with {clock}");
        }
    }
}
