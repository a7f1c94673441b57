//! A program with clockscope's code that counts system calls, as seen by debuggers, unwinders, leak checkers, and by
//! the program itself when clockscope has left.

use std::ffi::OsString;
use std::io::{PipeReader, Read as _};
use std::path::Path;

use crate::support::builds::{self, Link};
use crate::support::compare::assert_same_as_untraced;
use crate::support::daemon::Daemon;
use crate::support::installed_or_skip;
use crate::support::printed::Printed;
use crate::support::running::{Tracing, clockscope, text, trace, untraced};
use crate::trace_sites::exact;
use skips::skip;

/// Functions of `site_places.c` in which threads wait, each in a different call.
const WAITING: [&str; 6] =
    ["in_read", "in_poll", "in_nanosleep", "in_futex", "in_epoll", "in_syscall"];

/// gdb's output for these commands.
pub(crate) fn gdb(arguments: &[OsString], commands: &[&str]) -> Option<String> {
    let gdb = installed_or_skip(&["/usr/bin/gdb"])?;
    let commands: Vec<_> = commands.iter().map(|command| ["-ex", command]).collect();
    Some(text(&untraced(&words![gdb, "-nx", "-batch", arguments, commands])))
}

#[track_caller]
fn assert_all_are_walked(text: &str) {
    let frame = |name: &str| {
        text.lines().any(|line| line.starts_with('#') && line.contains(&format!(" {name} ")))
    };
    for name in WAITING.iter().chain(&["main"]) {
        assert!(frame(name), "no frame of {name}: {text}");
    }
}

/// The target of a disassembled function's jump to outside of all files, which is the code that counts.
#[track_caller]
fn leads_out(disassembled: &str) -> &str {
    let mut jumps = disassembled.lines().filter_map(|line| line.split_once("jmp "));
    let out = jumps.find(|(_, to)| !to.contains('<'));
    out.unwrap_or_else(|| panic!("no jump out of the function: {disassembled}")).1.trim()
}

#[test]
fn a_core_file_shows_where_all_threads_wait_and_what_they_execute() {
    let Some(program) = builds::c("site_places", Link::Dynamic) else { return };
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    if !pattern.starts_with("core") {
        return skip("core files do not go to the directory of the program");
    }
    let directory = tempfile::tempdir().expect("make a temporary directory");
    let shell = words!["sh", "-c", "ulimit -c unlimited && exec \"$@\"", "sh", clockscope()];
    let mut tracing = Tracing::below(&shell, &["--via", "sites"], &words![program, "core"]);
    tracing.command.current_dir(directory.path());
    let traced = tracing.finish();
    assert_eq!(traced.code(), 134, "{traced:?}");
    let mut files = std::fs::read_dir(directory.path()).expect("list the directory");
    let Some(Ok(core)) = files.next() else { return skip("core files are not allowed here") };
    let commands = ["thread apply all backtrace", "disassemble clone3"];
    let Some(text) = gdb(&words![program, core.path()], &commands) else { return };
    assert_all_are_walked(&text);
    // The core file has the code that was executed, including the code behind the jumps.
    let examine = format!("x/12i {}", leads_out(&text));
    let Some(code) = gdb(&words![program, core.path()], &[&examine]) else { return };
    assert!(code.contains("inc") && !code.contains("Cannot access"), "{code}");
}

/// A counted daemon that runs on without clockscope since the command has ended, and a pipe that ends with it.
fn left(program: &Path, mode: &str) -> (Daemon, PipeReader) {
    let mut daemon = Daemon::new(&["--via", "sites", "--detach-on-exit"], program, mode);
    let alive = daemon.is_left();
    let report = daemon.report();
    assert_eq!(report.field("via"), "sites");
    assert!(report.syscall("futex", "calls") > 0, "the threads are counted: {report:#?}");
    (daemon, alive)
}

/// Waits for the daemon's end; gives its output.
fn ended((daemon, mut alive): (Daemon, PipeReader)) -> (Printed, String) {
    alive.read_to_end(&mut Vec::new()).expect("wait for the daemon");
    (Printed::parse(&daemon.wrote("stdout")), daemon.wrote("stderr"))
}

/// The jumps stay in the daemon. It must send itself no more SIGURG, because no tracer takes the signal away.
#[test]
fn a_daemon_that_is_left_does_what_it_did_before() {
    let Some(program) = builds::c("site_places", Link::Dynamic) else { return };
    let left = left(&program, "left");
    left.0.let_go();
    let (said, errors) = ended(left);
    assert!(said.has_result("noticed 0"), "{said:?}; {errors}");
}

#[test]
fn gdb_walks_all_threads_and_goes_through_the_code_that_counts() {
    let Some(program) = builds::c("site_places", Link::Dynamic) else { return };
    let left = left(&program, "left");
    let said = left.0.wrote("stdout");
    let attach = words!["-p", said.trim().rsplit(' ').next().expect("a number")];
    let commands = ["thread apply all backtrace", "disassemble clone3"];
    let Some(text) = gdb(&attach, &commands) else { return };
    assert_all_are_walked(&text);
    let stub = format!("break *{}", leads_out(&text));
    let open = format!("shell (: > {}) < /dev/null > /dev/null 2>&1 &", left.0.gate.display());
    let commands =
        [&stub, &open, "continue", "delete", "stepi 3", "backtrace", "finish", "backtrace"];
    let Some(text) = gdb(&attach, &commands) else { return };
    let frames: Vec<&str> = text.lines().filter(|line| line.starts_with('#')).collect();
    assert!(frames[0].contains("?? ()"), "not in the code that counts: {text}");
    let ends = frames.iter().filter(|line| line.contains(" main ")).count();
    assert_eq!(ends, 2, "not both walks reach the end: {text}");
    let (said, errors) = ended(left);
    assert!(said.has_result("noticed 0"), "{said:?}; {errors}; {text}");
}

/// The leak check stops all threads, and looks for pointers in their registers and stacks. It cannot do so while
/// clockscope traces the program, because a process has one tracer.
#[test]
fn a_leak_check_finds_what_is_lost_and_nothing_else() {
    let Some(program) = builds::c("site_places", Link::AddressSanitizer) else { return };
    let left = left(&program, "leak");
    left.0.let_go();
    let (said, errors) = ended(left);
    assert!(said.has_result("noticed 0"), "{said:?}");
    assert!(errors.contains("leak of 1009 byte(s)"), "{errors}");
    assert!(!errors.contains("2003 byte"), "{errors}");
}

#[test]
fn address_sanitizer_notices_nothing() {
    let Some(program) = builds::c("reads", Link::AddressSanitizer) else { return };
    exact(&[], &words!["env", "ASAN_OPTIONS=detect_leaks=0", program]);
}

#[test]
fn stacks_are_walked_from_handlers_that_interrupt_calls() {
    let Some(program) = builds::c_with("unwind", Link::Dynamic, &["-rdynamic"]) else { return };
    let command = words![program, "calls"];
    let traced = trace(&["--via", "sites"], &command);
    assert_same_as_untraced(&traced, &untraced(&command));
    assert!(traced.stdout.contains("incomplete elsewhere 0"), "{traced:?}");
}

/// The C library unwinds from the thread's address, which may be in a stub.
#[test]
fn threads_are_cancelled_wherever_they_are() {
    let Some(program) = builds::c("site_places", Link::Dynamic) else { return };
    let command = words![program, "cancel"];
    let traced = trace(&["--via", "sites"], &command);
    assert_same_as_untraced(&traced, &untraced(&command));
}
