//! `clockscope wrongness` as a user runs it.

use std::env::consts::ARCH;
use std::process::{Command, Output, Stdio};

use clockscope_measure::clocks::COUNTERS;

fn clockscope(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_clockscope"))
        .arg("wrongness")
        .args(args)
        .stdin(Stdio::null())
        .output()
        .expect("run clockscope")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("is text")
}

/// The one line of an error.
fn complaint(args: &[&str]) -> String {
    let output = clockscope(args);
    assert_eq!(output.status.code(), Some(2), "{args:?}");
    assert!(output.stdout.is_empty(), "{args:?}");
    let said = text(&output.stderr);
    assert_eq!(said.lines().count(), 1, "{args:?}: {said}");
    said
}

fn json(args: &[&str]) -> serde_json::Value {
    let output = clockscope(&[&["--time", "1", "--format", "json"], args].concat());
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("is JSON");
    let found = !report["faults"].as_array().expect("a list").is_empty();
    assert_eq!(output.status.code(), Some(i32::from(found)), "{}", report["faults"]);
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
    report
}

#[test]
fn the_screen_has_every_clock_and_fits_80_columns() {
    let output = clockscope(&["--time", "1"]);
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(i32::from(shown.contains("FAULT"))), "{shown}");
    let counter = COUNTERS[if ARCH == "x86_64" { 2 } else { 1 }];
    let parts = ["REALTIME_COARSE", counter, "floor", "with a time up to", "rate", "kernel"];
    for part in parts {
        assert!(shown.contains(part), "{part} is missing in\n{shown}");
    }
    for line in shown.lines() {
        assert!(line.chars().count() <= 80 && line == line.trim_end(), "{line:?}");
    }
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
}

#[test]
fn the_json_has_a_schema_and_figures_that_agree() {
    let report = json(&[]);
    assert_eq!(report["schema"], 2);
    let clocks = report["clocks"].as_array().expect("a list");
    assert!(clocks.len() >= 9);
    for clock in clocks {
        assert!(clock["reads"].as_u64() > Some(0), "{clock}");
        let Some(busy) = clock["staleness"]["busy"].as_object() else { continue };
        let figure = |name: &str| busy[name].as_u64().expect("a number");
        let names = ["min_ns", "p1_ns", "p50_ns", "p99_ns", "max_ns"];
        assert!(names.map(figure).is_sorted(), "{clock}");
        let buckets = busy["buckets"].as_array().expect("a list");
        let sum: u64 = buckets.iter().filter_map(|bucket| bucket[1].as_u64()).sum();
        assert_eq!(sum, figure("count"));
    }
}

#[test]
fn only_the_clocks_that_are_named_are_looked_at() {
    let report = json(&["tai", "CLOCK_MONOTONIC", "tai"]);
    let names: Vec<_> = report["clocks"].as_array().unwrap().iter().map(|c| &c["clock"]).collect();
    assert_eq!(names, ["CLOCK_TAI", "CLOCK_MONOTONIC"]);
}

#[test]
fn a_histogram_is_drawn_with_the_line_of_getres() {
    let output = clockscope(&["--time", "1", "--histogram", "monotonic_coarse", "monotonic"]);
    let shown = text(&output.stdout);
    assert!(shown.contains("staleness of MONOTONIC_COARSE, busy"), "{shown}");
    assert!(shown.contains("<- clock_getres"), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
}

#[test]
fn the_report_goes_to_a_file() {
    let folder = tempfile::tempdir().expect("make a temporary directory");
    let path = folder.path().join("report.json");
    let path = path.to_str().expect("is text");
    let output = clockscope(&["tai", "--time", "1", "--format", "json", "-o", path]);
    assert!(output.stdout.is_empty() && output.status.code() != Some(2));
    let written = std::fs::read_to_string(path).expect("read the report");
    assert!(serde_json::from_str::<serde_json::Value>(&written).is_ok());
}

#[test]
fn a_name_that_does_not_exist_is_answered_with_the_nearest() {
    let said = complaint(&["monotnic"]);
    assert!(said.contains("did you mean monotonic?") && said.contains("realtime_coarse"), "{said}");
    assert!(complaint(&["--histogram", "tai"]).contains("takes a coarse clock"));
    let nearest = format!("did you mean {}?", COUNTERS[0]);
    assert!(complaint(&["--histogram", &COUNTERS[0].replace('t', "q")]).contains(&nearest));
}

#[test]
fn times_that_cannot_be_are_refused() {
    for time in ["0", "0.5", "nan", "inf", "1e9"] {
        assert!(complaint(&["--time", time]).contains("--time takes 1 to"), "{time}");
    }
    assert_eq!(clockscope(&["--time=-1"]).status.code(), Some(2));
}

#[test]
fn a_file_that_cannot_be_written_is_one_line_before_measuring() {
    assert!(complaint(&["-o", "/nonexistent/x"]).contains("cannot write to /nonexistent/x"));
}

#[test]
fn a_full_disk_is_one_line() {
    let said = complaint(&["tai", "--time", "1", "-o", "/dev/full"]);
    assert!(said.contains("cannot write the report"), "{said}");
}

#[test]
fn a_reader_that_has_left_is_no_failure() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_clockscope"))
        .args(["wrongness", "tai", "--time", "1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("run clockscope");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("wait for clockscope");
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
    assert_ne!(output.status.code(), Some(2));
}
