//! `clockscope bench` as a user runs it: what it prints in each format, what it says of bad input, and
//! that it makes the calls that it claims. How long anything takes is not looked at.

use std::fs;
use std::io::Read as _;
use std::process::{Command, Output, Stdio};

use crate::support::builds::{self, Link};
use crate::support::running::{clockscope, trace_vdso};
use serde_json::Value;

fn bench(args: &[&str]) -> Output {
    let mut command = Command::new(clockscope());
    command.args(["bench", "--quick"]).args(args).stdin(Stdio::null());
    command.output().expect("run clockscope bench")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

#[track_caller]
fn printed(args: &[&str]) -> String {
    let output = bench(args);
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "", "{args:?}");
    text(&output.stdout)
}

#[track_caller]
fn json(args: &[&str]) -> Value {
    serde_json::from_str(&printed(&[args, &["--format", "json"]].concat())).expect("is JSON")
}

/// The error line of a command that must fail.
#[track_caller]
fn refused(args: &[&str]) -> String {
    let output = bench(args);
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{args:?}: {said}");
    assert!(said.starts_with("clockscope: "), "{said}");
    said
}

fn path<'a>(report: &'a Value, clock: &str, route: &str) -> &'a Value {
    let mut paths = report["paths"].as_array().expect("paths").iter();
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
    for path in report["paths"].as_array().expect("paths") {
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
        // On a host that slows the guest down all the time hardly any is accepted, and all count.
        let counted = number(if grade == "unusable" { "batches" } else { "accepted" });
        assert_eq!(samples.len() as u64, counted.min(1000), "{grade}");
    }
    assert!(
        report["ratios"].as_array().expect("ratios").iter().any(|row| {
            row["of"]["clock"] == "CLOCK_MONOTONIC" && row["of"]["route"] == "syscall"
        })
    );
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
    let ratio = report["ratios"].as_array().expect("ratios").iter().find(ratio).expect("a ratio");
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
fn the_text_fits_80_columns_and_is_grouped_by_clock() {
    let shown = printed(&["realtime", "rdtsc"]);
    for line in shown.lines() {
        assert!(line.chars().count() <= 80 && line == line.trim_end(), "{line:?}");
    }
    assert_eq!(shown.matches("\nREALTIME ").count(), 1, "{shown}");
    for part in ["\nempty loop", " libc ", " vdso ", " syscall ", "\nrdtsc ", "Method:"] {
        assert!(shown.contains(part), "{part:?} is missing in\n{shown}");
    }
}

#[test]
fn every_batch_is_a_record() {
    let lines = printed(&["tai", "--route", "vdso", "--format", "ndjson"]);
    let records: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("is JSON")).collect();
    assert_eq!((&records[0]["record"], &records[0]["schema"]), (&"host".into(), &2.into()));
    let batches: Vec<&Value> =
        records.iter().filter(|record| record["record"] == "batch").collect();
    assert_eq!(batches.len(), records.len() - 1);
    let rounds = records[0]["method"]["rounds"][0].as_u64().expect("rounds");
    assert_eq!(batches.len() as u64, 2 * rounds, "a batch a path and round");
    for batch in &batches {
        for key in ["calls", "ns", "control_before_ns", "control_after_ns"] {
            assert!(batch[key].as_u64() > Some(0), "{key} in {batch}");
        }
        assert!(batch["accepted"].is_boolean() && batch["launch"] == 0, "{batch}");
    }
}

#[test]
fn the_page_is_one_html_document() {
    let page = printed(&["tai", "--format", "html"]);
    assert!(page.trim_start().to_ascii_lowercase().starts_with("<!doctype html>"));
    let (_, json) =
        page.split_once("<script type=\"application/json\" id=\"report\">").expect("data");
    let (json, rest) = json.split_once("</script>").expect("their end");
    let report: Value = serde_json::from_str(json).expect("the report");
    assert!(path(&report, "CLOCK_TAI", "vdso")["batches"].as_u64() > Some(0));
    assert!(rest.trim_end().ends_with("</html>"));
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
    assert!(refused(&["syscalls", "getppdi"]).contains("did you mean getppid?"));
    assert!(refused(&["syscalls", "read", "--route", "vdso"]).contains("by route syscall only"));
}

