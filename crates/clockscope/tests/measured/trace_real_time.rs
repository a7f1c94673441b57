//! How clockscope is scheduled: above the real-time threads that wait for it, and not a moment longer.

use std::fs;

use crate::support::attaching::{Attachment, wait_until};
use crate::support::builds::{self, Link};
use crate::support::conversation::Conversation;
use crate::support::running::{clockscope, untraced};
use crate::support::{installed_or_skip, is_root_or_skip, skip};

/// `SCHED_OTHER`, as `/proc/PID/stat` has it.
const ORDINARY: &str = "0";

/// The policy of a process's first thread: field 41 of `proc_pid_stat(5)`.
fn policy(pid: i32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, behind_name) = stat.rsplit_once(')')?;
    behind_name.split_whitespace().nth(41 - 3).map(str::to_owned)
}

fn are_priorities_allowed_or_skip() -> bool {
    let allowed = untraced(&words!["chrt", "-f", "50", "true"]).status.success();
    if !allowed {
        skip("real-time priorities are not allowed here");
    }
    allowed && is_root_or_skip()
}

const A_PRIORITY_FOR_A_MOMENT: &str = "chrt -f 5 true; echo ready; read line; exit 7";

/// Though nothing happens in the program any more.
#[test]
fn root_is_ordinary_again_after_a_real_time_program() {
    if !are_priorities_allowed_or_skip() {
        return;
    }
    let trace = words![clockscope(), "trace", "--via", "none", "-o", "/dev/null", "--"];
    let shell = words!["sh", "-c", A_PRIORITY_FOR_A_MOMENT];
    let mut tracer = Conversation::start_silent(&[&trace[..], &shell].concat());
    tracer.wait_for("ready");
    wait_until("it is ordinary", || policy(tracer.pid()).as_deref() == Some(ORDINARY));
    tracer.say("end");
    assert_eq!(tracer.status().code(), Some(7));
}

/// A thread that spins on clockscope's CPU runs on before the others do, and they wait for clockscope.
#[test]
fn a_program_is_not_kept_in_its_stops_by_a_real_time_thread_of_its_own() {
    if !are_priorities_allowed_or_skip() {
        return;
    }
    let Some(program) = builds::c("realtime", Link::Dynamic) else { return };
    let mut target = Conversation::start_silent(&words![program, "hog"]);
    if target.line() != "ready" {
        return skip("there is only one CPU");
    }
    let on_one_cpu = words!["taskset", "-c", "0"];
    let options = ["--via", "none", "--duration", "1"];
    let traced = Attachment::start(&on_one_cpu, &[target.pid()], &options).wait();
    assert_eq!(traced.code(), 0, "{traced:?}");
    let said = target.ask("end");
    let number = |name: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|number| number.trim().parse::<u64>().ok()).expect("it says how many")
    };
    assert_eq!(target.status().code(), Some(0), "the thread spins until it is told to end");
    // One a millisecond, and the longest time without one in milliseconds.
    let (alarms, longest) = (number("alarms"), number("longest-ms"));
    assert!(longest < alarms, "{longest} ms without an alarm, of {alarms} alarms");
}

/// While a target stands, what it waits for is its tracer: that runs before all ordinary threads of a busy
/// machine, from before the first stop until the last thread goes on, and it makes nothing ready in between.
#[test]
fn a_tracer_is_preferred_while_its_target_stands_and_then_prepares_nothing() {
    let Some(strace) = installed_or_skip(&["/usr/bin/strace"]) else { return };
    if !are_priorities_allowed_or_skip() {
        return;
    }
    let directory = tempfile::tempdir().expect("make a temporary directory");
    let log = directory.path().join("log");
    let mut target = Conversation::start_silent(&words!["sh", "-c", "echo ready; read line"]);
    target.wait_for("ready");
    let watch = "trace=ptrace,sched_setscheduler,bpf,perf_event_open,clone,clone3,mmap,write";
    let watched = words![strace, "-f", "-e", watch, "-o", log];
    let traced = Attachment::start(&watched, &[target.pid()], &["--duration", "0.1"]).wait();
    assert_eq!(traced.code(), 0, "{traced:?}");
    target.say("end");
    assert_eq!(target.status().code(), Some(0));

    let log = fs::read_to_string(log).expect("read what strace saw");
    let stops = log.lines().find(|line| line.contains("PTRACE_INTERRUPT")).expect("it stops it");
    let (tracer, _) = stops.split_once(' ').expect("a line begins with the thread");
    let of_tracer = log.lines().filter_map(|line| line.strip_prefix(tracer)).map(str::trim_start);
    let calls: Vec<&str> = of_tracer.take_while(|call| !call.contains("attached to")).collect();
    let at = |what: &str| calls.iter().position(|call| call.contains(what));
    let first = at("PTRACE_INTERRUPT").expect("it stops it");
    let last = calls.iter().rposition(|call| call.contains("PTRACE_CONT")).expect("it goes on");
    let change = |call: &&&str| call.starts_with("sched_setscheduler(0, ");
    let before = calls[..first].iter().rev().find(change).expect("takes a priority");
    assert!(!before.contains("SCHED_OTHER"), "{before}");
    let within: Vec<_> = calls[first..last].iter().filter(|it| !it.starts_with("ptrace")).collect();
    let signals_only = within.iter().all(|call| call.starts_with("--- SIG"));
    assert!(signals_only, "{within:?}");
    let after = calls[last..].iter().find(change).expect("gives it back before it says so");
    assert!(after.contains("SCHED_OTHER"), "{after}");
}
