//! Profiles and flame graphs, read by the tools that they are made for; and the checks of their files that `trace`
//! makes before the program starts.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::command::said_in;
use crate::support::installed_or_skip;
use crate::support::running::clockscope;
use crate::support::terminal::Terminal;
use clockscope_model::trace::TraceReport;
use clockscope_report::callers::pprof;

/// A report on a program that reads the clock in two functions, one of them inlined.
fn report() -> TraceReport {
    serde_json::from_str(include_str!("callers_formats/report.json")).expect("a report")
}

/// 2023-11-14 22:13:20 UTC.
const BEGAN_NS: u64 = 1_700_000_000_000_000_000;

fn pprof_of(go: &Path, folder: &Path, options: &[&str]) -> String {
    let profile = folder.join("clock.pb.gz");
    fs::write(&profile, pprof::render(&report(), BEGAN_NS + report().wall_ns).expect("a profile"))
        .expect("write it");
    let output = Command::new(go)
        .args(["tool", "pprof"])
        .args(options)
        .arg(&profile)
        .env("PPROF_TMPDIR", folder)
        .env("TZ", "UTC")
        .current_dir(folder)
        .output()
        .expect("run go tool pprof");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    String::from_utf8(output.stdout).expect("is text")
}

/// The numbers and the name of a line of `pprof -top`: flat, flat %, sum %, cum, cum %.
fn top_line<'a>(top: &'a str, name: &str) -> Vec<&'a str> {
    let line = top.lines().find(|line| line.contains(name));
    line.unwrap_or_else(|| panic!("no {name} in {top}")).split_whitespace().collect()
}

#[test]
fn go_tool_pprof_reads_the_profile() {
    let Some(go) = installed_or_skip(&["/usr/local/go/bin/go", "/usr/bin/go"]) else { return };
    let folder = tempfile::tempdir().expect("make a temporary directory");
    let top = pprof_of(&go, folder.path(), &["-top"]);
    assert!(top.contains("Type: calls"), "{top}");
    assert!(top.contains("Time: 2023-11-14 22:13:20 UTC"), "{top}");
    let numbers = |line: &[&str]| [line[0].to_owned(), line[3].to_owned()];
    assert_eq!(numbers(&top_line(&top, "clock_gettime(MONOTONIC)")), ["1000", "1000"]);
    assert_eq!(numbers(&top_line(&top, "receive")), ["0", "750"]);
    assert_eq!(numbers(&top_line(&top, "stamp")), ["0", "250"]);
    assert_eq!(numbers(&top_line(&top, "main")), ["0", "1000"]);
    let inlined = top_line(&top, "stamp");
    assert_eq!(inlined.last(), Some(&"(inline)"), "{top}");
    let time = pprof_of(&go, folder.path(), &["-top", "-sample_index=time"]);
    assert_eq!(top_line(&time, "receive")[3], "15us", "{time}");
    let lines = pprof_of(&go, folder.path(), &["-top", "-lines"]);
    assert!(lines.contains("/src/server.c:88"), "{lines}");
    let tags = pprof_of(&go, folder.path(), &["-tags"]);
    for tag in ["command", "server", "via", "vdso", "clock", "CLOCK_MONOTONIC", "pid"] {
        assert!(tags.contains(tag), "{tag} in {tags}");
    }
}

#[test]
fn a_profile_is_written_to_its_file() {
    let folder = tempfile::tempdir().expect("make a temporary directory");
    let options = ["--via", "none", "--format", "pprof", "-o", "clock.pb.gz", "--", "true"];
    let said = said_in(folder.path(), &[&["trace"], &options[..]].concat(), "");
    assert_eq!(said.code, Some(0), "{said:?}");
    let profile = fs::read(folder.path().join("clock.pb.gz")).expect("a profile");
    assert!(profile.starts_with(b"\x1f\x8b"), "is no gzip");
}

#[test]
fn a_profile_is_not_written_to_a_terminal() {
    let folder = tempfile::tempdir().expect("make a temporary directory");
    let started = folder.path().join("started");
    let command = format!(
        "{} trace --via none --format pprof -- touch {}",
        clockscope().display(),
        started.display()
    );
    let Some(mut terminal) = Terminal::start(&command) else { return };
    terminal.wait_for("try -o FILE");
    assert_eq!(terminal.finish(), 2);
    assert!(!started.exists());
}