#[test]
fn instructions_are_in_the_report() {
    let report = json(&["boottime", "--route", "vdso", "--instructions"]);
    assert_eq!(report["instructions"]["rows"][0]["clock"], "CLOCK_BOOTTIME");
}

#[test]
fn names_that_do_not_exist_are_answered_with_those_that_do() {
    let said = refused(&["monotnic"]);
    assert!(
        said.contains("did you mean monotonic?") && said.contains("lfence_rdtsc")
            || std::env::consts::ARCH != "x86_64",
        "{said}"
    );
    let said = refused(&["tai", "--route", "vsdo"]);
    assert!(
        said.contains("did you mean vdso?") && said.contains("libc, vdso, syscall, tsc"),
        "{said}"
    );
    assert!(refused(&["rdtsc", "--route", "vdso"]).contains("cannot be read by vdso"));
    assert!(refused(&["tai", "--cpu", "4000"]).contains("cannot measure on CPU 4000"));
}

#[test]
fn saved_files_are_json_or_batches() {
    let directory = tempfile::tempdir().expect("make a temporary directory");
    for (name, records) in [("a.json", false), ("a.ndjson", true)] {
        let file = directory.path().join(name);
        fs::write(&file, "x".repeat(10_000_000)).expect("write what was there before");
        let shown = printed(&["tai", "--save", file.to_str().expect("UTF-8")]);
        assert!(shown.contains("TAI"), "is printed too: {shown}");
        let saved = fs::read_to_string(&file).expect("read what was saved");
        let first = if records { saved.lines().next().expect("a line") } else { &saved };
        let value: Value = serde_json::from_str(first).expect("is JSON");
        assert_eq!(value["schema"], 2, "{name}");
    }
    let file = directory.path().join("b.txt");
    assert_eq!(printed(&["tai", "-o", file.to_str().expect("UTF-8")]), "");
    assert!(fs::read_to_string(&file).expect("read the output").contains("TAI"));
}

#[test]
fn a_file_that_cannot_be_written_is_one_line() {
    assert!(refused(&["--save", "/nowhere/x.json"]).contains("cannot write to /nowhere/x.json"));
    for option in ["--save", "-o"] {
        let output = bench(&["tai", option, "/dev/full"]);
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.contains("/dev/full") && said.contains("no space left"), "{said}");
        assert!(text(&output.stdout).contains("TAI"), "what was measured is printed");
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let mut command = Command::new(clockscope());
    command.args(["bench", "--quick", "tai", "--format", "ndjson"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("run clockscope bench");
    let mut some = [0; 10];
    child.stdout.take().expect("is piped").read_exact(&mut some).expect("begins to print");
    let output = child.wait_with_output().expect("wait for it");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn without_pinning_it_measures_and_says_so() {
    let Some(program) = builds::c("confined", Link::Dynamic) else { return };
    let mut command = Command::new(program);
    command.args(["no-affinity", "exec"]).arg(clockscope());
    command.args(["bench", "--quick", "tai", "--format", "json"]).stdin(Stdio::null());
    let output = command.output().expect("run it confined");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("is JSON");
    assert_eq!(report["method"]["cpu"], Value::Null);
    let notes = report["notes"].as_array().expect("notes");
    assert!(
        notes.iter().any(|note| note.as_str().is_some_and(|note| note.contains("one CPU"))),
        "{notes:?}"
    );
}

/// What a launch claims and what `clockscope trace` counts are the same number.
#[test]
fn a_launch_makes_exactly_the_calls_that_it_claims() {
    let words = ["bench", "boottime", "--route", "libc,vdso", "--quick", "--as-launch", "0"];
    let command: Vec<_> = [clockscope().into_os_string()]
        .into_iter()
        .chain(words.map(std::ffi::OsString::from))
        .collect();
    let traced = trace_vdso(&command);
    assert_eq!(traced.code(), 0, "{traced:?}");
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
    let (made, in_batches) = (sum("path", "calls_made"), sum("batch", "calls"));
    assert!(made > in_batches && in_batches > 100_000, "{made} {in_batches}");
    // Each route asks the kernel once whether there is such a clock.
    let routes = 2;
    let key = ("clock_gettime".to_owned(), "CLOCK_BOOTTIME".to_owned());
    assert_eq!(traced.report().vdso_rows().get(&key), Some(&(made + routes)));
}
