//! `clockscope bench` as a user runs it: its output in each format, its message on bad input, and the number of calls
//! that it makes. The tests do not look at times.

use crate::support::builds::{self, Link};
use crate::support::command::{Said, said};
use crate::support::running::{clockscope, rows, trace_vdso, untraced};
use serde_json::Value;

fn bench(args: &[&str]) -> Said {
    said(&[&["bench", "--quick"], args].concat())
}

#[track_caller]
fn json(args: &[&str]) -> Value {
    bench(&[args, &["--format", "json"]].concat()).json()
}

fn path<'a>(report: &'a Value, clock: &str, route: &str) -> &'a Value {
    let mut paths = rows(&report["paths"]);
    paths.find(|path| path["clock"] == clock && path["route"] == route).expect("is measured")
}

#[test]
fn the_json_has_the_keys_of_the_schema() {
    let report = json(&["monotonic", "tai", "--launches", "2"]);
    assert_eq!(report["schema"], 2);
    assert!(report["host"]["kernel"].as_str().is_some_and(|kernel| !kernel.is_empty()));
    let method = &report["method"];
    assert_eq!((&method["launches"], &method["net"]), (&2.into(), &false.into()));
    assert_eq!(method["rounds"].as_array().map(Vec::len), Some(2));
    assert_eq!(report["paths"].as_array().map(Vec::len), Some(7), "two by three routes, and none");
    for path in rows(&report["paths"]) {
        let number = |key: &str| path[key].as_u64().unwrap_or_else(|| panic!("{key} in {path}"));
        let [low, median, high] =
            ["ci_low", "median", "ci_high"].map(|end| number(&format!("cost_ps_{end}")));
        assert!(low <= median && median <= high, "{path}");
        assert!(number("cost_ps_min") > 0 && number("cost_ps_min") <= median, "{path}");
        assert!(number("accepted") <= number("batches") && number("batches") >= 100, "{path}");
        assert!(number("calls_per_batch").is_power_of_two());
        let grade = path["grade"].as_str().expect("a grade");
        assert!(["quiet", "noisy", "unusable"].contains(&grade), "{path}");
        assert_eq!(path["launches"].as_array().map(Vec::len), Some(2), "{path}");
        let samples = path["samples_ps"].as_array().expect("samples");
        // An "unusable" host slows the guest down all the time: hardly any batch is accepted, so all of them count.
        let counted = number(if grade == "unusable" { "batches" } else { "accepted" });
        assert_eq!(samples.len() as u64, counted.min(1000), "{grade}");
    }
    let mut ratios = rows(&report["ratios"]).map(|row| (&row["of"]["clock"], &row["of"]["route"]));
    assert!(ratios.any(|of| of == (&"CLOCK_MONOTONIC".into(), &"syscall".into())));
}

#[test]
fn a_system_call_is_dearer_than_the_vdso_and_the_empty_loop_is_cheapest() {
    let report = json(&["monotonic_coarse"]);
    let cost = |clock: &str, route: &str| path(&report, clock, route)["cost_ps_min"].as_u64();
    let [vdso, syscall] =
        ["vdso", "syscall"].map(|route| cost("CLOCK_MONOTONIC_COARSE", route).expect("a number"));
    assert!(syscall > 2 * vdso, "{syscall} {vdso}");
    assert!(cost("empty loop", "none").expect("a number") < vdso);
    let ratio = |row: &&Value| row["of"]["route"] == "syscall";
    let ratio = rows(&report["ratios"]).find(ratio).expect("a ratio");
    let quotient = ratio["ratio"].as_f64().expect("a number");
    assert!(quotient > 2.0 && ratio["ci_low"].as_f64() <= Some(quotient), "{ratio}");
}

#[test]
fn net_costs_have_no_loop_in_them() {
    let report = json(&["time", "--route", "vdso", "--net"]);
    assert_eq!(report["method"]["net"], true);
    assert_eq!(path(&report, "empty loop", "none")["cost_ps_median"], 0);
    assert!(report["method"]["empty_loop_ps"].as_u64() > Some(0));
}

#[test]
fn system_calls_are_measured_beside_the_empty_loop() {
    let report = json(&["syscalls", "getppid"]);
    assert!(path(&report, "empty loop", "none")["accepted"].is_u64());
    let row = &report["paths"][1];
    assert_eq!(
        (&row["call"], &row["route"], &row["clock"]),
        (&"getppid".into(), &"syscall".into(), &Value::Null)
    );
    bench(&["syscalls", "getppdi"]).is_refused(2, &["did you mean getppid?"]);
}

#[test]
fn instructions_are_in_the_report() {
    let report = json(&["boottime", "--route", "vdso", "--instructions"]);
    assert_eq!(report["instructions"]["rows"][0]["clock"], "CLOCK_BOOTTIME");
}

#[test]
fn without_pinning_it_measures_and_says_so() {
    let Some(program) = builds::c("confined", Link::Dynamic) else { return };
    let bench = ["bench", "--quick", "tai", "--format", "json"];
    let confined = words![program, "no-affinity", "exec", clockscope(), bench];
    let report = Said::of(untraced(&confined)).json();
    assert_eq!(report["method"]["cpu"], Value::Null);
    let mut notes = rows(&report["notes"]).filter_map(Value::as_str);
    assert!(notes.any(|note| note.contains("one CPU")), "{report}");
}

/// A launch prints as many calls as `clockscope trace` counts.
#[test]
fn a_launch_makes_exactly_the_calls_that_it_claims() {
    let words = ["bench", "boottime", "--route", "libc,vdso", "--quick", "--as-launch"];
    let traced = trace_vdso(&words![clockscope(), words]).succeeded();
    let records: Vec<Value> = traced
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).expect("is JSON"))
        .filter(|record: &Value| record["clock"] == "CLOCK_BOOTTIME")
        .collect();
    let sum = |record: &str, key: &str| -> u64 {
        let of_kind = records.iter().filter(|value| value["record"] == record);
        of_kind.map(|value| value[key].as_u64().expect("a number")).sum()
    };
    for batch in records.iter().filter(|record| record["record"] == "batch") {
        for key in ["calls", "ns", "control_before_ns", "control_after_ns"] {
            assert!(batch[key].as_u64() > Some(0), "{key} in {batch}");
        }
    }
    let (made, in_batches) = (sum("path", "calls_made"), sum("batch", "calls"));
    assert!(made > in_batches && in_batches > 100_000, "{made} {in_batches}");
    // Besides, each route checks the clock by one call.
    let routes = 2;
    assert_eq!(traced.report().reads_of("CLOCK_BOOTTIME"), made + routes);
}
