//! Programs with timers and signals, under `trace -p`, `trace` and `run`: no process dies, no signal is lost, and no
//! call returns `EINTR` that would not have done so without clockscope.
//!
//! The ordinary tests attach a few times in each cell. `make test-signals` attaches 200 times in all of them
//! (`CLOCKSCOPE_ATTACHMENTS=20` is a shorter run), and prints what came of it.

use std::ffi::OsString;
use std::fmt;
use std::io::{Write, stdout};
use std::time::{Duration, Instant};

use crate::support::attaching::{
    Image, assert_code_is_of_its_files, assert_nothing_piles_up, attach_for, mappings,
};
use crate::support::builds::{self, Link};
use crate::support::compare::assert_counts;
use crate::support::conversation::Conversation;
use crate::support::installed_or_skip;
use crate::support::printed::Printed;
use crate::support::running::{clockscope, code_as_shell, run, text, trace};

/// Arguments of `timers.c`: source and period of the signals, call to wait in, number of threads.
#[derive(Clone, Copy)]
struct Cell {
    source: &'static str,
    period_us: u32,
    wait: &'static str,
    threads: u32,
}

const fn cell(source: &'static str, period_us: u32, wait: &'static str, threads: u32) -> Cell {
    Cell { source, period_us, wait, threads }
}

impl Cell {
    fn words(self) -> Option<Vec<OsString>> {
        let program = builds::c("timers", Link::Dynamic)?;
        let Self { source, period_us, wait, threads } = self;
        Some(words![program, source, period_us.to_string(), wait, threads.to_string()])
    }

    /// Whether the program makes progress under a tracer. Each signal costs a stop of some 20 us, and with `--via
    /// ptrace` each system call two stops: 64 threads with a timer of 0.1 ms each, or one whose handler's calls are
    /// stopped, do nothing else under a tracer, `strace -f` included.
    fn can_be_followed(self, starter: &[&str]) -> bool {
        let least_us = if starter.contains(&"ptrace") { 300 } else { 100 };
        match self.source {
            "thread" => self.period_us >= least_us * self.threads,
            "real" => self.period_us >= least_us,
            _ => true,
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, period_us, wait, threads } = self;
        let period = f64::from(*period_us) / 1000.0;
        write!(f, "{source:<9} {period:>4} ms  {wait:<9} {threads:>2}")
    }
}

/// The numbers that `timers.c` prints: signals sent and received, EINTR, disorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Said {
    sent: u64,
    received: u64,
    interrupted: u64,
    disorder: u64,
}

impl Said {
    #[track_caller]
    fn parse(text: &str) -> Self {
        let line = text.lines().find_map(|line| line.strip_prefix("signals "));
        let line = line.unwrap_or_else(|| panic!("it has not said what it was given: {text}"));
        let numbers: Vec<u64> =
            line.split(' ').map(|word| word.parse().expect("a number")).collect();
        let [sent, received, interrupted, disorder] = numbers[..] else { panic!("{line}") };
        Self { sent, received, interrupted, disorder }
    }

    #[track_caller]
    fn assert_unharmed(self, what: &dyn fmt::Display) {
        assert_eq!(self.received, self.sent, "signals received and sent: {what}");
        assert_eq!((self.interrupted, self.disorder), (0, 0), "EINTR and disorder: {what}");
    }
}

/// The longest pauses in many attachments, and the number of attachments that left pages mapped.
#[derive(Clone, Copy, Debug, Default)]
struct Slowest {
    attach: Duration,
    detach: Duration,
    whole: Duration,
    left_shared: u32,
}

