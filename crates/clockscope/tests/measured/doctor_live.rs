//! `clockscope doctor` on this machine, as a user runs it: its verdict on a healthy machine, beside a tracer, and in a
//! process with fewer rights.
//!
//! Some of these tests need root, or a program of the system; without it each test is skipped with a message.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::support::clocksource;
use crate::support::placed::{as_nobody, for_everybody};
use crate::support::running::{self, rows};
use crate::support::{installed_or_skip, or_skip, root_or_skip, skip};

/// doctor's verdict on this machine as JSON, and the finished process.
struct Said {
    json: Value,
    output: Output,
}

/// Runs doctor below `starter`, which may be empty.
#[track_caller]
fn doctor(starter: &[OsString]) -> Said {
    let words = words![starter, running::clockscope(), "doctor", "--format", "json"];
    doctor_by(Command::new(&words[0]).args(&words[1..]))
}

#[track_caller]
fn doctor_by(command: &mut Command) -> Said {
    let output = running::with_input(command, b"");
    let json = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {output:?}"));
    Said { json, output }
}

impl Said {
    fn has(&self, label: &str) -> bool {
        rows(&self.json["labels"]).any(|one| one == label)
    }

    /// All evidence of a finding, in one text.
    fn evidence(&self, label: &str) -> String {
        let findings = rows(&self.json["findings"]).filter(|finding| finding["id"] == label);
        let lines = findings.flat_map(|finding| rows(&finding["evidence"]));
        lines.filter_map(|line| line["text"].as_str()).collect::<Vec<_>>().join("\n")
    }
}

/// Checks that doctor's verdict on this machine fits its clocksource.
#[track_caller]
fn assert_fits_the_clocksource(said: &Said) {
    let clocksource = clocksource::current();
    assert!(said.has(&format!("source:{clocksource}")), "{}", said.json["labels"]);
    if clocksource == "tsc" {
        assert_fast_and_well(said);
    } else if !clocksource::is_read_by_the_vdso(&clocksource) {
        assert_ne!(said.json["state"], "fast", "{}", said.json);
        assert_ne!(said.output.status.code(), Some(0));
    }
}

#[track_caller]
fn assert_fast_and_well(said: &Said) {
    assert_eq!(said.json["state"], "fast", "{}", said.json);
    for finding in rows(&said.json["findings"]) {
        let severity = finding["severity"].as_str();
        assert!(matches!(severity, Some("ok" | "note")), "{finding}");
    }
    assert_eq!(said.output.status.code(), Some(0));
}

#[test]
fn a_machine_that_reads_its_tsc_is_fast_and_well() {
    let said = doctor(&[]);
    assert_fits_the_clocksource(&said);
    let measured = &said.json["measured"];
    if clocksource::current() == "tsc" {
        assert!(said.has("state:fast"), "{}", said.json["labels"]);
        assert!(rows(&measured["reads"]).any(|read| read["falls_back"] == false), "{measured}");
    }
    assert!(said.output.stderr.is_empty(), "{:?}", said.output);
}

#[test]
fn without_rights_it_still_judges_and_says_what_it_could_not_read() {
    let Some(()) = root_or_skip() else { return };
    let directory = for_everybody(&[(&running::clockscope(), "clockscope", 0o755)]);
    let own = directory.path().join("clockscope");
    let doctor = ["doctor", "--format", "json"];
    let words = words![as_nobody(), "--bounding-set=-all", own, doctor];
    let said = doctor_by(Command::new(&words[0]).args(&words[1..]));
    assert_fits_the_clocksource(&said);
    let restricted = std::fs::read_to_string("/proc/sys/kernel/dmesg_restrict");
    if restricted.is_ok_and(|text| text.trim() == "1") {
        let unread = rows(&said.json["unread"]).find(|file| file["file"] == "dmesg");
        let why = unread.and_then(|file| file["why"].as_str()).unwrap_or_default();
        assert!(why.contains("not permitted") && why.contains("try as root"), "{}", said.json);
    }
}

#[test]
fn a_time_namespace_is_said() {
    let Some(()) = root_or_skip() else { return };
    if !Path::new("/proc/self/ns/time").exists() {
        return skip("the kernel has no time namespaces");
    }
    // The unsharing process stays outside of its time namespace; its child, the shell, is inside.
    let script = "\"$@\"; exit $?";
    let starter =
        words!["unshare", "--time", "--monotonic=86400", "--fork", "sh", "-c", script, "sh"];
    let said = doctor(&starter);
    assert!(said.has("in-time-namespace"), "{}", said.json["labels"]);
    assert!(said.evidence("in-time-namespace").contains("monotonic +86400 s"));
    assert_fits_the_clocksource(&said);
}

#[test]
fn a_tracer_of_this_process_is_said() {
    let Some(strace) = installed_or_skip(&["/usr/bin/strace"]) else { return };
    let said = doctor(&words![strace, "-f", "-o", "/dev/null", "-e", "trace=none"]);
    assert!(said.has("traced-by-ptrace"), "{}", said.json["labels"]);
}

/// Builds the library of `limits.c` with these of its limits, for `LD_PRELOAD`: it stands for limits that a program
/// inherits from the one that started it. `None` (a skip) without a C compiler.
fn preload(limits: &[&str]) -> Option<(tempfile::TempDir, PathBuf)> {
    let cc = installed_or_skip(&["/usr/bin/cc", "/usr/bin/gcc"])?;
    let directory = tempfile::tempdir().expect("make a temporary directory");
    let library = directory.path().join("limits.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/measured/doctor_live/limits.c");
    let mut command = Command::new(cc);
    command.args(["-shared", "-fPIC", source, "-o"]).arg(&library);
    let built = command.args(limits.iter().map(|limit| format!("-D{limit}"))).status();
    assert!(built.expect("run the compiler").success());
    Some((directory, library))
}

#[track_caller]
fn doctor_after(limits: &[&str]) -> Option<Said> {
    let (_directory, library) = preload(limits)?;
    let mut command = Command::new(running::clockscope());
    command.args(["doctor", "--format", "json"]).env("LD_PRELOAD", library);
    Some(doctor_by(&mut command))
}

#[test]
fn a_seccomp_filter_is_said() {
    let Some(said) = doctor_after(&["FILTER_ALL"]) else { return };
    assert!(said.has("seccomp-filter"), "{}", said.json["labels"]);
    assert_fits_the_clocksource(&said);
}

fn forbidding_or_skip() -> Option<bool> {
    or_skip(clockscope_sys::tsc::is_permitted(), "this kernel forbids no program the counter")
}

#[test]
fn a_process_that_may_not_read_the_tsc_says_so_and_measures_all_the_same() {
    let Some(_) = forbidding_or_skip() else { return };
    let Some(said) = doctor_after(&["DENY_TSC"]) else { return };
    assert!(said.has("tsc-denied-to-process"), "{}", said.json["labels"]);
    assert!(rows(&said.json["measured"]["reads"]).count() > 0);
    assert_fits_the_clocksource(&said);
}

#[test]
fn a_process_that_may_never_read_the_tsc_measures_nothing_and_does_not_die() {
    let Some(_) = forbidding_or_skip() else { return };
    let Some(said) = doctor_after(&["DENY_TSC", "KEEP_DENIED"]) else { return };
    assert!(said.has("tsc-denied-to-process"), "{}", said.json["labels"]);
    assert_eq!(rows(&said.json["measured"]["reads"]).count(), 0);
    let unmeasured = said.json["measured"]["unmeasured"].to_string();
    assert!(unmeasured.contains("may not read the TSC"), "{unmeasured}");
}
