//! `clockscope compare` as a user runs it.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use clockscope_model::compare::{CompareReport, Verdict};
use clockscope_model::trace_compare::{CostChange, TraceCompareReport};

fn fixtures(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(folder)
}

/// Runs `clockscope compare` in `directory`.
fn compare_in(directory: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_clockscope"))
        .arg("compare")
        .args(args)
        .current_dir(directory)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Runs it with text on standard input.
fn compare_fed(directory: &Path, args: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_clockscope"))
        .arg("compare")
        .args(args)
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn report_of(directory: &Path, args: &[&str]) -> CompareReport {
    let output = compare_in(directory, &[args, &["--format", "json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Each output of ministat 20150715 with the command behind it.
const MINISTAT: [(&str, &str); 20] = [
    ("c1_up", "-w 74 c1_up_gtod.txt c1_up_poor.txt c1_up_realtime.txt c1_up_second.txt"),
    ("c1_up_s", "-s -w 60 c1_up_gtod.txt c1_up_poor.txt"),
    ("c1_up_n", "-n c1_up_gtod.txt c1_up_poor.txt"),
    ("c1_smp", "-A c1_smp_gtod.txt c1_smp_poor.txt c1_smp_realtime.txt c1_smp_second.txt"),
    ("c2_ab_c80", "-A -c 80 c2_vdso_a.txt c2_vdso_b.txt"),
    ("c2_ab_c90", "-A -c 90 c2_vdso_a.txt c2_vdso_b.txt"),
    ("c2_ab_c95", "-A -c 95 c2_vdso_a.txt c2_vdso_b.txt"),
    ("c2_ab_c98", "-A -c 98 c2_vdso_a.txt c2_vdso_b.txt"),
    ("c2_ab_c99", "-A -c 99 c2_vdso_a.txt c2_vdso_b.txt"),
    ("c2_ab_c99.5", "-A -c 99.5 c2_vdso_a.txt c2_vdso_b.txt"),
    ("c2_plot", "-w 74 c2_vdso_a.txt c2_vdso_b.txt c2_syscall.txt"),
    ("c2_one", "-w 40 c2_syscall.txt"),
    ("c2_cols", "-A -C 2 -d , c2_cols.csv c2_cols.csv"),
    ("c3_const", "-w 40 c3_const.txt c3_const.txt"),
    ("c3_const_three", "-w 40 c3_const.txt c3_three.txt"),
    ("c3_bigmean", "-w 40 c3_bigmean.txt c3_bigmean2.txt"),
    ("c3_inf_df", "-A c3_n60a.txt c3_n60b.txt"),
    ("c3_two", "c3_two.txt"),
    ("c3_bad", "c3_bad.txt"),
    ("c3_badconf", "-c 97 c3_three.txt"),
];

#[test]
fn ministats_output_comes_out_byte_for_byte() {
    let directory = fixtures("ministat");
    for (name, args) in MINISTAT {
        let args: Vec<&str> = ["--ministat"].into_iter().chain(args.split(' ')).collect();
        let output = compare_in(&directory, &args);
        // One of the two is empty.
        let mut found = [output.stdout, output.stderr].concat();
        found.extend(format!("exit {}\n", output.status.code().unwrap()).bytes());
        let expected = fs::read(directory.join(format!("{name}.out"))).unwrap();
        assert_eq!(text(&found), text(&expected), "{name}");
    }
    let outputs = fs::read_dir(&directory).unwrap().filter(|entry| {
        entry.as_ref().unwrap().path().extension().is_some_and(|extension| extension == "out")
    });
    assert_eq!(outputs.count(), MINISTAT.len(), "each output is tried");
}

#[test]
fn ministat_reads_standard_input_and_ends_its_plot_at_the_height_of_the_last_set() {
    let directory = fixtures("ministat");
    let output = compare_fed(&directory, &["--ministat", "-A", "-"], "1\n2 # two\n\n3\n");
    assert_eq!(
        text(&output.stdout),
        "x <stdin>\n    N           Min           Max        Median           Avg        Stddev\n\
         x   3             1             3             2             2             1\n"
    );
    let sets = ["--ministat", "-w", "74", "c2_syscall.txt", "c2_vdso_b.txt", "c2_vdso_a.txt"];
    let plot = text(&compare_in(&directory, &sets).stdout);
    assert!(plot.lines().filter(|line| line.starts_with('|')).count() >= 25, "{plot}");
}

#[test]
fn the_reference_values_are_in_the_json() {
    let directory = fixtures("ministat");
    let report = report_of(&directory, &["c2_vdso_a.txt", "c2_vdso_b.txt"]);
    let comparison = &report.comparisons[0];
    assert_eq!(comparison.u, 356.0);
    assert_eq!(format!("{:.7}", comparison.u_p), "0.0472206");
    assert_eq!(format!("{:.2}", comparison.shift), "0.15");
    assert_eq!(format!("{:.4}", comparison.cliff_delta), "0.3510");
    assert_eq!(format!("{:.6}", comparison.welch_t.unwrap()), "-0.647746");
    let base = &report.sets[0];
    assert_eq!((base.median_ci_low, base.median_ci_high), (21.5, 21.71));
    assert_eq!(base.outliers, 1);

    let report = report_of(&directory, &["c1_up_gtod.txt", "c1_up_realtime.txt"]);
    assert_eq!(format!("{:.3}", report.comparisons[0].u_p), "0.378");
    assert!(report.comparisons[0].u_exact);
    let report = report_of(&directory, &["c3_bigmean.txt", "c3_bigmean2.txt"]);
    assert_eq!(format!("{:.7}", report.comparisons[0].u_p), "0.0021645");
    assert_eq!(format!("{:.6}", report.sets[0].sd), "1.870829");
}

#[test]
fn verdicts_are_one_sentence_with_a_plot_that_fits_80_columns() {
    let directory = fixtures("ministat");
    let cases = [
        ("c1_up_gtod.txt c1_up_poor.txt", "c1_up_poor.txt is faster than c1_up_gtod.txt: -60.1 %"),
        ("c1_up_poor.txt c1_up_gtod.txt", "c1_up_gtod.txt is slower than c1_up_poor.txt: +151 %"),
        ("c1_up_gtod.txt c1_up_realtime.txt", "No difference proven between c1_up_realtime.txt"),
        ("c2_vdso_a.txt c2_vdso_b.txt", "about 140 more values each would tell"),
        ("c3_bigmean.txt c3_bigmean2.txt", "less than the 1 % that matters"),
        ("c3_two.txt c3_three.txt", "each needs at least 2 more"),
        ("c3_const.txt c3_const.txt", "(no plot: all values are equal)"),
        ("c3_const.txt c3_const.txt", "Note: All values of c3_const.txt are equal"),
        ("c2_syscall.txt", "nothing is compared"),
    ];
    for (files, expected) in cases {
        let output = compare_in(&directory, &files.split(' ').collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(0), "{files}");
        let printed = text(&output.stdout);
        assert!(printed.lines().all(|line| line.len() <= 80), "{printed}");
        let words = printed.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(expected), "{printed}");
    }
}

#[test]
fn bench_files_are_compared_path_by_path() {
    let directory = fixtures("bench");
    let short = text(&compare_in(&directory, &["before.json", "after.json"]).stdout);
    let rows: Vec<&str> = short.lines().skip(3).take(3).collect();
    assert!(rows[0].ends_with("faster") && rows[1].ends_with("slower"), "{short}");
    assert_eq!(rows[2], "5 others: no change found (--all shows them)");
    assert!(!short.contains("CLOCK_"), "one spelling of each name: {short}");
    let output = compare_in(&directory, &["--all", "before.json", "after.json"]);
    let printed = text(&output.stdout);
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
    let report = report_of(&directory, &["before.json", "before.json"]);
    assert!(report.comparisons.iter().all(|c| c.verdict == Verdict::Same), "{report:?}");
    assert!(report.conclusion.starts_with("No change proven in 8 paths: 8 same."));
    let three = report_of(&directory, &["before.json", "before.json", "after.json"]);
    assert_eq!(three.comparisons.len(), 15, "each against the first");
}

#[test]
fn two_traces_are_compared() {
    let directory = fixtures("traces");
    let output = compare_in(&directory, &["old.json", "new.json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let printed = text(&output.stdout);
    assert!(printed.lines().all(|line| line.len() <= 80), "{printed}");
    let first = "\nA clock read costs 1.23 us instead of 24 ns: 51 times as much (38 to 79). ";
    assert!(printed.contains(first), "{printed}");
    assert!(printed.contains("\nHost: clocksource: tsc, then hpet.\n"), "{printed}");
    let json = compare_in(&directory, &["--format", "json", "old.json", "new.json"]);
    let report: TraceCompareReport = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((report.schema, report.rows.len()), (1, 3));
    assert_eq!(report.rows[0].cost_change, CostChange::Dearer);
    assert_eq!(report.callers.unwrap().len(), 3, "each is found again at its new address");
    for (args, status) in [
        ("--fail-if slower old.json new.json", 1),
        ("--fail-if slower new.json old.json", 0),
        ("--fail-if changed new.json old.json", 1),
        ("--fail-if changed old.json old.json", 0),
        ("--fail-if slower --min-effect 6000 old.json new.json", 0),
    ] {
        let output = compare_in(&directory, &args.split(' ').collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(status), "{args}");
    }
}

#[test]
fn what_cannot_be_said_of_traces_is_one_line() {
    let directory = fixtures("traces");
    for (args, expected) in [
        ("old.json", "is one report of clockscope trace, and two are compared"),
        ("old.json new.json old.json", "these are 3 reports of clockscope trace, and two are"),
        ("old.json ../bench/before.json", "compare files of one kind"),
        ("old.json ../ministat/c2_syscall.txt", "compare files of one kind"),
        ("--ministat old.json new.json", "ministat: Invalid data on line 1 in old.json"),
        ("-c 99 old.json new.json", "-c is not for reports of clockscope trace"),
        ("--unit ns old.json new.json", "--unit is not for reports of clockscope trace"),
        ("--min-effect=-1 old.json new.json", "is not a share in percent; try 10"),
    ] {
        let output = compare_in(&directory, &args.split(' ').collect::<Vec<_>>());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args}: {said}");
        assert!(said.contains(expected) && said.lines().count() == 1, "{args}: {said}");
        assert_eq!(text(&output.stdout), "", "{args}");
    }
}

#[test]
fn exit_status_one_is_for_what_was_asked_to_fail() {
    let bench = fixtures("bench");
    let ministat = fixtures("ministat");
    let cases: [(&Path, &str, i32); 8] = [
        (&bench, "before.json after.json", 0),
        (&bench, "--fail-if slower before.json after.json", 1),
        (&bench, "--fail-if changed before.json after.json", 1),
        (&bench, "--fail-if changed before.json before.json", 0),
        (&bench, "--fail-if slower --min-effect 20 before.json after.json", 0),
        (&ministat, "--fail-if slower c1_up_gtod.txt c1_up_poor.txt", 0),
        (&ministat, "--fail-if changed c1_up_gtod.txt c1_up_poor.txt", 1),
        (&ministat, "--fail-if slower --higher-is-better c1_up_gtod.txt c1_up_poor.txt", 1),
    ];
    for (directory, args, status) in cases {
        let output = compare_in(directory, &args.split(' ').collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(status), "{args}");
    }
}

/// A directory with one file of each kind of bad input, and a good one.
fn bad_files() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let bench = fs::read(fixtures("bench").join("before.json")).unwrap();
    let newer = text(&bench).replacen("\"schema\": 2", "\"schema\": 3", 1);
    let files: [(&str, &[u8]); 13] = [
        ("good", b"1\n2\n3\n4\n5\n"),
        ("words", b"hello world\n1\n"),
        ("nan", b"1\nNaN\n"),
        ("infinite", b"1\n2\n-inf\n"),
        ("huge", b"1e200\n"),
        ("empty", b""),
        ("comments", b"# 1\n\n"),
        ("cut.json", &bench[..5000]),
        ("newer.json", newer.as_bytes()),
        ("bench.json", &bench),
        ("other.json", b"{\"results\": []}\n"),
        ("binary", b"\x7fELF\x02\x01\0\0\0"),
        ("not_utf_8", b"1\n\xff\xfe\n"),
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
    let cases = [
        ("good words", "cannot use words: line 1: \"hello\" is not a number"),
        ("good nan", "cannot use nan: line 2: \"NaN\" cannot be compared"),
        ("good infinite", "line 3: \"-inf\" cannot be compared"),
        ("good huge", "line 1: \"1e200\" cannot be compared"),
        ("empty good", "cannot use empty: it is empty"),
        ("good comments", "it has no numbers"),
        ("good missing", "cannot read missing: no such file"),
        ("good folder", "cannot read folder: is a directory"),
        ("good binary", "it is binary"),
        ("good not_utf_8", "line 2: "),
        ("good cut.json", "the JSON ends in the middle, at line "),
        ("good newer.json", "it has schema 3, and this clockscope understands schema 2 only"),
        ("good other.json", "JSON, but not of clockscope bench"),
        ("good bench.json", "compare files of one kind"),
        ("- -", "standard input (-) is named twice"),
        ("--ministat - -", "standard input (-) is named twice"),
        ("-C 3 good good", "no line has a column 3"),
        ("-C 0 good good", "there is no column 0"),
        ("--min-effect=-1 good good", "--min-effect -1 is not a share"),
        ("--min-effect nan good good", "--min-effect NaN is not a share"),
        ("-c 101 good good", "-c 101 is no confidence"),
        ("-c sure good good", "-c sure is no confidence"),
        ("-w 3 good good", "a plot of 3 columns shows nothing"),
        ("-w 9999999999 good good", "fits nowhere"),
        ("--ministat -w 9999999999 good", "fits nowhere"),
        ("--ministat -w 1 good", "a plot needs at least 2 columns"),
        ("--ministat missing", "cannot read missing: no such file"),
        ("-o missing/x good good", "cannot write to missing/x"),
    ];
    for (args, expected) in cases {
        let output = compare_in(directory.path(), &args.split(' ').collect::<Vec<_>>());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args}: {said}");
        assert!(said.starts_with("clockscope: ") && said.contains(expected), "{args}: {said}");
        assert_eq!((said.lines().count(), output.stdout.len()), (1, 0), "{args}: {said}");
    }
}

#[test]
fn a_full_disk_is_said() {
    let directory = bad_files();
    for args in ["-o /dev/full good good", "--ministat -o /dev/full good"] {
        let output = compare_in(directory.path(), &args.split(' ').collect::<Vec<_>>());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("no space left on device"), "{said}");
    }
}

#[test]
fn few_values_are_a_verdict_not_an_error() {
    let directory = bad_files();
    for input in ["7\n", "7\n8\n"] {
        let output = compare_fed(directory.path(), &["good", "-", "--format", "json"], input);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let report: CompareReport = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report.comparisons[0].verdict, Verdict::TooFew);
        assert!(report.comparisons[0].more_needed.unwrap() > 0);
        assert!(report.conclusion.contains("standard input has "), "{}", report.conclusion);
    }
}

#[test]
fn columns_units_and_directions_are_used() {
    let directory = fixtures("ministat");
    let args = ["-C", "2", "-d", ",", "--unit", "ns", "c2_cols.csv", "c2_cols.csv"];
    let report = report_of(&directory, &args);
    assert_eq!((report.sets[0].n, report.unit.as_str()), (31, "ns"));
    let args = ["--higher-is-better", "--unit", "op/s", "c1_up_gtod.txt", "c1_up_poor.txt"];
    let report = report_of(&directory, &args);
    assert!(report.conclusion.contains(" is worse than "), "{}", report.conclusion);
    let args = ["-c", "99.5", "c1_up_gtod.txt", "c1_up_poor.txt"];
    assert!(report_of(&directory, &args).conclusion.contains("99.5 % interval"));
}

#[test]
fn the_result_can_be_written_to_a_file() {
    let directory = bad_files();
    let output = compare_in(directory.path(), &["-o", "out.txt", "good", "good"]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0));
    let written = fs::read_to_string(directory.path().join("out.txt")).unwrap();
    assert!(written.contains("No difference proven"), "{written}");
}

/// 200,000 numbers take a few times as long as 50,000, not sixteen times. In user time by the
/// kernel's account, the least of three, so that a busy machine does not disturb.
#[test]
fn time_does_not_grow_with_the_square() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, count: u64, shift: u64| {
        let number = |index: u64| ((index * 7919 + shift) % 99_991).to_string() + "\n";
        fs::write(directory.path().join(name), (0..count).map(number).collect::<String>()).unwrap();
    };
    write("few_a", 50_000, 0);
    write("few_b", 50_000, 40);
    write("many_a", 200_000, 0);
    write("many_b", 200_000, 40);
    let user_seconds = |a: &str, b: &str| {
        let script = format!(
            "'{}' compare {a} {b} > /dev/null && times | tail -n 1 | cut -d ' ' -f 1",
            env!("CARGO_BIN_EXE_clockscope")
        );
        let run = || {
            let output = Command::new("sh")
                .args(["-c", &script])
                .current_dir(directory.path())
                .output()
                .unwrap();
            let printed = text(&output.stdout);
            let (minutes, seconds) = printed.trim().trim_end_matches('s').split_once('m').unwrap();
            minutes.parse::<f64>().unwrap() * 60.0 + seconds.parse::<f64>().unwrap()
        };
        [run(), run(), run()].into_iter().fold(f64::INFINITY, f64::min)
    };
    let (few, many) = (user_seconds("few_a", "few_b"), user_seconds("many_a", "many_b"));
    assert!(many < few.max(0.02) * 9.0, "{few} s, then {many} s");
}
