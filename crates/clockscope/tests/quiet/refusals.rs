//! Refused command lines: each gets one line and an exit status.

use std::env::consts::ARCH;
use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output, Stdio};

/// The command line in shell quoting, the exit status, and the message behind `clockscope: `.
const TABLE: &str = r#"
trace | 2 | the following required arguments were not provided: <CMD>...; see clockscope trace --help
trace --fomat json ls | 2 | unexpected argument '--fomat' found; tip: a similar argument exists: '--format'; tip: to pass '--fomat' as a value, use '-- --fomat'; see clockscope trace --help
trace -j ls | 2 | unexpected argument '-j' found; tip: to pass '-j' as a value, use '-- -j'; see clockscope trace --help
trace -p | 2 | a value is required for '--attach <PID>' but none was supplied; see clockscope trace --help
trace -p nginx | 2 | invalid value 'nginx' for '--attach <PID>': `nginx` is no process number; for those of a program: -p "$(pidof PROGRAM)"; see clockscope trace --help
trace -p 1,nginx | 2 | invalid value '1,nginx' for '--attach <PID>': `nginx` is no process number; for those of a program: -p "$(pidof PROGRAM)"; see clockscope trace --help
trace -p '' | 2 | invalid value '' for '--attach <PID>': no process is named; does the program run?; see clockscope trace --help
trace -p 0 | 2 | invalid value '0' for '--attach <PID>': `0` is no process number; for those of a program: -p "$(pidof PROGRAM)"; see clockscope trace --help
trace -p 7 ls | 2 | the argument '--attach <PID>' cannot be used with '[CMD]...'; see clockscope trace --help
trace --duration 3 ls | 2 | the argument '--duration <TIME>' cannot be used with '[CMD]...'; see clockscope trace --help
trace --duration 1y -p 7 | 2 | invalid value '1y' for '--duration <TIME>': `1y` is no time: give seconds, as in 10 or 0.5, or 500ms, 30s, 5m, 1h; see clockscope trace --help
trace --format htlm ls | 2 | invalid value 'htlm' for '--format <FORMAT>' [possible values: text, json, html, folded, pprof]; tip: a similar value exists: 'html'; see clockscope trace --help
trace --format | 2 | a value is required for '--format <FORMAT>' but none was supplied [possible values: text, json, html, folded, pprof]; see clockscope trace --help
trace --sort cals ls | 2 | invalid value 'cals' for '--sort <SORT>' [possible values: time, calls, errors, name]; tip: a similar value exists: 'calls'; see clockscope trace --help
trace --via both -p 7 | 2 | --via both: this compares the counts of programs that clockscope starts, not of running ones; try --via bpf
trace --via both --no-follow ls | 2 | --via both: this must be told of the libraries that the program loads, and --no-follow lets go of it before; try --via bpf
trace --via sites --top ls | 2 | --via sites: this is read at the end, and --top shows counts before; try --via bpf
trace --via sites --per-process ls | 2 | --via sites: this does not tell processes and threads apart; try --via bpf or --via ptrace
trace --via sites --latency ls | 2 | --via sites: this times only some calls, and keeps no distribution; try --via bpf or --via ptrace
trace --via ptrace --no-follow ls | 2 | --via ptrace: this stops the program at each call, and --no-follow lets go of it before; try --via bpf
trace --no-syscalls --via bpf ls | 2 | the argument '--no-syscalls' cannot be used with '--via <VIA>'; see clockscope trace --help
trace --callers=none ls | 2 | invalid value 'none' for '--callers[=<OF>]' [possible values: vdso, syscalls, all]; see clockscope trace --help
trace --callers all | 127 | all: command not found; is it in PATH? or do you mean --callers=all?
trace --latency=yes ls | 2 | unexpected value 'yes' for '--latency' found; no more were expected; see clockscope trace --help
trace -F 0 ls | 2 | invalid value '0' for '--freq <N>': 0 is not in 1..=100000; see clockscope trace --help
trace --percent-limit 200 ls | 2 | invalid value '200' for '--percent-limit <PERCENT>': `200` is no share: give 0 to 100, in percent; see clockscope trace --help
trace -e raed ls | 2 | -e raed: there is no call named `raed`; did you mean `read`?
trace -e trace=%clocks ls | 2 | -e trace=%clocks: there is no class `%clocks`; there are %clock, %desc, %file, %ipc, %memory, %network, %process, %signal
trace -e signal=HUP ls | 2 | -e signal=HUP: `signal=` is not understood; only `trace=` is
trace -U calls,cost ls | 2 | -U calls,cost: no column is called "cost"; the columns are time-percent,seconds,avg,calls,errors,via,name,p50,p90,p99,max
trace -ff -o log ls | 2 | -ff: clockscope writes one report; for a table for each process: --per-process
trace -o '|less' ls | 2 | -o '|less': clockscope starts no command for its report; in bash and zsh: -o >(COMMAND)
trace -C ls | 2 | -C: clockscope prints a summary and no line for each call; leave it out
trace -tt ls | 2 | -t: clockscope prints a summary and no line for each call; leave it out
trace -s 200 ls | 2 | -s: clockscope prints a summary and no line for each call; leave it out
trace --call-graph dwarf ls | 2 | --call-graph: to see who makes the calls: --callers=all
trace -a sleep 1 | 2 | -a: clockscope counts in programs and not on whole machines; for all processes: clockscope survey; for some: -p PID,PID
trace '' | 127 | the program's name is empty; is a variable empty?
trace -- '' | 127 | the program's name is empty; is a variable empty?
trace nonesuch | 127 | nonesuch: command not found; is it in PATH?
run | 2 | the following required arguments were not provided: --clock <CLOCK> <CMD>...; see clockscope run --help
run --clock corse date | 2 | invalid value 'corse' for '--clock <CLOCK>' [possible values: kernel, syscall, coarse, slow, tsc, tsc-fast]; tip: a similar value exists: 'coarse'; see clockscope run --help
run --clock coarse -p 7 | 2 | -p: clockscope gives a clock to programs that it starts; those that run keep theirs
run --clock slow --read-cost 5 date | 2 | invalid value '5' for '--read-cost <TIME>': `5` is no cost of a read: give a time with its unit, as in 1.2us or 900ns; see clockscope run --help
serve --period 5ms | 2 | invalid value '5ms' for '--period <TIME>': not between 10ms and 10s; see clockscope serve --help
serve --status --force | 2 | the argument '--status [<FILE>]' cannot be used with '--force'; see clockscope serve --help
serve --format json | 2 | the following required arguments were not provided: --status [<FILE>]; see clockscope serve --help
bench -w 3 ls | 2 | -w: bench measures calls and no programs, and warms up by itself; leave it out
bench -N ls | 2 | -N: bench measures calls and starts no shell; leave it out
bench --export-json a.json ls | 2 | --export-json: to save for clockscope compare: --save FILE
bench 'sleep 1' | 2 | bench measures clocks and system calls, no programs; to trace one: clockscope trace sleep 1
bench --launches 0 | 2 | invalid value '0' for '--launches <K>': 0 is not in 1..=100; see clockscope bench --help
bench --route vdos | 2 | no route is called "vdos"; did you mean vdso? there are libc, vdso, syscall, tsc
compare | 2 | the following required arguments were not provided: <FILE>...; see clockscope compare --help
compare --ministat -w wide a b | 2 | invalid value 'wide' for '-w <COLUMNS>': invalid digit found in string; see clockscope compare --help
compare --fail-if worse a b | 2 | invalid value 'worse' for '--fail-if <VERDICT>' [possible values: slower, changed]; see clockscope compare --help
compare -n a b | 2 | the following required arguments were not provided: --ministat; see clockscope compare --help
compare absent other | 2 | cannot read absent: no such file or directory
wrongness --time soon | 2 | invalid value 'soon' for '--time <SECONDS>': invalid float literal; see clockscope wrongness --help
view absent.json | 2 | cannot read absent.json: no such file or directory
doctor here | 3 | unexpected argument 'here' found; see clockscope doctor --help
doctor --list --root a | 3 | the argument '--list' cannot be used with '--root <PATH>'; see clockscope doctor --help
vdso --pid me | 2 | invalid value 'me' for '--pid <PID>': invalid digit found in string; see clockscope vdso --help
vdso --pid=-5 | 2 | invalid value '-5' for '--pid <PID>': -5 is not in 1..=2147483647; see clockscope vdso --help
vdso --pid 0 | 2 | invalid value '0' for '--pid <PID>': 0 is not in 1..=2147483647; see clockscope vdso --help
vdso --pid 1 --file a | 2 | the argument '--pid <PID>' cannot be used with '--file <FILE>'; see clockscope vdso --help
run --clock coarse --read-cost 1.2us true | 2 | --read-cost is for --clock slow: what other clocks cost is not chosen; try --clock slow
run --clock tsc --read-cost 1.2us true | 2 | --read-cost is for --clock slow: what other clocks cost is not chosen; try --clock slow
run --clock coarse --force true | 2 | --force is for --clock tsc and tsc-fast: no other clock is ever refused
run --clock tsc --no-follow true | 2 | --clock tsc and tsc-fast cannot be used with --no-follow: without a tracer nobody helps a program that forbids itself the counter; leave --no-follow out, or try --clock coarse
run --clock kernel /no/such/program | 127 | /no/such/program: no such file
run --clock kernel / | 126 | /: is a directory
run --clock kernel /etc/passwd | 126 | /etc/passwd: permission denied; is it executable (chmod +x)?
run --clock slow --read-cost 19ns date | 2 | invalid value '19ns' for '--read-cost <TIME>': `19ns` is out of range: a read costs 20 ns at least and 1 ms at most; see clockscope run --help
serve --stop --force | 2 | the argument '--stop [<FILE>]' cannot be used with '--force'; see clockscope serve --help
serve --stop /a --status /b | 2 | the argument '--stop [<FILE>]' cannot be used with '--status [<FILE>]'; see clockscope serve --help
serve --valid 2h | 2 | invalid value '2h' for '--valid <TIME>': not between 100ms and 3600s; see clockscope serve --help
serve --user | 2 | a value is required for '--user <NAME>' but none was supplied; see clockscope serve --help
bench --save absent/x.json | 2 | cannot write to absent/x.json: no such file or directory
bench rdtsc --route vdso | 2 | rdtsc cannot be read by vdso; try other routes, or none to get all
bench syscalls read --route vdso | 2 | system calls are made by route syscall only, not by vdso
wrongness --time 0 | 2 | cannot measure for 0 seconds; --time takes 1 to 86400
wrongness --time nan | 2 | cannot measure for NaN seconds; --time takes 1 to 86400
wrongness --time 1e9 | 2 | cannot measure for 1000000000 seconds; --time takes 1 to 86400
wrongness --time=-1 | 2 | cannot measure for -1 seconds; --time takes 1 to 86400
wrongness -o absent/x | 2 | cannot write to absent/x: no such file or directory
doctor --explain tsc-wrap | 3 | there is no label `tsc-wrap`; did you mean `tsc-warp`?
doctor --explain 'zebra crossing' | 3 | there is no label `zebra crossing`; clockscope doctor --list has all of them
doctor --root absent | 3 | cannot read absent; try a directory, a capture or a sosreport: no such file or directory
doctor --format yaml | 3 | invalid value 'yaml' for '--format <FORMAT>' [possible values: text, json, json-lines, metrics, nagios]; see clockscope doctor --help
doctor --list --format metrics | 3 | labels are no metrics; try --format text or json
doctor --list -o absent/file | 3 | cannot write to absent/file; try -o elsewhere: no such file or directory
doctor --summary | 3 | no machines are given; try --root FOLDER, or --root - for a list on standard input
doctor --format json-lines --resume -o x | 3 | no machines are given; try --root FOLDER, or --root - for a list on standard input
doctor --root a --root b | 3 | of several machines there is a summary or a line each; try --summary or --format json-lines
doctor --root - --format metrics | 3 | of several machines there is a summary or a line each; try --summary or --format json-lines
doctor --summary --format metrics --root a | 3 | a summary is text or JSON; try --format json
doctor --resume --root a --format json-lines | 3 | the following required arguments were not provided: --output <FILE>; see clockscope doctor --help
capture -o absent/file | 2 | cannot write to absent/file; try -o FILE elsewhere: no such file or directory
trace -p 2147483647 -o absent/report | 125 | cannot attach to 2147483647: there is no such process (any more); see `ps`
trace -o absent/report touch started | 125 | cannot write to absent/report: no such file or directory
vdso --dump absent/image.so | 2 | cannot save the image to absent/image.so: no such file or directory
vdso --file absent | 2 | cannot read the image in absent: no such file or directory
vdso --file / | 2 | cannot read the image in /: is a directory
completions | 2 | the following required arguments were not provided: <SHELL>; see clockscope completions --help
trace --unit '' | 2 | a value is required for '--unit <UNIT>' but none was supplied; see clockscope trace --help
view '' | 2 | a value is required for '<FILE>' but none was supplied; see clockscope view --help
'' | 2 | unrecognized subcommand ''; see clockscope --help
date | 2 | unrecognized subcommand 'date'; see clockscope --help
stat ls | 2 | stat: to count the calls of a program: clockscope trace CMD
-c date | 2 | unexpected argument '-c' found; see clockscope --help
"#;

