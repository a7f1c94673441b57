//! `clockscope trace --callers` of Python: its threads wait while their frames are read, which must be nobody's
//! harm.

use std::process::{Command, Stdio};

use crate::support::attaching::Attachment;
use crate::support::running::{finish, rows, trace};
use crate::support::{installed_or_skip, sources};

/// What the program says of its reads.
fn said(output: &str) -> u64 {
    let line = output.lines().find_map(|line| line.strip_prefix("clock_gettime CLOCK_BOOTTIME "));
    line.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("its count: {output}"))
}

#[test]
fn threads_signals_copies_and_a_filter_do_no_harm() {
    let Some(python) = installed_or_skip(&["/usr/bin/python3"]) else { return };
    let command = words![python, sources().join("waits.py"), "300000"];
    let traced = trace(&["--via", "none", "--callers"], &command);
    assert_eq!(traced.code(), 0, "{traced:?}");
    let report = traced.report();
    let key = ("clock_gettime".to_owned(), "CLOCK_BOOTTIME".to_owned());
    assert_eq!(report.vdso_calls(&key), said(&traced.stdout));
    let callers = report.field("callers");
    if let Some(decline) = rows(&callers["declines"]).find(|row| row["pid"] == 0) {
        return crate::support::skip(format_args!("nobody may be sampled: {}", decline["reason"]));
    }
    assert!(callers["waits"]["samples"].as_u64() > Some(0), "{callers}");
    // Whoever waits has the functions of the program in its stacks.
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
