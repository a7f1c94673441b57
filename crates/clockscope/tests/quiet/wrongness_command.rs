//! `clockscope wrongness` as a user runs it.

use std::env::consts::ARCH;

use crate::support::command::{Said, said};
use clockscope_measure::clocks::COUNTERS;

fn wrongness(args: &[&str]) -> Said {
    said(&[&["wrongness"], args].concat())
}

fn json(args: &[&str]) -> serde_json::Value {
    let output = wrongness(&[&["--time", "1", "--format", "json"], args].concat());
    let report = output.json();
    let found = !report["faults"].as_array().expect("a list").is_empty();
    assert_eq!((output.code, &*output.stderr), (Some(i32::from(found)), ""), "{report}");
    report
}

#[test]
fn the_screen_has_every_clock_and_fits_80_columns() {
    let Said { code, stdout: shown, stderr } = wrongness(&["--time", "1"]);
    assert_eq!((code, &*stderr), (Some(i32::from(shown.contains("FAULT"))), ""), "{shown}");
    let counter = COUNTERS[if ARCH == "x86_64" { 2 } else { 1 }];
    let parts = ["REALTIME_COARSE", counter, "floor", "with a time up to", "rate", "kernel"];
    let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in parts {
        assert!(words.contains(part), "{part} is missing in\n{shown}");
    }
    for line in shown.lines() {
        assert!(line.chars().count() <= 80 && line == line.trim_end(), "{line:?}");
    }
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
fn a_name_that_does_not_exist_is_answered_with_the_nearest() {
    wrongness(&["monotnic"]).is_refused(2, &["did you mean monotonic?", "realtime_coarse"]);
    let nearest = format!("did you mean {}?", COUNTERS[0]);
    wrongness(&[&COUNTERS[0].replace('t', "q")]).is_refused(2, &[&nearest]);
}
