//! `clockscope trace -p`: a process that runs already is counted exactly and is left as it was.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};

use crate::support::attaching::{Image, assert_nothing_piles_up, mappings};
use crate::support::builds::{self, Link};
use crate::support::conversation::send_line;
use crate::support::running::{Report, clockscope, finish};
use crate::support::{installed_or_skip, is_root_or_skip};
use tempfile::TempDir;

/// A prime number of calls.
const CALLS: u64 = 1009;

/// `attachable`, which makes calls when it is told to.
struct Target {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Target {
    fn start(threads: u64) -> Option<Self> {
        let program = builds::c("attachable", Link::Dynamic)?;
        Some(Self::by(Command::new(program).arg(threads.to_string())))
    }

    fn by(command: &mut Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("start the target");
        let commands = child.stdin.take().expect("is piped");
        let answers = BufReader::new(child.stdout.take().expect("is piped"));
        let mut target = Self { child, commands, answers };
        assert_eq!(target.answer(), "ready");
        target
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("read an answer");
        line.trim_end().to_owned()
    }

    fn tell(&mut self, command: &str) {
        send_line(&mut self.commands, command).expect("tell the target");
        assert_eq!(self.answer(), format!("done {command}"));
    }

    fn image(&self) -> Image {
        Image::of(self.pid().cast_signed()).expect("it has a vDSO")
    }

    fn mappings(&self) -> Vec<String> {
        mappings(self.pid().cast_signed())
    }

    fn send(&self, signal: &str) {
        let pid = self.pid().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().expect("run kill").success());
    }

    /// Ends it, and checks that it ends well.
    fn end(mut self) {
        send_line(&mut self.commands, "end").expect("tell the target");
        assert_eq!(self.child.wait().expect("wait for the target").code(), Some(7));
    }
}

impl Drop for Target {
    /// A test that fails leaves no process behind, stopped or not.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A running `clockscope trace -p`.
struct Attachment {
    child: Child,
    said: BufReader<ChildStderr>,
    directory: TempDir,
}

impl Attachment {
    fn try_start(pids: &str, options: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("make a temporary directory");
        let mut command = Command::new(clockscope());
        command.args(["trace", "-p", pids, "--format", "json", "-o"]);
        command.arg(directory.path().join("report.json")).args(options);
        let mut child = command.stderr(Stdio::piped()).spawn().expect("start clockscope");
        let said = BufReader::new(child.stderr.take().expect("is piped"));
        Self { child, said, directory }
    }

    /// Starts it and waits until it counts.
    #[track_caller]
    fn start(pid: u32, options: &[&str]) -> Self {
        let mut attachment = Self::try_start(&pid.to_string(), options);
        let mut said = String::new();
        while !said.contains("attached to") {
            let read = attachment.said.read_line(&mut said).expect("read what clockscope says");
            assert!(read > 0, "not attached: {said}");
        }
        attachment
    }

    /// Waits for its end; gives the report and the exit status.
    fn ended(self) -> (Option<Report>, Option<i32>) {
        let status = finish(self.child).status.code();
        (Report::read(&self.directory.path().join("report.json")), status)
    }

    /// Ends it by Ctrl-C.
    #[track_caller]
    fn interrupt(self) -> Report {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().expect("run kill").success());
        let (report, status) = self.ended();
        assert_eq!(status, Some(0));
        report.expect("there is a report")
    }
}

fn calls_of(report: &Report, function: &str, clock: &str) -> u64 {
    report.vdso_calls(&(function.to_owned(), clock.to_owned()))
}

#[track_caller]
fn counts_are(report: &Report, loops: u64, ends: u64) {
    assert_eq!(calls_of(report, "clock_gettime", "CLOCK_MONOTONIC"), loops);
    assert_eq!(calls_of(report, "gettimeofday", "-"), loops);
    assert_eq!(calls_of(report, "clock_gettime", "CLOCK_REALTIME"), ends);
    assert_eq!(calls_of(report, "clock_getres", "CLOCK_MONOTONIC"), ends);
}

fn counted_exactly_and_left_as_it_was(threads: u64, options: &[&str]) {
    let Some(mut target) = Target::start(threads) else { return };
    target.tell("calls 5");
    let (image, maps) = (target.image(), target.mappings());
    for _ in 0..3 {
        let attachment = Attachment::start(target.pid(), options);
        target.tell(&format!("calls {CALLS}"));
        target.tell("fork 13");
        let report = attachment.interrupt();
        counts_are(&report, threads * CALLS + 13, threads + 1);
        if report.counts_syscalls() {
            assert_eq!(report.syscall("getppid", "calls"), threads + 1);
            assert_eq!(report.syscall("shmat", "calls"), 0, "our own call is counted");
        }
        let attached = &report.field("attached")[0];
        assert_eq!(attached["threads"], threads);
        assert_eq!(attached["ended"], "interrupted");
        assert!(attached["pause_ns"].as_u64() > Some(0));
        image.assert_as_before(target.pid().cast_signed());
        assert_nothing_piles_up(target.pid().cast_signed(), &maps);
    }
    target.tell("calls 7");
    target.end();
}

