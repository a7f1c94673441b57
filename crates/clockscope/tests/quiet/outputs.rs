//! The output of each subcommand with a report: to a file, to a full disk, to a reader that goes away.

use std::fs;
use std::io::Read as _;
use std::process::{Child, Command, Stdio};

use crate::support::command::{Said, root, said_in};

/// Commands with a report, words in the report, and whether the exit status depends on the findings.
const REPORTS: [(&str, &str, bool); 8] = [
    ("bench --quick tai", "TAI", false),
    ("compare fixtures/bench/before.json fixtures/bench/before.json", "No change proven", false),
    ("compare --ministat fixtures/ministat/c3_three.txt", "Stddev", false),
    ("doctor --root fixtures/doctor-cases/vbox-seed-deb7-3.2", "slow: clocksource", true),
    ("run --stats --clock kernel true", "Clock: ", false),
    ("trace --via none true", "Clock: ", false),
    ("view fixtures/reports/bench.json", "<!DOCTYPE html>", false),
    ("wrongness tai --time 1", "TAI", true),
];

fn said(line: &str, more: &[&str]) -> Said {
    let words: Vec<&str> = line.split(' ').collect();
    said_in(&root(), &[&words[..1], more, &words[1..]].concat(), "")
}

#[test]
fn a_report_goes_to_a_file_and_nowhere_else() {
    let folder = tempfile::tempdir().expect("make a temporary directory");
    let file = folder.path().join("report");
    for (line, words, has_status) in REPORTS {
        fs::write(&file, "x".repeat(1_000_000)).expect("write what was there before");
        let said = said(line, &["-o", file.to_str().expect("UTF-8")]);
        assert!(said.code == Some(0) || has_status && said.code == Some(1), "{line}: {said:?}");
        assert_eq!((&*said.stdout, &*said.stderr), ("", ""), "{line}");
        let report = fs::read_to_string(&file).expect("read the report");
        assert!(report.contains(words) && !report.ends_with('x'), "{line}: {report}");
    }
}

#[test]
fn a_full_disk_is_said_in_one_line_and_the_report_of_a_program_is_not_lost() {
    for (line, _, _) in REPORTS {
        let said = said(line, &["-o", "/dev/full"]);
        let runs_program = line.ends_with(" true");
        let wanted = match line.split(' ').next() {
            _ if runs_program => 125,
            Some("doctor") => 3,
            _ => 2,
        };
        assert_eq!(said.code, Some(wanted), "{line}: {said:?}");
        let is_told = said.stderr.starts_with("clockscope: ");
        // The program has run once and for all: its report follows.
        let lines = if runs_program { 4..usize::MAX } else { 1..2 };
        let is_told = is_told && lines.contains(&said.stderr.lines().count());
        assert!(is_told && said.stderr.contains("no space left on device"), "{line}: {said:?}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let start = |line: &str| -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_clockscope"));
        command.args(line.split(' ')).current_dir(root()).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("run clockscope")
    };
    let vdso = "vdso --file fixtures/vdso/x86_64-6.18.so";
    let json = "vdso --format=json --file fixtures/vdso/x86_64-6.18.so";
    let printed = REPORTS.map(|row| row.0).into_iter().filter(|line| !line.ends_with(" true"));
    for line in printed.chain([vdso, json]) {
        let mut child = start(line);
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("wait for clockscope");
        assert!(output.stderr.is_empty(), "{line}: {output:?}");
        assert!(matches!(output.status.code(), Some(0 | 1)), "{line}: {output:?}");
    }
    // The reader goes away in the middle of the report.
    let mut child = start("bench --quick tai --format json");
    let mut stdout = child.stdout.take().expect("is piped");
    stdout.read_exact(&mut [0; 10]).expect("begins to print");
    drop(stdout);
    let output = child.wait_with_output().expect("wait for clockscope");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}