/// Runs clockscope in an empty directory, which must stay empty.
fn clockscope(words: &[OsString]) -> Output {
    let nowhere = tempfile::tempdir().expect("make a temporary directory");
    let mut command = Command::new(env!("CARGO_BIN_EXE_clockscope"));
    command.args(words).current_dir(&nowhere).stdin(Stdio::null());
    let output = command.output().expect("run clockscope");
    let left = nowhere.path().read_dir().expect("list the directory").count();
    assert_eq!(left, 0, "{words:?}: a file is made, or the program has started");
    output
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
        let stderr = String::from_utf8_lossy(&output.stderr);
        let is_right = output.status.code() == status.parse().ok()
            && stderr == format!("clockscope: {}\n", said_here(line, said))
            && output.stdout.is_empty();
        if !is_right {
            complaints.push(format!("{line}: {:?} {stderr}", output.status.code()));
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    assert!(rows.len() > 50);
}

#[test]
fn only_a_name_that_does_not_exist_is_taken_for_a_program() {
    let folder = tempfile::tempdir().expect("make a temporary directory");
    for name in ["getppid", "tool"] {
        let path = folder.path().join(name);
        fs::write(&path, "#!/bin/sh\n").expect("write a program");
        fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("make it executable");
    }
    for (line, said) in [
        ("bench getppid --cpu 99999", "cannot measure on CPU 99999; this process may use "),
        ("bench tool", "bench measures clocks and system calls, no programs"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_clockscope"));
        command.args(words(line)).env("PATH", folder.path());
        let output = command.output().expect("run clockscope");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}: {stderr}");
        assert!(stderr.starts_with(&format!("clockscope: {said}")), "{line}: {stderr}");
    }
}

#[test]
fn words_that_are_no_text_are_refused_like_others() {
    let strange = OsStr::from_bytes(b"tr\xffce\x1b[31m\n").to_owned();
    for (line, said) in [
        (vec![strange.clone()], "unrecognized subcommand 'tr"),
        (vec!["trace".into(), strange.clone()], "command not found"),
        (vec!["trace".into(), "-p".into(), strange.clone()], "UTF-8"),
        (vec!["trace".into(), "--format".into(), strange.clone()], "invalid value 'tr"),
        (vec!["bench".into(), strange], "UTF-8"),
    ] {
        let output = clockscope(&line);
        let stderr = String::from_utf8(output.stderr).expect("what clockscope says is text");
        assert!(matches!(output.status.code(), Some(2 | 127)), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert!(stderr.contains(said) && !stderr.contains('\x1b'), "{stderr}");
    }
}

#[test]
fn without_a_command_clockscope_shows_its_help() {
    let output = clockscope(&[]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr.contains("Usage: clockscope [OPTIONS] <COMMAND>") && output.stdout.is_empty(),
        "{stderr}"
    );
}