#[test]
fn one_thread() {
    counted_exactly_and_left_as_it_was(1, &["--via", "none"]);
}

#[test]
fn many_threads() {
    counted_exactly_and_left_as_it_was(40, &["--via", "none"]);
}

#[test]
fn with_system_calls_by_ptrace() {
    counted_exactly_and_left_as_it_was(3, &["--via", "ptrace"]);
}

#[test]
fn with_system_calls_by_ebpf() {
    if is_root_or_skip() {
        counted_exactly_and_left_as_it_was(3, &["--via", "bpf"]);
    }
}

#[test]
fn what_a_child_executes_is_counted_too() {
    let (Some(mut target), Some(date)) = (Target::start(1), installed_or_skip(&["/usr/bin/date"]))
    else {
        return;
    };
    let attachment = Attachment::start(target.pid(), &["--via", "none"]);
    target.tell(&format!("exec {}", date.display()));
    let report = attachment.interrupt();
    assert_eq!(calls_of(&report, "clock_gettime", "CLOCK_REALTIME"), 1);
    assert_eq!(report.number("processes"), 2);
    target.end();
}

#[test]
fn a_killed_attachment_does_no_harm_and_is_taken_over() {
    let Some(mut target) = Target::start(4) else { return };
    let before = target.image();
    for _ in 0..3 {
        let mut attachment = Attachment::start(target.pid(), &["--via", "none"]);
        attachment.child.kill().expect("kill clockscope");
        attachment.child.wait().expect("wait for clockscope");
        target.tell("calls 100");
    }
    assert!(target.image() != before, "the calls still go to the image that was left");
    let attachment = Attachment::start(target.pid(), &["--via", "none"]);
    target.tell(&format!("calls {CALLS}"));
    counts_are(&attachment.interrupt(), 4 * CALLS, 4);
    before.assert_as_before(target.pid().cast_signed());
    target.tell("calls 7");
    target.end();
}

#[test]
fn a_stopped_process_stays_stopped_and_is_counted_when_it_goes_on() {
    let Some(mut target) = Target::start(3) else { return };
    target.send("-STOP");
    let attachment = Attachment::start(target.pid(), &["--via", "none"]);
    let status = fs::read_to_string(format!("/proc/{}/status", target.pid())).unwrap();
    assert!(!status.contains("State:\tR") && !status.contains("State:\tS"), "{status}");
    target.send("-CONT");
    target.tell(&format!("calls {CALLS}"));
    target.send("-STOP");
    let report = attachment.interrupt();
    counts_are(&report, 3 * CALLS, 3);
    let status = fs::read_to_string(format!("/proc/{}/status", target.pid())).unwrap();
    assert!(status.contains("State:\tT (stopped)"), "{status}");
    target.send("-CONT");
    target.tell("calls 7");
    target.end();
}

#[test]
fn it_ends_with_the_process_and_with_the_time() {
    let Some(target) = Target::start(2) else { return };
    let attachment = Attachment::start(target.pid(), &["--via", "none", "--duration", "0.1"]);
    let (report, status) = attachment.ended();
    assert_eq!(status, Some(0));
    assert_eq!(report.expect("there is a report").field("attached")[0]["ended"], "duration");
    let attachment = Attachment::start(target.pid(), &["--via", "none"]);
    target.end();
    let (report, status) = attachment.ended();
    assert_eq!(status, Some(0));
    assert_eq!(report.expect("there is a report").field("attached")[0]["ended"], "exited");
}

/// Tries to attach; gives what clockscope says about why not.
#[track_caller]
fn refusal(pids: &str) -> String {
    let mut attachment = Attachment::try_start(pids, &["--via", "none"]);
    let mut words = String::new();
    while attachment.said.read_line(&mut words).expect("read what clockscope says") > 0 {}
    assert_eq!(attachment.ended().1, Some(125), "{words}");
    words
}

#[test]
fn what_cannot_be_attached_to_is_said_in_one_line() {
    let Some(mut target) = Target::start(1) else { return };
    let pid = target.pid().to_string();
    assert!(refusal("2000000000").contains("there is no such process"));
    if is_root_or_skip() {
        assert!(refusal("2").contains("a thread of the kernel"));
    }
    let attachment = Attachment::start(target.pid(), &["--via", "none"]);
    let words = refusal(&pid);
    assert!(words.contains("it is traced by clockscope"), "{words}");
    assert_eq!(words.lines().count(), 1, "{words}");
    target.tell("calls 10");
    counts_are(&attachment.interrupt(), 10, 1);
    target.end();
    if let Some(program) = builds::c("spin", Link::Bits32) {
        let mut child = Command::new(program).spawn().expect("start a 32-bit program");
        let words = refusal(&child.id().to_string());
        child.kill().expect("end it");
        child.wait().expect("wait for it");
        assert!(words.contains("32-bit"), "{words}");
    }
}
