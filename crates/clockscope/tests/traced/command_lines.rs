//! Command lines as users of strace and perf type them: which words belong to clockscope, and which to the program.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Command, Stdio};

use crate::support::attaching::Attachment;
use crate::support::command::Said;
use crate::support::conversation::Conversation;
use crate::support::running::{clockscope, untraced};
use crate::support::{placed, root_or_skip, server};

/// Runs clockscope with these words.
fn with(words: &[OsString]) -> Said {
    Said::of(untraced(&words![clockscope(), words]))
}

#[test]
fn the_command_gets_the_words_behind_its_name_whatever_they_are() {
    for (ours, the_programs) in [
        (&["trace"] as &[&str], &["-la", "--all"] as &[&str]),
        (&["trace", "--"], &["-la", "--all"]),
        (&["trace", "-f"], &["--", "-o", "report", "--"]),
        (&["trace", "-cfw", "-e", "trace=%clock"], &["", "--help", "-p", "1"]),
        (&["trace", "--callers"], &["all", "-V"]),
        (&["trace", "-g"], &["-F", "0"]),
        (&["run", "--clock", "coarse"], &["--clock", "syscall"]),
        (&["run", "--clock=coarse", "--"], &["--", "--stats"]),
    ] {
        let none: &[&str] = if ours[0] == "trace" { &["--via", "none"] } else { &[] };
        let words = words![ours[0], none, ours[1..], "printf", "<%s>", the_programs];
        let said = with(&words);
        let expected: String = the_programs.iter().map(|word| format!("<{word}>")).collect();
        assert_eq!((said.code, &said.stdout), (Some(0), &expected), "{words:?}: {said:?}");
    }
}

#[test]
fn a_program_may_have_the_name_of_a_subcommand_and_words_that_are_no_text() {
    let directory = tempfile::tempdir().expect("make a temporary directory");
    let program = directory.path().join("trace");
    placed::script("#!/bin/sh\nprintf 'given %s' \"$*\"\n", &program, 0o755);
    let strange = OsStr::from_bytes(b"\xff\xfe");
    for command in ["trace", "run"] {
        let mut line = Command::new(clockscope());
        line.arg(command).args(["--clock", "kernel"].iter().filter(|_| command == "run"));
        line.args(["trace", "run", "--all"]).arg(strange);
        line.env("PATH", format!("{}:/usr/bin:/bin", directory.path().display()));
        let output = line.stdin(Stdio::null()).output().expect("run clockscope");
        assert_eq!(output.stdout, b"given run --all \xff\xfe", "{output:?}");
    }
}

#[test]
fn children_that_run_already_are_named_because_they_are_not_traced() {
    let script = "sleep 1000 & echo ready; echo $!; read line; kill $!; wait 2> /dev/null; exit 0";
    let mut parent = Conversation::start(&words!["sh", "-c", script]);
    let (child, pid) = (parent.line(), parent.pid());
    let attach = |pids: &str| with(&words!["trace", "-q", "--duration", "0.05", "-p", pids]);
    let said = attach(&pid.to_string()).stderr;
    let wanted = format!("1 child that runs is not traced: -p {pid},$(pgrep -d, -P {pid})");
    assert!(said.split_whitespace().collect::<Vec<_>>().join(" ").contains(&wanted), "{said}");
    // A parent that only waits reads no clock, so this stands before the answers.
    assert!(said.lines().nth(1).is_some_and(|line| line.starts_with("Beside:")), "{said}");
    let both = attach(&format!("{pid},{child}")).stderr;
    assert!(!both.contains("Beside"), "{both}");
    assert!(parent.last_words().1.success());
}

