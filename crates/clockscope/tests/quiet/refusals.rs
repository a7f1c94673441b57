//! Refused command lines: each gets one line and an exit status.

use std::env::consts::ARCH;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Command, Stdio};

use crate::support::command::Said;
use crate::support::placed;

/// The command line in shell quoting, the exit status, and the message behind `clockscope: `.
const TABLE: &str = include_str!("refusals.txt");

/// Runs clockscope in an empty directory, which must stay empty.
fn clockscope(words: &[OsString]) -> Said {
    let nowhere = tempfile::tempdir().expect("make a temporary directory");
    let mut command = Command::new(env!("CARGO_BIN_EXE_clockscope"));
    command.args(words).current_dir(&nowhere).stdin(Stdio::null());
    let said = Said::of(command.output().expect("run clockscope"));
    let left = nowhere.path().read_dir().expect("list the directory").count();
    assert_eq!(left, 0, "{words:?}: a file is made, or the program has started");
    said
}

/// Words between blanks; a quoted word may have blanks in it, or be empty.
fn words(line: &str) -> Vec<OsString> {
    let mut words = Vec::new();
    for (index, part) in line.split('\'').enumerate() {
        if index % 2 == 1 {
            words.push(part.into());
        } else {
            words.extend(part.split_whitespace().map(OsString::from));
        }
    }
    words
}

/// The message on this architecture for a line of the table with message `said`.
fn said_here(line: &str, said: &str) -> String {
    let ways = ["--via sites", "--via both"];
    match ways.into_iter().find(|way| line.contains(way)) {
        Some(way) if ARCH == "aarch64" && !line.contains("-p ") => {
            format!("{way}: on arm64 no code in the program counts system calls; try --via bpf")
        }
        _ if ARCH == "aarch64" => said.replace("rdtsc", "cntvct_el0"),
        _ => said.to_owned(),
    }
}

#[test]
fn what_is_refused_is_refused_in_one_line() {
    let mut complaints = Vec::new();
    let rows: Vec<&str> = TABLE.lines().filter(|row| !row.is_empty()).collect();
    for row in &rows {
        let [line, status, said] = row.splitn(3, " | ").collect::<Vec<_>>()[..] else {
            panic!("not a row: {row}")
        };
        let output = clockscope(&words(line));
        let is_right = output.code == status.parse().ok()
            && output.stderr == format!("clockscope: {}\n", said_here(line, said))
            && output.stdout.is_empty();
        if !is_right {
            complaints.push(format!("{line}: {output:?}"));
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    assert!(rows.len() > 50);
}

#[test]
fn only_a_name_that_does_not_exist_is_taken_for_a_program() {
    let folder = tempfile::tempdir().expect("make a temporary directory");
    for name in ["getppid", "tool"] {
        placed::script("#!/bin/sh\n", &folder.path().join(name), 0o755);
    }
    for (line, said) in [
        ("bench getppid --cpu 99999", "cannot measure on CPU 99999; this process may use "),
        ("bench tool", "bench measures clocks and system calls, no programs"),
        ("bench monotnic", "no clock is called \"monotnic\"; did you mean monotonic? there are "),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_clockscope"));
        command.args(words(line)).env("PATH", folder.path());
        let Said { code, stderr, .. } = Said::of(command.output().expect("run clockscope"));
        assert_eq!(code, Some(2), "{line}: {stderr}");
        assert!(stderr.starts_with(&format!("clockscope: {said}")), "{line}: {stderr}");
    }
}

#[test]
fn words_that_are_no_text_are_refused_like_others() {
    let strange = OsStr::from_bytes(b"tr\xffce\x1b[31m\n").to_owned();
    for (line, said) in [
        (words![strange], "unrecognized subcommand 'tr"),
        (words!["trace", strange], "command not found"),
        (words!["trace", "-p", strange], "UTF-8"),
        (words!["trace", "--format", strange], "invalid value 'tr"),
        (words!["bench", strange], "UTF-8"),
    ] {
        let Said { code, stderr, .. } = clockscope(&line);
        assert!(matches!(code, Some(2 | 127)), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert!(stderr.contains(said) && !stderr.contains('\x1b'), "{stderr}");
    }
}

#[test]
fn without_a_command_clockscope_shows_its_help() {
    let Said { code, stdout, stderr } = clockscope(&[]);
    assert_eq!((code, &*stdout), (Some(2), ""));
    assert!(stderr.contains("Usage: clockscope [OPTIONS] <COMMAND>"), "{stderr}");
}
