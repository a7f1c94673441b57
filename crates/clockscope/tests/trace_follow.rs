//! What a program could notice of being followed, and does not: who runs first after a fork, who keeps
//! the CPU, which calls are interrupted, who stops and who goes on.

#[allow(dead_code, unused_macros, reason = "each test binary uses another part")]
mod support;

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use support::attaching::signal;
use support::builds::{self, Link};
use support::running::{clockscope, code_as_shell, finish, untraced};
use support::skip;

/// The ways of following a program, as words in front of its command.
const WAYS: [&[&str]; 4] = [
    &["trace", "--via", "none", "-o", "/dev/null", "--"],
    &["trace", "--via", "ptrace", "-o", "/dev/null", "--"],
    &["trace", "-o", "/dev/null", "--"],
    &["run", "--clock", "kernel", "--"],
];

/// A command below clockscope.
fn below(way: &[&str], command: &[OsString]) -> Vec<OsString> {
    let way: Vec<OsString> = way.iter().map(OsString::from).collect();
    [&words![clockscope()], &way[..], command].concat()
}

/// Runs a command alone and in every way, and checks that it says the same.
#[track_caller]
fn says_the_same(ways: &[&[&str]], command: &[OsString]) -> String {
    let alone = untraced(command);
    let said = String::from_utf8_lossy(&alone.stdout).into_owned();
    for way in ways {
        let followed = untraced(&below(way, command));
        assert_eq!(String::from_utf8_lossy(&followed.stdout), said, "{way:?}: {followed:?}");
        assert_eq!(code_as_shell(followed.status), code_as_shell(alone.status), "{way:?}");
    }
    said
}

// Real-time programs.

/// Words that keep a command and all that it starts on one CPU.
fn on_one_cpu() -> [OsString; 3] {
    words!["taskset", "-c", "0"]
}

/// A real-time program says the same with clockscope on its CPU and elsewhere; gives what it said.
#[track_caller]
fn real_time(arguments: &[&str]) -> Option<String> {
    let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
    let command = [&words![builds::c("realtime", Link::Dynamic)?], &arguments[..]].concat();
    let said = says_the_same(&WAYS, &command);
    if said.contains("no real-time priorities") {
        skip("real-time priorities are not allowed here");
        return None;
    }
    for way in WAYS {
        let beside = untraced(&[&on_one_cpu()[..], &below(way, &command)].concat());
        assert_eq!(
            String::from_utf8_lossy(&beside.stdout),
            said,
            "on one CPU, {way:?}: {beside:?}"
        );
    }
    Some(said)
}

#[test]
fn children_and_threads_of_the_same_priority_run_after_their_parent() {
    let Some(said) = real_time(&["order", "40"]) else { return };
    assert!(said.contains("children that ran before their parent: 0\n"), "{said}");
    assert!(said.contains("threads that ran before their parent: 0\n"), "{said}");
}

#[test]
fn a_child_that_spins_does_not_keep_its_parent_in_a_stop() {
    let Some(said) = real_time(&["outrun"]) else { return };
    assert!(said.contains("result nobody was kept from running\n"), "{said}");
}

#[test]
fn alarms_come_in_time_while_a_real_time_child_spins() {
    let Some(said) = real_time(&["alarms", "2000"]) else { return };
    assert!(said.contains("result alarms in time: at least half\n"), "{said}");
}

#[test]
fn sigterm_reaches_a_program_whose_real_time_child_spins() {
    let Some(program) = builds::c("realtime", Link::Dynamic) else { return };
    for way in WAYS {
        let command = [&on_one_cpu()[..], &below(way, &words![program, "term"])].concat();
        let mut clockscope = Command::new(&command[0]);
        let clockscope = clockscope.args(&command[1..]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = clockscope.spawn().expect("start clockscope");
        let mut lines = BufReader::new(child.stdout.take().expect("is piped")).lines();
        let mut line = || lines.next().map(|line| line.expect("is text"));
        let first = line();
        if first.as_deref() == Some("ready") {
            signal("TERM", child.id().try_into().expect("is a pid"));
            assert_eq!(line().as_deref(), Some("result ended by SIGTERM"), "{way:?}");
        } else {
            assert_eq!(first.as_deref(), Some("result no real-time priorities"), "{way:?}");
            skip("real-time priorities are not allowed here");
        }
        assert_eq!(code_as_shell(finish(child).status), 0, "{way:?}");
    }
}