#[test]
fn quiet_leaves_the_report_and_the_failures() {
    let Some(target) = server(1) else { return };
    let missing = 2_000_000_000;
    let pids = format!("{},{missing}", target.pid());
    let output = with(&words!["trace", "-q", "--duration", "0.05", "-p", pids]);
    let said = output.stderr;
    let ours: Vec<&str> = said.lines().filter(|line| line.starts_with("clockscope: ")).collect();
    let failure = format!("clockscope: cannot attach to {missing}: there is no such process");
    assert!(ours.len() == 1 && ours[0].starts_with(&failure), "{said}");
    assert!(said.contains("\nClock: "), "{said}");
    assert_eq!(output.code, Some(1));
    target.ends_well();
}

#[test]
fn a_report_that_cannot_be_written_is_said_and_printed_and_is_no_success() {
    for (ends, code) in [("exit 7", 7), ("exit 0", 125)] {
        let output = with(&words!["trace", "--via", "none", "-o", "/dev/full", "sh", "-c", ends]);
        assert_eq!(output.code, Some(code));
        let said = output.stderr;
        let why = "clockscope: cannot write the report: no space left on device; it follows; try -o FILE elsewhere\n";
        assert!(said.starts_with(&format!("{why}sh -c exit ")), "{said}");
        assert!(said.contains("\nClock: "), "{said}");
    }
}

#[test]
fn a_reader_of_the_report_that_goes_away_changes_no_status() {
    let (reader, writer) = std::io::pipe().expect("make a pipe");
    drop(reader);
    let mut command = Command::new(clockscope());
    command.args(["trace", "-q", "--via", "none", "true"]).stderr(writer);
    assert_eq!(command.status().expect("run clockscope").code(), Some(0));
}

#[test]
fn children_that_start_while_they_are_traced_are_not_beside() {
    // Some of them run at the end, and some have ended and were not waited for.
    let script = "echo ready; read line; for n in 1 2 3 4 5; do sleep 1000 & all=\"$all $!\"; true & done; \
                  echo started; read line; kill $all";
    let mut parent = Conversation::start(&words!["sh", "-c", script]);
    let attachment = Attachment::to(&[parent.pid()], &["--via", "none"]);
    parent.say("go");
    assert_eq!(parent.line(), "started");
    let report = attachment.detach().report();
    assert_eq!(report.number("processes"), 11);
    assert!(report.field("attached")[0]["children"].is_null(), "{report:?}");
    drop(parent.last_words());
}

#[test]
fn what_cannot_be_printed_is_said() {
    for arguments in ["--help", "--version", "trace --help", "completions bash", "vdso"] {
        let script = format!("exec \"$0\" {arguments} > /dev/full");
        let said = Said::of(untraced(&words!["sh", "-c", script, clockscope()]));
        let wanted = "clockscope: cannot write to standard output: no space left on device\n";
        assert_eq!((said.code, &*said.stderr), (Some(2), wanted), "{arguments}");
    }
}

#[test]
fn without_proc_that_is_said_in_one_line() {
    let Some(()) = root_or_skip() else { return };
    for (arguments, status) in
        [("trace true", 125), ("trace -p 1", 125), ("trace --container web", 125), ("vdso", 2)]
    {
        let script = format!("umount --lazy /proc && exec \"$0\" {arguments}");
        let unshare = words!["unshare", "--mount", "sh", "-c", script, clockscope()];
        let told = "/proc is not mounted; try: mount -t proc proc /proc\n";
        Said::of(untraced(&unshare)).is_refused(status, &[told]);
    }
}

#[test]
fn colours_are_in_the_report_only_if_they_are_wanted() {
    for (options, is_coloured) in [
        (&["--color=always"] as &[&str], true),
        (&["--color=always", "--format", "json"], false),
        (&["--color=never"], false),
        (&[], false),
    ] {
        let words = words!["trace", "--via", "none", options, "date"];
        let Said { stdout, stderr: said, .. } = with(&words);
        let row = "\x1b[36m     -        -          -      1        vdso    clock_gettime(REALTIME)\x1b[0m\n";
        assert_eq!(said.contains('\x1b'), is_coloured, "{options:?}: {said}");
        assert_eq!(said.contains(row), is_coloured, "{options:?}: {said}");
        assert!(!stdout.contains('\x1b'));
    }
}
