//! Command lines that are refused: each by one line, with what to type instead, and an exit status.

use std::env::consts::ARCH;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Command, Output, Stdio};

/// Words as a shell would take them apart, the exit status, and what is said after `clockscope: `.
const TABLE: &str = r#"
trace | 2 | there is nothing to trace; give a command, as in clockscope trace date, or a process: -p PID
trace --all | 2 | there is nothing to trace; give a command, as in clockscope trace date, or a process: -p PID
trace --fomat json ls | 2 | trace has no option --fomat; did you mean --format? see clockscope trace --help
trace --nonsense ls | 2 | trace has no option --nonsense; see clockscope trace --help
trace -j ls | 2 | trace has no option -j; see clockscope trace --help
trace -cjf ls | 2 | trace has no option -j; see clockscope trace --help
trace -p | 2 | -p needs a value: -p PID
trace -p nginx | 2 | -p: `nginx` is no process number; for those of a program: -p "$(pidof PROGRAM)"
trace -p 1,nginx | 2 | -p 1,nginx: `nginx` is no process number; for those of a program: -p "$(pidof PROGRAM)"
trace -p '' | 2 | -p: no process is named; does the program run?
trace -p 0 | 2 | -p: `0` is no process number; for those of a program: -p "$(pidof PROGRAM)"
trace -p 7 ls | 2 | -p and a command exclude each other; for ten seconds: --duration 10; for several processes: -p PID,PID
trace --attach 7 8 | 2 | -p and a command exclude each other; for ten seconds: --duration 10; for several processes: -p PID,PID
trace --duration 3 ls | 2 | --duration goes with -p; for a command: clockscope trace timeout TIME CMD
trace --duration 1y -p 7 | 2 | --duration: `1y` is no time: give seconds, as in 10 or 0.5, or 500ms, 30s, 5m, 1h
trace --format htlm ls | 2 | --format has no value htlm; did you mean html? there are text, json, html, folded, pprof
trace --format | 2 | --format needs a value: text, json, html, folded, pprof
trace --via= ls | 2 | --via needs a value: auto, bpf, ptrace, sites, both, none
trace -S cals ls | 2 | -S has no value cals; did you mean calls? there are time, calls, errors, name
trace --sort cals ls | 2 | --sort has no value cals; did you mean calls? there are time, calls, errors, name
trace --via both -p 7 | 2 | --via both: this compares the counts of programs that clockscope starts, not of running ones; try --via bpf
trace --via both --no-follow ls | 2 | --via both: this must be told of the libraries that the program loads, and --no-follow lets go of it before; try --via bpf
trace --via sites --top ls | 2 | --via sites: this is read at the end, and --top shows counts before; try --via bpf
trace --via sites --per-process ls | 2 | --via sites: this does not tell processes and threads apart; try --via bpf or --via ptrace
trace --via sites --latency ls | 2 | --via sites: this times only some calls, and keeps no distribution; try --via bpf or --via ptrace
trace --via ptrace --no-follow ls | 2 | --via ptrace: this stops the program at each call, and --no-follow lets go of it before; try --via bpf
trace --no-syscalls --via bpf ls | 2 | --no-syscalls does not go with --via; leave one out
trace --callers=none ls | 2 | --callers has no value none; there are vdso, syscalls, all
trace --callers all | 127 | all: command not found; is it in PATH? or do you mean --callers=all?
trace --latency=yes ls | 2 | --latency takes no value; see clockscope trace --help
trace -F 0 ls | 2 | -F 0: give a number from 1 to 100000
trace -F often ls | 2 | -F often: this is no whole number
trace --percent-limit 200 ls | 2 | --percent-limit: `200` is no share: give 0 to 100, in percent
trace -e raed ls | 2 | -e raed: there is no call named `raed`; did you mean `read`?
trace -e trace=%clocks ls | 2 | -e trace=%clocks: there is no class `%clocks`; there are %clock, %desc, %file, %ipc, %memory, %network, %process, %signal
trace -e signal=HUP ls | 2 | -e signal=HUP: `signal=` is not understood; only `trace=` is
trace -U calls,cost ls | 2 | -U calls,cost: no column is called "cost"; the columns are time-percent,seconds,avg,calls,errors,via,name,p50,p90,p99,max
trace -ff -o log ls | 2 | -ff: clockscope writes one report; for a table for each process: --per-process
trace -o '|less' ls | 2 | -o '|less': clockscope starts no command for its report; in bash and zsh: -o >(COMMAND)
trace -C ls | 2 | -C: clockscope prints a summary and no line for each call; leave it out
trace -tt ls | 2 | -t: clockscope prints a summary and no line for each call; leave it out
trace -s 200 ls | 2 | -s: clockscope prints a summary and no line for each call; leave it out
trace -k ls | 2 | -k: to see who makes the calls: --callers=all
trace -T ls | 2 | -T: clockscope always times calls, and --latency shows the distribution; leave it out
trace --call-graph dwarf ls | 2 | --call-graph: to see who makes the calls: --callers=all
trace -a sleep 1 | 2 | -a: clockscope counts in programs and not on whole machines; for all processes: clockscope survey; for some: -p PID,PID
survey --watch --exact | 2 | --watch does not go with --exact; leave one out
survey --watch --format metrics | 2 | --watch: this format is a whole file; name one by -o FILE, which then has the newest survey
trace '' | 127 | the program's name is empty; is a variable empty?
trace -- '' | 127 | the program's name is empty; is a variable empty?
trace nonesuch | 127 | nonesuch: command not found; is it in PATH?
trace -o nowhere/report true | 125 | cannot write to nowhere/report: no such file or directory
run | 2 | run needs --clock CLOCK and CMD...; see clockscope run --help
run date | 2 | run needs --clock CLOCK; see clockscope run --help
run --clock coarse | 2 | there is nothing to run; give a command, as in clockscope run --clock coarse date
run --clock corse date | 2 | --clock has no value corse; did you mean coarse? there are kernel, syscall, coarse, slow, tsc, tsc-fast
run --clock coarse -p 7 | 2 | -p: clockscope gives a clock to programs that it starts; those that run keep theirs
run --clock slow --read-cost 5 date | 2 | --read-cost: `5` is no cost of a read: give a time with its unit, as in 1.2us or 900ns
serve --period 5ms | 2 | --period 5ms: not between 10ms and 10s
serve --status --force | 2 | --status does not go with --force; leave one out
serve --format json | 2 | serve needs --status FILE; see clockscope serve --help
bench -w 3 ls | 2 | -w: bench measures calls and no programs, and warms up by itself; leave it out
bench --runs 10 ls | 2 | --runs: bench measures until the figures are steady; for more processes: --launches K
bench -N ls | 2 | -N: bench measures calls and starts no shell; leave it out
bench --export-json a.json ls | 2 | --export-json: to save for clockscope compare: --save FILE
bench 'sleep 1' | 2 | bench measures clocks and system calls, no programs; to trace one: clockscope trace sleep 1
bench --launches 0 | 2 | --launches 0: give a number from 1 to 100
bench --route vdos | 2 | no route is called "vdos"; did you mean vdso? there are libc, vdso, syscall, tsc
compare | 2 | compare needs FILE...; see clockscope compare --help
compare -w wide a b | 2 | -w wide: this is no whole number
compare -C 99999999999999999999 a | 2 | -C 99999999999999999999: the number is too large
compare --fail-if worse a b | 2 | --fail-if has no value worse; there are slower, changed
compare -n a b | 2 | compare needs --ministat; see clockscope compare --help
compare absent other | 2 | cannot read absent: no such file or directory
wrongness --time soon | 2 | --time soon: this is no number
view | 2 | view needs FILE; see clockscope view --help
view absent.json | 2 | cannot read absent.json: no such file or directory
doctor --root | 3 | --root needs a value: --root PATH
doctor here | 3 | doctor takes no here; see clockscope doctor --help
doctor --list --root a | 3 | --list does not go with --root; leave one out
capture here | 2 | capture takes no here; see clockscope capture --help
vdso --pid me | 2 | --pid me: this is no whole number
vdso --pid 1 --file a | 2 | --pid does not go with --file; leave one out
completions | 2 | completions needs SHELL; see clockscope completions --help
completions tcsh | 2 | SHELL has no value tcsh; did you mean bash? there are bash, zsh, fish
trace --unit '' | 2 | --unit needs a value: --unit UNIT
trace --container '' | 2 | --container needs a value: --container NAME|ID
trace --cgroup '' | 2 | --cgroup needs a value: --cgroup PATH
doctor --container '' | 3 | --container needs a value: --container NAME|ID
trace -e '' ls | 2 | -e needs a value: -e SET
trace -U '' ls | 2 | -U needs a value: -U COLUMNS
compare '' b | 2 | FILE is empty; is a variable empty?
view '' | 2 | FILE is empty; is a variable empty?
'' | 2 | the command's name is empty; is a variable empty?
date | 2 | there is no command date; to trace a program of that name: clockscope trace date
trce date | 2 | there is no command trce; did you mean trace? to trace a program of that name: clockscope trace trce
record -g ls | 2 | there is no command record; to sample who makes the calls: clockscope trace --callers CMD
stat ls | 2 | there is no command stat; to count the calls of a program: clockscope trace CMD
-c date | 2 | -c needs a command before it, as in clockscope trace -c
--frobnicate | 2 | there is no option --frobnicate; see clockscope --help
help trce | 2 | there is no command trce; did you mean trace? to trace a program of that name: clockscope trace trce
"#;

/// Runs clockscope in a directory where nothing is.
fn clockscope(words: &[OsString]) -> Output {
    let nowhere = tempfile::tempdir().expect("make a temporary directory");
    Command::new(env!("CARGO_BIN_EXE_clockscope"))
        .args(words)
        .current_dir(&nowhere)
        .stdin(Stdio::null())
        .output()
        .expect("run clockscope")
}

/// Words between blanks; one in quotes may have blanks in it, or be empty.
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

/// What is said on this architecture, if the table says this.
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
fn what_is_refused_is_refused_in_one_line_that_says_what_to_type() {
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
    assert!(rows.len() > 80);
}

#[test]
fn words_that_are_no_text_are_refused_like_others() {
    let strange = OsStr::from_bytes(b"tr\xffce\x1b[31m\n").to_owned();
    for (line, said) in [
        (vec![strange.clone()], "there is no command tr"),
        (vec!["trace".into(), strange.clone()], "command not found"),
        (vec!["trace".into(), "-p".into(), strange.clone()], "UTF-8"),
        (vec!["trace".into(), "--format".into(), strange.clone()], "--format has no value tr"),
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
