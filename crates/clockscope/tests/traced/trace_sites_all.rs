//! `clockscope trace --via both` on every program of `tests/tracees`: code in the program counts each system call as
//! often as the kernel does.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::builds::{self, Link};
use crate::support::running::{Tracing, rows};
use crate::support::{installed_or_skip, root_or_skip, sources};

/// Runs of programs: source and arguments, input lines, and the allowed difference of the two counts; or a source without
/// a run of its own, and the reason.
const RUNS: &str = include_str!("site_runs.txt");

/// A row of the table.
struct Run {
    source: &'static str,
    arguments: Vec<&'static str>,
    input: String,
    differ: Differ,
}

fn runs() -> Vec<Run> {
    let run = |row: &'static str| {
        let columns: Vec<&str> = row.split('|').map(str::trim).collect();
        let [words, input, differ] = columns[..] else {
            assert_eq!(columns.len(), 2, "{row}");
            return None;
        };
        let mut words = words.split(' ');
        let differ = match differ {
            "Never" => Never,
            "MadeAgain" => MadeAgain,
            "Preempted" => Preempted,
            _ if differ.starts_with("Named ") => Named(&differ["Named ".len()..]),
            _ if differ.starts_with("Rarely ") => Rarely(&differ["Rarely ".len()..]),
            _ => NotMade(differ.strip_prefix("NotMade ").and_then(|n| n.parse().ok()).expect(row)),
        };
        let source = words.next().expect("a source");
        let arguments = words.collect();
        Some(Run { source, arguments, input: input.replace("\\n", "\n"), differ })
    };
    RUNS.lines().filter_map(run).collect()
}

#[derive(Clone, Copy, Debug)]
enum Differ {
    Never,
    /// The kernel repeats a call that a signal has interrupted, and counts an error and one more call.
    MadeAgain,
    /// As `MadeAgain`, but at most once for each return from a handler. Go's runtime sends SIGURG to a thread whose goroutine has
    /// run for 10 ms, also because others had the CPU, and the thread may wait by the time it arrives.
    Preempted,
    /// As `MadeAgain`. Besides, so many threads are cancelled or killed, and each may be counted by the code for a call
    /// that it does not make any more.
    NotMade(u64),
    /// Instructions that make these calls are left alone, and the report names their files.
    Named(&'static str),
    /// As `Named`, but threads come there only when they meet, so it is a two-hundredth of the calls at most, and two. In glibc 2.36
    /// these are `pthread_cond_signal` and `pthread_cond_broadcast`, where another thread holds the variable's lock.
    Rarely(&'static str),
}
use Differ::{MadeAgain, Named, Never, NotMade, Preempted, Rarely};

/// The words that run a program; `None` if it cannot be built or is not installed.
fn words_of(source: &str, arguments: &[&str]) -> Option<Vec<OsString>> {
    let (name, kind) = source.split_once('.').unwrap_or((source, ""));
    let words = match (name, kind) {
        ("start_state", _) => {
            let alone = ["-nostdlib", "-fno-stack-protector", "-mno-sse"];
            words![builds::c_with(name, Link::Static, &alone)?]
        }
        ("site_alone", _) => words![builds::alone()?],
        ("unwind", _) => words![builds::c_with(name, Link::Dynamic, &["-rdynamic"])?],
        ("callers", "c") => words![builds::c_with(name, Link::Dynamic, &["-lm"])?],
        (_, "c") => words![builds::c(name, Link::Dynamic)?],
        (_, "cpp") => words![builds::cpp_with(name, &["-g"])?],
        (_, "rs") => words![builds::rust_with(name, &["-g"])?],
        (_, "go") => words![builds::go_program(name)?],
        ("rustix", _) => words![builds::rustix()?],
        (_, "java") => {
            words![installed_or_skip(&["/usr/bin/java"])?, "-cp", builds::java_class(name)?, name]
        }
        (_, kind) => {
            let interpreter = match kind {
                "js" => "/usr/bin/node",
                "py" => "/usr/bin/python3",
                _ => "/usr/bin/perl",
            };
            words![installed_or_skip(&[interpreter])?, sources().join(source)]
        }
    };
    Some(words![words, arguments])
}

/// Calls that only the kernel counts: the return from signal handlers, and the resumption of a stopped call.
const BY_THE_KERNEL: [&str; 2] = ["rt_sigreturn", "restart_syscall"];

fn is_explained(row: &Value, differ: Differ, returns: u64) -> bool {
    let number = |field: &str| row[field].as_u64().expect("a number");
    let (sites, kernel) = (number("sites"), number("kernel"));
    sites == kernel
        || BY_THE_KERNEL.iter().any(|name| row["name"] == *name)
        || match differ {
            Never => false,
            Named(calls) => sites < kernel && calls.split(' ').any(|name| row["name"] == name),
            Rarely(call) => {
                row["name"] == call && sites < kernel && kernel - sites <= 2 + kernel / 200
            }
            NotMade(most) if kernel < sites => sites - kernel <= most,
            Preempted => {
                let again = number("kernel_errors").min(returns);
                sites <= kernel && kernel - sites <= again
            }
            MadeAgain | NotMade(_) => {
                kernel.checked_sub(sites).is_some_and(|again| again <= number("kernel_errors"))
            }
        }
}

fn assert_equal(runs: impl Iterator<Item = Run>) {
    let Some(()) = root_or_skip() else { return };
    let mut wrong = Vec::new();
    for Run { source, arguments, input, differ } in runs {
        let Some(words) = words_of(source, &arguments) else { continue };
        let traced = Tracing::new(&["--via", "both"], &words).finish_with_input(&input);
        let report = traced.report();
        let compared = || rows(report.field("by_sites"));
        let returned = compared().find(|row| row["name"] == "rt_sigreturn");
        let returns = returned.map_or(0, |row| row["kernel"].as_u64().expect("a number"));
        let differences = compared().filter(|row| !is_explained(row, differ, returns));
        let mut differences: Vec<String> = differences.map(ToString::to_string).collect();
        if matches!(differ, Named(_) | Rarely(_)) && !report.has_syscall_reason("calls by") {
            differences.push("not named".to_owned());
        }
        if !differences.is_empty() || compared().next().is_none() {
            wrong.push(format!("{source} {arguments:?}: {differences:#?}\n{traced:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_program_is_compared_or_left_out_for_a_reason() {
    let known: BTreeSet<&str> =
        RUNS.lines().map(|row| row.split(' ').next().expect("a source")).collect();
    let name = |path: PathBuf| path.file_name().expect("a name").to_string_lossy().into_owned();
    let listed = |folder: &Path| -> BTreeSet<String> {
        let files = std::fs::read_dir(folder).expect("list tests/tracees");
        files.map(|file| name(file.expect("a file").path())).collect()
    };
    let there = listed(&sources());
    let there: BTreeSet<&str> = there.iter().map(String::as_str).collect();
    assert_eq!(known, there);
}

fn is_c(run: &Run) -> bool {
    run.source.ends_with(".c")
}

#[test]
fn c_programs_are_counted_as_by_the_kernel() {
    assert_equal(runs().into_iter().filter(is_c).step_by(2));
}

#[test]
fn other_c_programs_are_counted_as_by_the_kernel() {
    assert_equal(runs().into_iter().filter(is_c).skip(1).step_by(2));
}

#[test]
fn programs_in_other_languages_are_counted_as_by_the_kernel() {
    assert_equal(runs().into_iter().filter(|run| !is_c(run)));
}
