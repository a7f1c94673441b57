//! Figures that reports compute from counts and times: prices, shares of processor time, and data that are too few for
//! a figure.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use crate::support::attaching::Attachment;
use crate::support::builds::{self, Link};
use crate::support::running::{Report, clockscope, trace_vdso, untraced};

/// The command `prices reads COARSE CPU PRECISE`; `None` without a compiler.
fn reads(coarse: u64, cpu: u64, precise: u64) -> Option<Vec<OsString>> {
    let program = builds::c("prices", Link::Dynamic)?;
    let numbers = [coarse, cpu, precise].map(|number| OsString::from(number.to_string()));
    Some([&words![program, "reads"][..], &numbers].concat())
}

/// The report as text, with single spaces.
fn text(command: &[OsString]) -> String {
    text_with(&[], command)
}

fn text_with(options: &[OsString], command: &[OsString]) -> String {
    let trace = words![clockscope(), "trace", "--via", "none"];
    let words = [&trace[..], options, &words!["--"], command].concat();
    let said = String::from_utf8(untraced(&words).stderr).expect("is text");
    said.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn of_reads<'a>(report: &'a Report, name: &str) -> &'a serde_json::Value {
    &report.field("clock_reads")[name]
}

#[test]
fn coarse_clocks_and_processor_time_have_no_price_on_a_slow_clocksource() {
    let Some(command) = reads(5_000_000, 100_000, 0) else { return };
    let report = trace_vdso(&command).report();
    assert_eq!(of_reads(&report, "reads"), 5_100_000);
    assert_eq!(of_reads(&report, "clocksource_reads"), 0);
    assert_eq!(of_reads(&report, "typical_hpet_ns"), 0);
    assert!(of_reads(&report, "same_tick_share").is_null(), "{report:?}");
    let text = text(&command);
    assert!(text.contains("5,100,000") && !text.contains("hpet"), "{text}");
    assert!(!text.contains("Same tick") && !text.contains("--clock coarse"), "{text}");
}

#[test]
fn only_the_reads_of_the_clocksource_are_priced_by_it() {
    let Some(command) = reads(3_000, 1_000, 20_000) else { return };
    let report = trace_vdso(&command).report();
    assert_eq!(of_reads(&report, "clocksource_reads"), 20_000);
    assert_eq!(of_reads(&report, "typical_hpet_ns"), 20_000 * 1_226);
    assert!(of_reads(&report, "same_tick_share").as_f64() > Some(0.0), "{report:?}");
    let text = text_with(&words!["--all"], &command);
    assert!(text.contains("Fallen back: typical on bare metal: 1.23 us a read on hpet"), "{text}");
}

#[test]
fn a_dozen_reads_have_no_price_and_no_advice() {
    for precise in [1, 3, 12] {
        let Some(command) = reads(0, 0, precise) else { return };
        let report = trace_vdso(&command).report();
        assert_eq!(of_reads(&report, "reads"), precise);
        assert_eq!(of_reads(&report, "time_ns"), 0, "{report:?}");
        assert_eq!(of_reads(&report, "too_few_timed"), true, "{report:?}");
        assert_eq!(report.field("vdso")[0]["time_uncertain"], true, "{report:?}");
        let text = text(&command);
        let verdicts = [": not worth a thought", "too few were timed to say what one costs"];
        assert!(verdicts.iter().any(|verdict| text.contains(verdict)), "{text}");
        assert!(!text.contains("in user space") && !text.contains("clock coarse"), "{text}");
    }
    let Some(none) = reads(0, 0, 0) else { return };
    assert!(text(&none).contains("Clock: no reads"), "{}", text(&none));
}

/// Attaches to the parent, lets it start children, and checks that their processor time is counted.
#[track_caller]
fn has_the_time_of_children(kinds: &[&str]) {
    let Some(program) = builds::c("prices", Link::Dynamic) else { return };
    let mut parent = Command::new(program)
        .arg("family")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("start a tracee");
    let pid = i32::try_from(parent.id()).expect("is a pid");
    let mut input = parent.stdin.take().expect("is piped");
    let mut output = BufReader::new(parent.stdout.take().expect("is piped")).lines();
    let attachment = Attachment::to(&[pid], &["--via", "none"]);
    let (mut cpu_us, mut calls) = (0, 0);
    for kind in kinds {
        input.write_all(format!("{kind}\n").as_bytes()).expect("ask for a child");
        let mut line = || output.next().expect("an answer").expect("is text");
        calls += line().rsplit(' ').next().and_then(|n| n.parse::<u64>().ok()).expect("a number");
        let said = line();
        cpu_us += said.rsplit(' ').next().and_then(|n| n.parse::<u64>().ok()).expect("a number");
    }
    let report = attachment.detach().report();
    drop(input);
    parent.wait().expect("wait for the tracee");
    let cpu_ns = report.number("cpu_ns");
    assert_eq!(of_reads(&report, "reads"), calls, "{report:?}");
    assert!(cpu_ns >= cpu_us * 1_000, "{cpu_ns} ns counted, {cpu_us} us used");
    let time_ns = of_reads(&report, "time_ns").as_u64().expect("is a number");
    assert!((1..cpu_ns).contains(&time_ns), "{time_ns} ns of reads in {cpu_ns} ns");
}

#[test]
fn the_processor_time_of_children_that_were_waited_for_is_counted() {
    has_the_time_of_children(&["wait", "wait", "wait"]);
}

#[test]
fn the_processor_time_of_children_that_live_is_counted() {
    has_the_time_of_children(&["live", "wait", "live"]);
}

/// The JSON report of a clockscope command, which writes to a file given after `options`.
fn json(options: &[&str], command: &[OsString]) -> serde_json::Value {
    let directory = tempfile::tempdir().expect("make a temporary directory");
    let file = directory.path().join("report.json");
    let mut clockscope = Command::new(clockscope());
    clockscope.args(options).args(["--format", "json", "-o"]).arg(&file).arg("--").args(command);
    let output = clockscope.output().expect("run clockscope");
    assert!(output.status.success(), "{output:?}");
    let report = std::fs::read_to_string(&file).expect("the report was written");
    serde_json::from_str(&report).expect("the report is JSON")
}

/// docs/run.md says: a computed slowdown is within 15 % of the measured one.
#[test]
fn what_a_cost_of_a_read_would_do_is_what_it_does() {
    let Some(command) = reads(3_000, 1_000, 20_000) else { return };
    let traced = json(&["trace", "--via", "none", "--what-if", "20us"], &command);
    let computed = traced["what_if"]["cpu_ns"].as_f64().expect("the reads were timed");
    let slow = json(&["run", "--clock", "slow", "--read-cost", "20us", "--stats"], &command);
    let measured = slow["cpu_ns"].as_f64().expect("is a number");
    let ratio = measured / computed;
    assert!((0.85..=1.15).contains(&ratio), "{measured} ns measured, {computed} ns computed");
    let times = traced["what_if"]["times_as_long"].as_f64().expect("is a number");
    let back = json(&["trace", "--via", "none", "--what-if", &format!("{times}x")], &command);
    let read_ps = back["what_if"]["read_ps"].as_f64().expect("there is such a cost");
    assert!(back["what_if"]["from_ratio"] == true && read_ps > 1e6, "{back}");
}

#[test]
fn the_question_what_if_is_a_cost_or_a_ratio() {
    for question in ["3", "1.2", "0.5x", "2ms", "x", "-1us"] {
        let option = format!("--what-if={question}");
        let output = untraced(&words![clockscope(), "trace", option, "--", "true"]);
        assert_eq!(output.status.code(), Some(2), "{question}: {output:?}");
    }
}
