//! What `clockscope trace -p` says of processes that it cannot attach to, and its exit status.

use std::fs::File;
use std::io::ErrorKind;
use std::process::{Child, Command};

use crate::support::attaching::{Attempts, assert_refused, attach_for};
use crate::support::builds::{self, Link};
use crate::support::conversation::Conversation;
use crate::support::{is_root_or_skip, skip};

/// No process has such a number: the kernel's largest is 4,194,304.
const MISSING: i32 = 2_000_000_000;

/// A program that is ended with this value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_process_that_executes_programs_all_the_time() {
    let Some(program) = builds::c("executes", Link::Static) else { return };
    let target = Running(Command::new(program).spawn().expect("start a tracee"));
    let pid = target.0.id().try_into().expect("is a pid");
    let mut attempts = Attempts::default();
    for _ in 0..20 {
        let traced = attach_for("0.02", &[pid], &["--via", "none"]);
        attempts.take(&traced, &["it executes one program after the other; try again"]);
    }
    // It tries eight programs, so few attempts are refused, or none.
    attempts.assert_at_least(5, 0);
}

#[test]
fn nothing_is_measured_before_the_process_is_looked_at() {
    let traced = attach_for("0.1", &[MISSING], &[]);
    assert_refused(&traced, &["cannot attach to 2000000000: there is no such process"]);
}

#[test]
fn a_missing_process_among_several_is_named_and_the_exit_status_tells() {
    let Some(program) = builds::c("attach_server", Link::Dynamic) else { return };
    let target = Conversation::start(&words![program, "2"]);
    for pids in [[MISSING, target.pid()], [target.pid(), MISSING]] {
        let traced = attach_for("0.1", &pids, &["--via", "none"]);
        assert_eq!(traced.code(), 1, "{traced:?}");
        let words = "cannot attach to 2000000000: there is no such process";
        assert!(traced.stderr.contains(words), "{traced:?}");
        let report = traced.report();
        assert_eq!(report.reasons("vdso"), [""; 0], "nothing ran that was not counted");
        assert_eq!(report.field("attached").as_array().map(Vec::len), Some(1), "{report:#?}");
    }
    target.ends_well();
}

#[test]
fn root_is_not_told_to_be_root() {
    if !is_root_or_skip() {
        return;
    }
    match File::open("/proc/1/mem") {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {}
        _ => return skip("process 1 may be traced here"),
    }
    let traced = attach_for("0.1", &[1], &[]);
    assert_refused(&traced, &["(1)", "even to root"]);
    assert!(!traced.stderr.contains("run clockscope as root"), "{}", traced.stderr);
}
