//! Counting system calls by eBPF, checked against programs that print how many calls they make.
//!
//! These tests need root (or CAP_BPF and CAP_PERFMON) and a C compiler. Without the privilege each test is skipped
//! with a message.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use clockscope_syscalls::bpf::{BpfCounter, BpfLosses, BpfOptions};
use clockscope_syscalls::{Abi, BpfDecline, Breakdown, SyscallTally};

const MARK: u64 = 0x6d61_726b_6564_0001;
const GETPPID: u32 = 110;

/// Process, thread, ABI and number of a system call.
type Key = (i32, i32, &'static str, u32);
/// Calls and errors.
type Counts = BTreeMap<Key, (u64, u64)>;

/// The workload, compiled once.
fn workload() -> &'static PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let program = directory.join(format!("bpf-workload-{}", std::process::id()));
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/measured/bpf/workload.c");
        let status = Command::new("cc")
            .args(["-O1", "-Wall", "-Wextra", "-pthread", source, "-o"])
            .arg(&program)
            .status()
            .expect("cc runs");
        assert!(status.success(), "cc compiles {source}");
        program
    })
}

/// A counter, or `None` (a skip) if the user, the build or the kernel does not allow one.
fn start(options: &BpfOptions) -> Option<BpfCounter> {
    match BpfCounter::start(options) {
        Ok(counter) => Some(counter),
        Err(decline @ (BpfDecline::NotAllowed | BpfDecline::NotBuilt | BpfDecline::NoBtf)) => {
            skips::skip(decline);
            None
        }
        Err(decline) => panic!("{decline}"),
    }
}

fn options() -> BpfOptions {
    BpfOptions { time: true, mark: MARK, ..BpfOptions::default() }
}

/// Starts the workload. On return the workload has made its first calls and waits to be told to go.
fn spawn(what: &str) -> Child {
    let mut child = Command::new(workload())
        .arg(what)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the workload starts");
    let stdout = child.stdout.as_mut().expect("stdout is a pipe");
    stdout.read_exact(&mut [0]).expect("the workload is ready");
    child
}

fn go(child: &mut Child) {
    let mut stdin = child.stdin.take().expect("stdin is a pipe");
    stdin.write_all(b"g").expect("the workload reads");
}

/// The counts that the workload prints, summed as finely as `breakdown` asks for.
fn finish(mut child: Child, breakdown: Breakdown) -> Counts {
    let mut text = String::new();
    let mut stdout = child.stdout.take().expect("stdout is a pipe");
    stdout.read_to_string(&mut text).expect("the workload writes text");
    assert!(child.wait().expect("the workload ends").success());
    let mut said = Counts::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [abi, number, pid, tid, calls, errors] = words[..] else { panic!("{line}") };
        let parse = |word: &str| word.parse::<u64>().expect("a number");
        let id = |word: &str| word.parse::<i32>().expect("an id");
        let abi = if abi == "ia32" { "ia32" } else { "x86_64" };
        let (pid, tid) = match breakdown {
            Breakdown::Total => (0, 0),
            Breakdown::Process => (id(pid), 0),
            Breakdown::Thread => (id(pid), id(tid)),
        };
        let key = (pid, tid, abi, u32::try_from(parse(number)).expect("a call's number"));
        let row = said.entry(key).or_default();
        row.0 += parse(calls);
        row.1 += parse(errors);
    }
    said
}

fn key(row: &SyscallTally) -> Key {
    let abi = if row.abi == Abi::Ia32 { "ia32" } else { "x86_64" };
    (row.pid, row.tid, abi, row.number)
}

/// The counted rows of system calls that the workload prints. Rows of other threads are kept, so that a call counted
/// for the wrong thread makes the comparison fail.
fn counted(rows: &[SyscallTally], said: &Counts) -> Counts {
    let spoken_of =
        |row: &SyscallTally| said.keys().any(|said| (said.2, said.3) == (key(row).2, key(row).3));
    let rows = rows.iter().filter(|row| spoken_of(row));
    let mut counts: Counts = rows.map(|row| (key(row), (row.calls, row.errors))).collect();
    for key in said.iter().filter(|said| said.1.0 == 0).map(|said| said.0) {
        counts.entry(*key).or_default();
    }
    counts
}

/// Follows one workload and compares the counts with the ones that the workload prints.
fn assert_exact(what: &str, options: &BpfOptions) -> Option<Vec<SyscallTally>> {
    let mut counter = start(options)?;
    let mut child = spawn(what);
    counter.follow(child.id().cast_signed()).expect("the workload can be followed");
    go(&mut child);
    let mut said = finish(child, options.breakdown);
    let rows = counter.read().expect("the maps can be read");
    if !options.time && !options.latency {
        said.values_mut().for_each(|row| row.1 = 0);
    }
    assert_eq!(counted(&rows, &said), said, "{what} {options:?}");
    assert_eq!(counter.losses().expect("the maps can be read"), BpfLosses::default());
    Some(rows)
}

/// As [`assert_exact`], for one workload after another.
fn assert_all_exact(kinds: &[&str], options: &BpfOptions) {
    for what in kinds {
        let Some(_) = assert_exact(what, options) else { return };
    }
}

/// One thread, eight threads, children, errors and unnamed numbers, chains of programs, 32-bit calls, calls that a
/// seccomp filter refuses, calls with clockscope's mark.
#[test]
fn each_kind_of_program_is_counted_exactly() {
    let kinds = ["loop", "threads", "forks", "failures", "executes", "compat", "refused", "marked"];
    assert_all_exact(&kinds, &options());
}