/// Attaches to a process again and again, each time for a different duration.
#[track_caller]
fn attach_again_and_again(
    pid: i32,
    via: &str,
    attachments: u32,
    what: &dyn fmt::Display,
) -> Slowest {
    let before = (Image::of(pid).expect("it has a vDSO"), mappings(pid));
    let mut slowest = Slowest::default();
    for number in 0..attachments {
        let lasting = f64::from(4 + number * 7 % 23) / 1000.0;
        let begun = Instant::now();
        let traced = attach_for(&format!("{lasting:.3}"), &[pid], &["--via", via]);
        let whole = begun.elapsed().saturating_sub(Duration::from_secs_f64(lasting));
        assert_eq!(traced.code(), 0, "attachment {number}: {what}: {traced:?}");
        let row = traced.report().field("attached")[0].clone();
        assert_ne!(row["ended"], "killed", "attachment {number}: {what}: {traced:?}");
        let pause = |name: &str| Duration::from_nanos(row[name].as_u64().unwrap_or(0));
        slowest.attach = slowest.attach.max(pause("pause_ns"));
        slowest.detach = slowest.detach.max(pause("detach_pause_ns"));
        slowest.whole = slowest.whole.max(whole);
        slowest.left_shared += u32::from(traced.stderr.contains("stays attached until it ends"));
        before.0.assert_as_before(pid);
        assert_code_is_of_its_files(pid);
    }
    if slowest.left_shared == 0 {
        assert_nothing_piles_up(pid, &before.1);
    }
    slowest
}

/// Attaches to the program of one row of the matrix; `None` if it cannot be built.
#[track_caller]
fn attached_to(cell: Cell, via: &str, attachments: u32) -> Option<(Said, Slowest)> {
    let target = Conversation::start(&cell.words()?);
    let slowest = attach_again_and_again(target.pid(), via, attachments, &cell);
    let (words, status) = target.last_words();
    assert_eq!(status.code(), Some(7), "{cell}: {words}");
    let said = Said::parse(&words);
    said.assert_unharmed(&cell);
    Some((said, slowest))
}

#[track_caller]
fn unharmed_by_attaching(attachments: u32, cells: &[Cell]) {
    for cell in cells {
        for via in ATTACHMENTS {
            let Some((_, slowest)) = attached_to(*cell, via, attachments) else { return };
            assert_eq!(slowest.left_shared, 0, "{via}: {cell}");
        }
    }
}

/// The values of `--via` that change the program in different ways.
const ATTACHMENTS: [&str; 2] = ["none", "sites"];

#[test]
fn timers_that_fire_while_the_program_sleeps_spins_and_waits() {
    unharmed_by_attaching(
        8,
        &[
            cell("real", 300, "sleep", 1),
            cell("real", 1000, "sleep", 1),
            cell("real", 4000, "sleep", 1),
            cell("real", 10_000, "sleep", 1),
            cell("real", 300, "spin", 1),
            cell("prof", 1000, "spin", 1),
            cell("real", 100, "all", 1),
            cell("thread", 100, "all", 1),
            cell("thread", 4000, "all", 64),
        ],
    );
}

#[test]
fn each_wait_goes_on_unnoticed() {
    for wait in ["read", "futex", "nanosleep", "epoll", "uring"] {
        unharmed_by_attaching(8, &[cell("thread", 4000, wait, 1)]);
    }
}

/// Signals that are read from a descriptor, real-time signals that are queued in hundreds, children that end all the
/// time, and no signals at all.
#[test]
fn signals_that_no_timer_sends() {
    unharmed_by_attaching(8, &[cell("signalfd", 300, "all", 1), cell("signalfd", 4000, "all", 4)]);
    for source in ["queue", "child", "none"] {
        unharmed_by_attaching(8, &[cell(source, 0, "all", 1), cell(source, 0, "all", 8)]);
    }
}

/// Waits that a signal ends in spite of SA_RESTART; `norestart`, the last one, has a handler without that flag.
const WAKES: [&str; 7] =
    ["suspend", "ppoll", "pselect", "epollp", "sigtimed", "pause", "norestart"];

#[test]
fn a_wait_that_a_signal_ends_is_ended_by_each_signal() {
    for wait in WAKES {
        unharmed_by_attaching(8, &[cell("wake", 0, wait, 1), cell("wake", 0, wait, 4)]);
    }
}

#[test]
fn threads_and_children_that_are_born_while_counting_ends() {
    unharmed_by_attaching(30, &[1, 3].map(|threads| cell("none", 0, "births", threads)));
}

/// Launches the program by these words, for so many turns. The counts of its clock reads must be those in the
/// report.
#[track_caller]
fn launched(cell: Cell, starter: &[&str], turns: u32) -> Option<Said> {
    let command = words![cell.words()?, turns.to_string()];
    let (code, output) = if starter[0] == "trace" {
        let traced = trace(&starter[1..], &command);
        assert_eq!(traced.code(), 7, "{starter:?} {cell}: {traced:?}");
        assert_counts(&Printed::parse(&traced.stdout), &traced.report());
        (traced.code(), traced.stdout)
    } else {
        let output = run(&starter[1..], &command);
        (code_as_shell(output.status), text(&output))
    };
    assert_eq!(code, 7, "{cell}: {output}");
    let said = Said::parse(&output);
    said.assert_unharmed(&cell);
    Some(said)
}

