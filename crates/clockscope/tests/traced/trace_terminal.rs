//! Signals, terminals, pipes and descriptors: under `clockscope trace` the program has the same as without it.

use crate::support::attaching::{signal, wait_until};
use crate::support::builds::{self, Link};
use crate::support::compare::{assert_counts, assert_exact, assert_same_as_untraced};
use crate::support::conversation::Conversation;
use crate::support::printed::Printed;
use crate::support::running::{Report, Tracing, code_as_shell, trace_vdso, untraced};
use crate::support::terminal::{Terminal, command_line};

fn waiting_program() -> Option<Tracing> {
    let program = builds::c("waits", Link::Dynamic)?;
    Some(Tracing::new(&["--via", "none"], &words![program]))
}

#[test]
fn ctrl_c_ends_the_program_and_the_report_is_written() {
    let Some(tracing) = waiting_program() else { return };
    let Some(mut terminal) = Terminal::start(&command_line(&tracing)) else { return };
    terminal.answer(&[("ready", "\x03")]);
    terminal.wait_for("caught SIGINT");
    assert_eq!(terminal.finish(), 34);
    let report = Report::read(tracing.report_path()).expect("a report after ctrl-c");
    assert_eq!(report.number("exit_code"), 34);
    assert_eq!(report.reads_of("CLOCK_TAI"), 101);
}

#[test]
fn ctrl_z_stops_the_program_and_fg_continues_it() {
    let Some(tracing) = waiting_program() else { return };
    let Some(mut terminal) = Terminal::start("bash --norc --noprofile -i") else { return };
    terminal.press(&format!("{}\r", command_line(&tracing)));
    terminal.answer(&[
        ("ready", "\x1a"),
        ("Stopped", "fg\r"),
        ("caught SIGCONT", "a line\r"),
        ("line a line", "\x04"),
        ("end of input", "exit $?\r"),
    ]);
    assert_eq!(terminal.finish(), 0);
    let report = Report::read(tracing.report_path()).expect("a report");
    let reads = report.reads_of("CLOCK_TAI");
    assert_eq!(reads, 101 + 503 + 211, "one SIGCONT, one line, the end");
}

#[test]
fn sigterm_goes_to_the_program_and_the_report_is_written() {
    let Some(tracing) = waiting_program() else { return };
    let mut program = Conversation::start(&tracing.words());
    signal("TERM", program.pid());
    // Only the signal can end the program, because its standard input is open until this line.
    program.wait_for("result caught SIGTERM");
    assert_eq!(code_as_shell(program.status()), 33);
    assert_eq!(Report::read(tracing.report_path()).expect("a report").number("exit_code"), 33);
}

/// A shell that prints its process id and becomes timeout(1). The test sends it SIGALRM, the signal of its timer, so
/// that the time is over.
const TIMEOUT: [&str; 7] =
    ["sh", "-c", "echo $$ && exec \"$@\"", "sh", "timeout", "--signal=TERM", "1d"];

#[test]
fn timeout_outside_and_inside() {
    let Some(program) = builds::c("waits", Link::Dynamic) else { return };
    let inside = Tracing::new(&["--via", "none"], &words![TIMEOUT, program]);
    let outside = Tracing::new(&["--via", "none"], &words![program]);
    let words_outside = words![TIMEOUT, outside.words()];
    for (words, tracing) in [(inside.words(), &inside), (words_outside, &outside)] {
        let mut program = Conversation::start_silent(&words);
        let process = program.line().parse().expect("a process number");
        program.wait_for("ready");
        // `timeout` ends by a signal that comes before its `fork` has returned, though the program may run by then.
        let waits = format!("{} ", libc::SYS_rt_sigsuspend);
        let call = || std::fs::read_to_string(format!("/proc/{process}/syscall"));
        wait_until("timeout waits", || call().is_ok_and(|call| call.starts_with(&waits)));
        signal("ALRM", process);
        let said = program.until(|line| line == "result caught SIGTERM");
        assert_eq!(code_as_shell(program.status()), 124, "{said}");
        let report = Report::read(tracing.report_path()).expect("a report");
        assert_counts(&Printed::parse(&said), &report);
    }
}

#[test]
fn standard_input_through_a_pipe() {
    let Some(tracing) = waiting_program() else { return };
    let traced = tracing.finish_with_input("one\ntwo\n");
    let printed = assert_exact(&traced);
    assert_eq!(printed.results, ["end of input", "line one", "line two"]);
    assert_eq!(traced.code(), 0);
}

#[test]
fn a_program_killed_by_a_signal_ends_with_128_and_its_number() {
    for (signal, number) in [("KILL", 9), ("SEGV", 11), ("TERM", 15), ("USR1", 10)] {
        let traced = trace_vdso(&words!["sh", "-c", format!("kill -{signal} $$")]);
        assert_eq!(traced.code(), 128 + number, "{traced:?}");
        let report = traced.report();
        assert_eq!(report.number("signal"), u64::try_from(number).expect("is positive"));
        assert!(report.field("exit_code").is_null());
    }
}

#[test]
fn the_exit_status_is_the_programs() {
    for code in [0, 1, 2, 125, 126, 127, 255] {
        let traced = trace_vdso(&words!["sh", "-c", format!("exit {code}")]);
        assert_eq!(traced.code(), code);
        assert_eq!(traced.report().field("exit_code"), code);
    }
}

/// Everything that a program inherits and a tracer might change.
#[test]
fn the_program_inherits_the_same_as_without_clockscope() {
    let script = "env | sort; ls /proc/self/fd; grep -E '^(Sig[BIC]|ShdPnd|Seccomp|NoNewPrivs|Cap)' \
                  /proc/self/status; ulimit -a; umask; nice; pwd; cat /proc/self/oom_score_adj";
    let command = words!["sh", "-c", script];
    assert_same_as_untraced(&trace_vdso(&command), &untraced(&command));
}

#[test]
fn closed_standard_output_and_error_do_no_harm() {
    for closed in [">&-", "2>&-", ">&- 2>&-", "<&-", "<&- >&- 2>&-"] {
        let tracing = Tracing::new(&["--via", "none"], &words!["sh", "-c", "exit 5"]);
        let shell = words!["sh", "-c", format!("{} {closed}", command_line(&tracing))];
        let traced = tracing.traced(&untraced(&shell));
        assert_eq!(traced.code(), 5, "{closed}: {traced:?}");
        assert!(traced.has_report(), "{closed}: {traced:?}");
    }
}

#[test]
fn two_mebibytes_of_arguments_and_environment() {
    let big = "x".repeat(100_000);
    let script = "echo $# ${#1} ${#VARIABLE_0} ${#VARIABLE_8}";
    let command = words!["sh", "-c", script, "sh", vec![&big; 9]];
    let mut tracing = Tracing::new(&["--via", "none"], &command);
    tracing.command.envs((0..9).map(|number| (format!("VARIABLE_{number}"), big.as_str())));
    let traced = tracing.finish();
    assert_eq!(traced.stdout, "9 100000 100000 100000\n", "{traced:?}");
}