/// clockscope uses the probes of perf events on kernels that may preempt a thread in the cheaper ones; here always.
#[test]
fn probes_of_perf_events_count_the_same() {
    let kinds = ["threads", "forks", "failures", "executes", "compat", "refused", "marked"];
    assert_all_exact(&kinds, &BpfOptions { events: true, ..options() });
    let counted = ["threads", "forks", "failures", "executes", "compat", "marked"];
    assert_all_exact(&counted, &BpfOptions { events: true, time: false, ..options() });
}

#[test]
fn returns_from_signal_handlers_are_counted_exactly() {
    let Some(rows) = assert_exact("signals", &options()) else { return };
    let returns = rows.iter().find(|row| row.name() == "rt_sigreturn").expect("there are some");
    assert_eq!(returns.timed, returns.calls, "they end, too");
}

#[test]
fn calls_that_a_fatal_signal_ends_are_errors() {
    let Some(rows) = assert_exact("killed", &options()) else { return };
    let pause = rows.iter().find(|row| row.name() == "pause").expect("there are some");
    assert_eq!((pause.calls, pause.timed), (5, 5));
}

#[test]
fn calls_that_never_return_have_no_time() {
    let Some(rows) = assert_exact("threads", &options()) else { return };
    for name in ["exit", "exit_group"] {
        let row = rows.iter().find(|row| row.name() == name).expect("there are some");
        assert_eq!((row.timed, row.time_ns, row.errors), (0, 0, 0));
    }
}

#[test]
fn counts_without_times_are_the_same() {
    let counts_only = BpfOptions { time: false, ..options() };
    for what in ["threads", "forks", "failures", "executes", "signals", "compat", "marked"] {
        let Some(rows) = assert_exact(what, &counts_only) else { return };
        assert!(rows.iter().all(|row| row.timed == 0 && row.time_ns == 0));
    }
}

#[test]
fn processes_and_threads_are_told_apart() {
    let by = |breakdown| BpfOptions { breakdown, ..options() };
    let kinds = ["threads", "forks", "failures", "executes", "compat", "killed"];
    assert_all_exact(&kinds, &by(Breakdown::Process));
    let kinds = ["threads", "forks", "signals", "refused", "executes"];
    assert_all_exact(&kinds, &by(Breakdown::Thread));
}

#[test]
fn threads_whose_numbers_collide_are_counted_exactly() {
    for thread_bits in [0, 1, 3] {
        let options = BpfOptions { thread_bits: Some(thread_bits), ..options() };
        assert_all_exact(&["threads", "forks", "executes"], &options);
    }
}

#[test]
fn distributions_have_every_timed_call() {
    for breakdown in [Breakdown::Total, Breakdown::Process, Breakdown::Thread] {
        let options = BpfOptions { latency: true, breakdown, ..options() };
        let Some(rows) = assert_exact("threads", &options) else { return };
        for row in rows {
            let in_buckets: u64 = row.histogram.iter().map(|bucket| bucket.1).sum();
            assert_eq!(in_buckets, row.timed, "{row:?}");
            let at_least: u64 = row.histogram.iter().map(|(lower, calls)| lower * calls).sum();
            assert!(at_least <= row.time_ns, "{row:?}");
            assert!(row.time_ns <= at_least + at_least / 16 + row.timed, "{row:?}");
            let longest = row.histogram.last().map_or(0, |bucket| bucket.0);
            assert!(longest <= row.max_ns && row.max_ns <= longest + longest / 16 + 1, "{row:?}");
        }
    }
}

#[test]
fn a_filter_drops_all_other_calls() {
    let options = BpfOptions { numbers: Some(vec![60, GETPPID, 231]), ..options() };
    let Some(rows) = assert_exact("threads", &options) else { return };
    let numbers: Vec<u32> = rows.iter().map(|row| row.number).collect();
    assert_eq!(numbers, [60, GETPPID, 231]);
}

#[test]
fn other_programs_are_not_counted() {
    let Some(mut counter) = start(&options()) else { return };
    let mut others: Vec<Child> = ["threads", "forks", "loop"].map(spawn).into();
    let mut followed = spawn("threads");
    counter.follow(followed.id().cast_signed()).expect("the workload can be followed");
    others.iter_mut().for_each(go);
    go(&mut followed);
    let said = finish(followed, Breakdown::Total);
    for other in others {
        finish(other, Breakdown::Total);
    }
    let rows = counter.read().expect("the maps can be read");
    assert_eq!(counted(&rows, &said), said);
}

#[test]
fn the_calibration_appears_in_no_result() {
    for breakdown in [Breakdown::Total, Breakdown::Process, Breakdown::Thread] {
        let options = BpfOptions { latency: true, breakdown, ..options() };
        let Some(counter) = start(&options) else { return };
        assert_eq!(counter.read().expect("the maps can be read"), []);
        let cost = counter.cost;
        for picoseconds in [cost.untraced_ps, cost.bystander_ps, cost.traced_ps, cost.span_ps] {
            assert!((1..1_000_000_000).contains(&picoseconds), "{cost:?}");
        }
    }
}

#[test]
fn a_process_that_does_not_exist_cannot_be_followed() {
    let Some(mut counter) = start(&options()) else { return };
    for pid in [-1, i32::MAX] {
        let followed = counter.follow(pid).map_err(|error| error.kind());
        assert_eq!(followed, Err(std::io::ErrorKind::NotFound));
    }
}
