//! `clockscope compare` as a user runs it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::command::{self, Said};
use clockscope_model::compare::{CompareReport, Verdict};

fn fixtures(folder: &str) -> PathBuf {
    command::root().join("fixtures").join(folder)
}

/// Runs `clockscope compare` in `directory`, with a line of words between blanks.
fn compare(directory: &Path, line: &str) -> Said {
    let words: Vec<&str> = ["compare"].into_iter().chain(line.split(' ')).collect();
    command::said_in(directory, &words, "")
}

fn report_of(directory: &Path, line: &str) -> CompareReport {
    let printed = compare(directory, &format!("--format json {line}")).printed();
    serde_json::from_str(&printed).unwrap()
}

/// Each output of ministat 20150715 with the command behind it.
const MINISTAT: &str = include_str!("compare_command/ministat.txt");

#[test]
fn ministats_output_comes_out_byte_for_byte() {
    let directory = fixtures("ministat");
    for row in MINISTAT.lines() {
        let (name, args) = row.split_once(": ").expect(row);
        let output = compare(&directory, &format!("--ministat {args}"));
        // Either standard output or standard error is empty.
        let found = format!("{}{}exit {}\n", output.stdout, output.stderr, output.code.unwrap());
        let expected = fs::read_to_string(directory.join(format!("{name}.out"))).unwrap();
        assert_eq!(found, expected, "{name}");
    }
    let outputs = fs::read_dir(&directory).unwrap().filter(|entry| {
        entry.as_ref().unwrap().path().extension().is_some_and(|extension| extension == "out")
    });
    assert_eq!(outputs.count(), MINISTAT.lines().count(), "each output is tried");
}

#[test]
fn ministat_reads_standard_input() {
    let directory = fixtures("ministat");
    let output =
        command::said_in(&directory, &["compare", "--ministat", "-A", "-"], "1\n2 # two\n\n3\n");
    assert_eq!(
        output.stdout,
        "x <stdin>\n    N           Min           Max        Median           Avg        Stddev\n\
         x   3             1             3             2             2             1\n"
    );
}

#[test]
fn bench_files_are_compared_path_by_path() {
    let directory = fixtures("bench");
    let short = compare(&directory, "before.json after.json").stdout;
    let rows: Vec<&str> = short.lines().skip(3).take(3).collect();
    assert!(rows[0].ends_with("faster") && rows[1].ends_with("slower"), "{short}");
    assert_eq!(rows[2], "5 others: no change found (--all shows them)");
    assert!(!short.contains("CLOCK_"), "one spelling of each name: {short}");
    let printed = compare(&directory, "--all before.json after.json").stdout;
    assert!(printed.lines().all(|line| line.len() <= 80), "{printed}");
    let rows: Vec<&str> = printed.lines().skip(3).take(7).collect();
    assert!(rows[0].starts_with("getppid by syscall") && rows[0].ends_with("faster"), "{printed}");
    assert!(rows[1].starts_with("MONOTONIC by vdso") && rows[1].ends_with("slower"), "{printed}");
    assert!(rows[2].starts_with("REALTIME by syscall") && rows[2].ends_with("not proven"));
    assert!(rows[3..].iter().all(|row| row.ends_with("same")), "{printed}");
    for expected in [
        "Host: kernel: 6.1.0-28-amd64, then 6.1.0-29-amd64.",
        "Host: kernel command line: mitigations=off the second time only.",
        "The launches of REALTIME by syscall disagree",
        "Only in before.json: TAI by vdso.",
        "\n2 of 7 paths changed: 1 slower (MONOTONIC by vdso +12.2 %), 1 faster",
    ] {
        assert!(printed.contains(expected), "{expected} is not in {printed}");
    }
    let report = report_of(&directory, "before.json before.json");
    assert!(report.rows.iter().all(|row| row.verdict == Verdict::Same), "{report:?}");
    assert!(report.conclusion.starts_with("No change proven in 8 paths: 8 same."));
}

#[test]
fn two_traces_are_compared() {
    let directory = fixtures("traces");
    let printed = compare(&directory, "old.json new.json").printed();
    assert!(printed.lines().all(|line| line.len() <= 80), "{printed}");
    let row = printed.lines().find(|line| line.starts_with("clock_gettime(MONOTONIC) ")).unwrap();
    assert!(row.contains("  23.5 ns  1.23 us  ") && row.ends_with("  slower"), "{printed}");
    assert!(printed.contains("\nHost: clocksource: tsc, then hpet.\n"), "{printed}");
    let report = report_of(&directory, "old.json new.json");
    assert_eq!((report.schema, report.rows.len()), (2, 4), "a read on average, and each function");
    assert!(report.rows.iter().all(|row| row.verdict == Verdict::Slower), "{report:?}");
}

#[test]
fn exit_status_one_is_for_what_was_asked_to_fail() {
    for (folder, args, status) in [
        ("bench", "before.json after.json", 0),
        ("bench", "--fail-if slower before.json after.json", 1),
        ("bench", "--fail-if changed before.json after.json", 1),
        ("bench", "--fail-if changed before.json before.json", 0),
        ("bench", "--fail-if slower --min-effect 20 before.json after.json", 0),
        ("traces", "--fail-if slower old.json new.json", 1),
        ("traces", "--fail-if slower new.json old.json", 0),
        ("traces", "--fail-if changed new.json old.json", 1),
        ("traces", "--fail-if changed old.json old.json", 0),
        ("traces", "--fail-if slower --min-effect 9000 old.json new.json", 0),
    ] {
        assert_eq!(compare(&fixtures(folder), args).code, Some(status), "{args}");
    }
}

/// A directory with one file of each kind of bad input, and a good one.
fn bad_files() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let bench = fs::read_to_string(fixtures("bench").join("before.json")).unwrap();
    let newer = bench.replacen("\"schema\": 2", "\"schema\": 3", 1);
    let files: [(&str, &[u8]); 8] = [
        ("good", b"1\n2\n3\n4\n5\n"),
        ("nan", b"1\nNaN\n"),
        ("huge", b"1\n2\n1e200\n"),
        ("empty", b""),
        ("cut.json", &bench.as_bytes()[..5000]),
        ("newer.json", newer.as_bytes()),
        ("bench.json", bench.as_bytes()),
        ("other.json", b"{\"results\": []}\n"),
    ];
    for (name, bytes) in files {
        fs::write(directory.path().join(name), bytes).unwrap();
    }
    fs::create_dir(directory.path().join("folder")).unwrap();
    directory
}

#[test]
fn bad_input_is_one_line_and_exit_status_2() {
    let directory = bad_files();
    let trace = fixtures("traces").join("old.json").display().to_string();
    for row in include_str!("compare_command/refused.txt").lines() {
        let (args, expected) = row.split_once(" | ").expect(row);
        compare(directory.path(), &args.replace("TRACE", &trace)).is_refused(2, &[expected]);
    }
}

#[test]
fn what_has_no_square_is_no_number_to_ministat() {
    let directory = bad_files();
    for (file, line) in [("nan", 2), ("huge", 3), ("bench.json", 1)] {
        let output = compare(directory.path(), &format!("--ministat {file}"));
        let expected = format!("ministat: Invalid data on line {line} in {file}\n");
        assert_eq!((output.code, output.stderr), (Some(2), expected));
    }
}
