//! `clockscope trace --callers` of Python: its threads wait while clockscope reads their frames, which must do no
//! harm.

use std::process::{Command, Stdio};

use crate::support::attaching::Attachment;
use crate::support::builds::{Link, c_with};
use crate::support::running::{Report, finish, rows, trace};
use crate::support::true_callers::frames_of;
use crate::support::{installed_or_skip, sources};

/// The number of clock reads that the program prints.
fn said(output: &str) -> u64 {
    let line = output.lines().find_map(|line| line.strip_prefix("clock_gettime CLOCK_BOOTTIME "));
    line.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("its count: {output}"))
}

/// Samples the callers of a script, whose reads must be counted exactly.
#[track_caller]
fn sampled(script: &str, arguments: &[&str]) -> Option<Report> {
    let python = installed_or_skip(&["/usr/bin/python3"])?;
    let command = words![python, sources().join(script), arguments];
    let traced = trace(&["--via", "none", "--callers"], &command).succeeded();
    let report = traced.report();
    assert_eq!(report.reads_of("CLOCK_BOOTTIME"), said(&traced.stdout));
    Some(report)
}

#[test]
fn threads_signals_copies_and_a_filter_do_no_harm() {
    let Some(report) = sampled("waits.py", &["300000"]) else { return };
    let Some(callers) = report.callers_or_skip() else { return };
    assert!(callers["waits"]["count"].as_u64() > Some(0), "{callers}");
    // Threads that wait have functions of the program in their stacks.
    let names: Vec<&str> =
        rows(&callers["frames"]).filter_map(|frame| frame["function"].as_str()).collect();
    assert!(names.contains(&"many") && names.contains(&"read"), "{names:?}");
}

#[test]
fn a_tracer_that_is_killed_leaves_nobody_waiting() {
    let Some(python) = installed_or_skip(&["/usr/bin/python3"]) else { return };
    let mut command = Command::new(python);
    command.arg(sources().join("waits.py")).arg("2000000");
    let child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start Python");
    let pid = i32::try_from(child.id()).expect("a pid");
    for _ in 0..5 {
        Attachment::to(&[pid], &["--via", "none", "--callers"]).kill();
    }
    let output = finish(child);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(said(&String::from_utf8_lossy(&output.stdout)) > 10_000_000);
}

#[test]
fn threads_that_share_slots_are_sampled_without_waiting() {
    let Some(report) = sampled("many_threads.py", &["400", "50000"]) else { return };
    let Some(callers) = report.callers_or_skip() else { return };
    // Stacks without Python frames are from the interpreter's code: of 400 threads, some 190 have no slot of their own.
    let (named, native): (Vec<_>, Vec<_>) = rows(&callers["stacks"])
        .partition(|stack| frames_of(callers, stack).any(|it| it["module"] == "[python]"));
    assert!(!named.is_empty() && !native.is_empty(), "{} {}", named.len(), native.len());
    let mut reasons = rows(&callers["declines"]).filter_map(|row| row["reason"].as_str());
    assert!(reasons.any(|reason| reason.contains("more threads")), "{}", callers["declines"]);
}

#[test]
fn who_jumps_out_of_a_wait_is_not_waited_for() {
    let Some(python) = installed_or_skip(&["/usr/bin/python3"]) else { return };
    let Some(library) = c_with("jumps", Link::Dynamic, &["-shared", "-fPIC"]) else { return };
    let command = words![python, sources().join("jumps.py"), library, "3000000", "3000000"];
    let traced = trace(&["--via", "none", "--callers"], &command).succeeded();
    let left = traced.stdout.trim().strip_prefix("jumps ").and_then(|left| left.parse().ok());
    assert!(left > Some(100_u64), "{}", traced.stdout);
    let report = traced.report();
    let Some(callers) = report.callers_or_skip() else { return };
    let late = rows(&callers["called"]).find(|row| row["clock"] == "CLOCK_TAI").expect("read");
    assert_eq!(late["calls"].as_u64(), Some(3_000_000));
    assert!(late["samples"].as_u64() > Some(0), "{late}");
}