const LAUNCHES: [&[&str]; 7] = [
    &["trace"],
    &["trace", "--via", "sites"],
    &["trace", "--via", "none"],
    &["trace", "--via", "ptrace"],
    &["run", "--clock", "kernel"],
    &["run", "--clock", "syscall"],
    &["run", "--clock", "tsc", "--force"],
];

#[test]
fn launched_programs_with_timers_and_signals() {
    for starter in LAUNCHES {
        for cell in [
            cell("real", 300, "all", 1),
            cell("thread", 1000, "all", 8),
            cell("signalfd", 1000, "all", 1),
            cell("queue", 0, "all", 1),
            cell("child", 0, "all", 1),
            cell("wake", 0, "suspend", 1),
            cell("wake", 0, "norestart", 1),
        ] {
            launched(cell, starter, 60);
        }
    }
}

const PERIODS_US: [u32; 5] = [100, 300, 1000, 4000, 10_000];

/// All rows: each source with each period, waiting in all ways in turn; then each way of waiting by itself.
fn all_cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for threads in [1, 64] {
        for source in ["real", "prof", "thread", "signalfd"] {
            cells.extend(PERIODS_US.map(|period| cell(source, period, "all", threads)));
        }
        cells.extend(["queue", "child", "none"].map(|source| cell(source, 0, "all", threads)));
    }
    cells.extend(WAKES.map(|wait| cell("wake", 0, wait, 1)));
    for wait in ["sleep", "spin", "read", "futex", "nanosleep", "epoll", "uring"] {
        cells.push(cell("real", 300, wait, 1));
    }
    cells
}

/// Servers whose runtime sends signals to its own threads.
fn servers() -> Vec<(&'static str, Vec<OsString>)> {
    let go = builds::go_program("attach_server").map(|program| words![program, "6"]);
    let java = installed_or_skip(&["/usr/bin/java"]).zip(builds::java_class("AttachServer"));
    let java = java.map(|(java, classes)| words![java, "-cp", classes, "AttachServer", "4"]);
    let named = |name: &'static str| move |command| (name, command);
    go.map(named("Go, SIGURG preemption")).into_iter().chain(java.map(named("JVM"))).collect()
}

/// Launches a server by these words, and asks it so many times.
fn launched_server(command: &[OsString], starter: &[&str], times: u32) {
    let mut server = Conversation::start(&words![clockscope(), starter, "--", command]);
    server.begin();
    (0..times).for_each(|number| server.check_an_answer(number.into()));
    server.end();
    server.ends_well();
}

fn attached_to_server(name: &str, command: &[OsString], via: &str, attachments: u32) {
    let mut server = Conversation::start(command);
    server.begin();
    let slowest = attach_again_and_again(server.pid(), via, attachments, &name);
    server.end();
    server.check_health();
    print(via, &name, &slowest);
    server.ends_well();
}

fn print(way: &str, what: &dyn fmt::Display, found: &dyn fmt::Debug) {
    let _ = writeln!(stdout(), "{way}: {what}: {found:?}");
}

#[test]
#[ignore = "takes half an hour: make test-signals"]
fn the_matrix() {
    let wished = std::env::var("CLOCKSCOPE_ATTACHMENTS").ok();
    let times = wished.map_or(200, |text| text.parse().expect("a number of attachments"));
    let servers = servers();
    for via in ATTACHMENTS {
        for cell in all_cells() {
            let Some(found) = attached_to(cell, via, times) else { return };
            print(via, &cell, &found);
        }
        for (name, command) in &servers {
            attached_to_server(name, command, via, times);
        }
    }
    for starter in LAUNCHES {
        for cell in all_cells().into_iter().filter(|cell| cell.can_be_followed(starter)) {
            let Some(said) = launched(cell, starter, 5 * times) else { return };
            print(&starter.join(" "), &cell, &said);
        }
        for (_, command) in &servers {
            launched_server(command, starter, times);
        }
    }
}
