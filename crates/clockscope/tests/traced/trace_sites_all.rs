//! `clockscope trace --via both` on every program of `tests/tracees`: code in the program counts each system call as
//! often as the kernel does.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::builds::{self, Link};
use crate::support::running::{Tracing, rows};
use crate::support::{installed_or_skip, is_root_or_skip, sources};

/// One run of a program: its source, arguments, input lines, and the allowed difference of the two counts.
type Run = (&'static str, &'static [&'static str], &'static str, Differ);

#[derive(Clone, Copy, Debug)]
enum Differ {
    Never,
    /// The kernel repeats a call that a signal has interrupted, and counts an error and one more call.
    MadeAgain,
    /// As `MadeAgain`. Besides, so many threads are cancelled or killed, and each may be counted by the code for a call
    /// that it does not make any more.
    NotMade(u64),
}
use Differ::{MadeAgain, Never, NotMade};

const RUNS: &[Run] = &[
    ("reads.c", &[], "", Never),
    ("own_parser.c", &[], "", Never),
    ("threads.c", &["all", "40"], "", Never),
    ("threads.c", &["churn", "200"], "", Never),
    ("sites.c", &["signals"], "", MadeAgain),
    ("sites.c", &["cancel"], "", NotMade(400)),
    ("sites.c", &["joined"], "", Never),
    ("sites.c", &["refused"], "", Never),
    ("sites.c", &["faulting"], "", Never),
    ("sites.c", &["halted"], "", MadeAgain),
    ("sites.c", &["stackless"], "", Never),
    ("sites.c", &["errors"], "", Never),
    ("site_filters.c", &["late"], "", Never),
    ("site_filters.c", &["late-by-prctl"], "", Never),
    ("site_filters.c", &["pinned"], "", Never),
    ("site_places.c", &["cancel"], "", NotMade(200)),
    ("site_signal.c", &[], "", MadeAgain),
    ("site_times.c", &["plain"], "", Never),
    ("site_times.c", &["handlers"], "", MadeAgain),
    ("site_times.c", &["forbids"], "", Never),
    ("site_times.c", &["leaps"], "", MadeAgain),
    ("urgent.c", &["ignored"], "", Never),
    ("urgent.c", &["handled"], "", Never),
    ("urgent.c", &["sent"], "", NotMade(1)),
    ("signals.c", &[], "", MadeAgain),
    ("tree.c", &["fork"], "", Never),
    ("tree.c", &["exec"], "", Never),
    ("tree.c", &["vfork"], "", Never),
    ("tree.c", &["spawn"], "", Never),
    ("tree.c", &["thread-exec"], "", Never),
    ("tree.c", &["prefork"], "", Never),
    ("shared_vm.c", &["process", "calls"], "", Never),
    ("shared_vm.c", &["thread", "calls"], "", Never),
    ("shared_vm.c", &["zero", "calls"], "", Never),
    ("roundtrips.c", &["2000"], "", Never),
    ("caller_state.c", &["sweep", "50"], "", Never),
    ("start_state.c", &[], "", Never),
    ("sandwich.c", &["0"], "", Never),
    ("page_clock.c", &["order", "4", "50"], "", Never),
    ("page_clock.c", &["bound", "50", "1000"], "", Never),
    ("page_clock.c", &["count", "101", "0"], "", Never),
    ("page_clock.c", &["fork", "11"], "", Never),
    ("page_clock.c", &["forbid", "10"], "", Never),
    ("page_clock.c", &["strict"], "", Never),
    ("slow_reads.c", &["20", "1"], "", Never),
    ("shares.c", &["100"], "", Never),
    ("queued.c", &[], "", Never),
    ("surveyed.c", &["syscall"], "how many?\n", Never),
    ("surveyed.c", &["cpu"], "how many?\n", Never),
    ("confined.c", &["nothing"], "", Never),
    ("confined.c", &["no-tsc"], "", Never),
    ("confined.c", &["undumpable"], "", Never),
    ("confined.c", &["files=0"], "", Never),
    ("confined.c", &["stdout-only"], "", Never),
    ("confined.c", &["no-ptrace"], "", Never),
    ("confined.c", &["clock-calls-kill"], "", Never),
    ("own_vdso.c", &["look"], "", Never),
    ("own_vdso.c", &["unmap"], "", Never),
    ("own_vdso.c", &["move"], "", Never),
    ("privileged.c", &[], "", Never),
    ("traced_inside.c", &[], "", Never),
    ("unwind.c", &["calls"], "", MadeAgain),
    ("timers.c", &["none", "1000", "all", "2", "40"], "", Never),
    ("timers.c", &["real", "1000", "all", "2", "40"], "", MadeAgain),
    ("realtime.c", &["order", "10"], "", Never),
    ("ignored_signals.c", &["unlimited"], "", MadeAgain),
    ("ignored_signals.c", &["stopped"], "", MadeAgain),
    ("killed_forkers.c", &["20"], "", Never),
    ("waits.c", &[], "a line\n", Never),
    ("steady.c", &[], "", MadeAgain),
    ("killer.c", &["5000000", "/bin/true"], "", Never),
    ("hostile.c", &["victim"], "hide\nend\n", Never),
    ("call_sites.c", &["flat", "10"], "", Never),
    ("call_sites.c", &["threads", "10"], "", Never),
    ("call_sites.c", &["fork", "10"], "", Never),
    ("call_sites.c", &["exec", "10"], "", Never),
    ("callers.c", &["10"], "", Never),
    ("prices.c", &["reads", "10", "10", "10"], "", Never),
    ("prices.c", &["family"], "wait\nwait\n", Never),
    ("diameter.c", &["100"], "", Never),
    ("attachable.c", &["3"], "calls 10\nfork 10\nexec /bin/true\nend\n", Never),
    ("attach_server.c", &["4"], "begin\nend\nsum 7\nfork 10\nexec 10\nhealth\n", Never),
    ("attach_states.c", &["waits"], "count\n", Never),
    ("callers.cpp", &["10"], "", Never),
    ("callers.rs", &["10"], "", Never),
    ("reads.rs", &[], "", Never),
    ("rustix", &[], "", Never),
    ("callers.go", &["10"], "", Never),
    ("reads.go", &["100", "3"], "", Never),
    ("attach_server.go", &["3"], "begin\nend\nfork 10\n", Never),
    ("callers.js", &["10"], "", Never),
    ("reads.js", &["10"], "", Never),
    ("callers.py", &["10"], "", Never),
    ("many_threads.py", &["20", "5"], "", Never),
    ("reads.py", &[], "", Never),
    ("reads.pl", &[], "", Never),
    ("Reads.java", &["10"], "", Never),
    ("Callers.java", &["10"], "", Never),
    ("AttachServer.java", &["3"], "begin\nend\n", Never),
];

/// Sources without a run of their own, and the reason.
const LEFT_OUT: &[(&str, &str)] = &[
    ("README.md", "is read"),
    ("call_sites.h", "is a part of others"),
    ("say.h", "is a part of others"),
    ("vdso_reader.h", "is a part of others"),
    ("denies_counter.c", "is a library to be preloaded"),
    ("jumps.c", "is a library"),
    ("jumps.py", "needs that library, and a clock of `run`"),
    ("waits.py", "needs that library, and a clock of `run`"),
    ("executes.c", "never ends"),
    ("spin.c", "reads a clock until it is ended"),
    ("numbers.c", "makes calls that have no name: trace_sites.rs"),
    ("preempted.c", "is interrupted as often as time allows"),
    ("maps_files.c", "maps what it is given: trace_sites.rs"),
    ("transfers.c", "waits for others to read and write"),
    ("woken.c", "waits for the end of its input"),
    ("stacks", "belongs to the tests of the unwinder, which stop its programs themselves"),
];

/// The words that run a program; `None` if it cannot be built or is not installed.
fn words_of(source: &str, arguments: &[&str]) -> Option<Vec<OsString>> {
    let (name, kind) = source.split_once('.').unwrap_or((source, ""));
    let place = || sources().join(source);
    let mut words: Vec<OsString> = match (name, kind) {
        ("start_state", _) => words![builds::c_with(
            name,
            Link::Static,
            &["-nostdlib", "-fno-stack-protector", "-mno-sse"]
        )?]
        .to_vec(),
        ("unwind", _) => words![builds::c_with(name, Link::Dynamic, &["-rdynamic"])?].to_vec(),
        ("callers", "c") => words![builds::c_with(name, Link::Dynamic, &["-lm"])?].to_vec(),
        (_, "c") => words![builds::c(name, Link::Dynamic)?].to_vec(),
        (_, "cpp") => words![builds::cpp_with(name, &["-g"])?].to_vec(),
        ("reads", "rs") => words![builds::rust_std()?].to_vec(),
        (_, "rs") => words![builds::rust_with(name, &["-g"])?].to_vec(),
        (_, "go") => words![builds::go_program(name)?].to_vec(),
        ("rustix", _) => words![builds::rustix()?].to_vec(),
        (_, "java") => {
            words![installed_or_skip(&["/usr/bin/java"])?, "-cp", builds::java_class(name)?, name]
                .to_vec()
        }
        (_, kind) => {
            let interpreter = match kind {
                "js" => "/usr/bin/node",
                "py" => "/usr/bin/python3",
                _ => "/usr/bin/perl",
            };
            words![installed_or_skip(&[interpreter])?, place()].to_vec()
        }
    };
    words.extend(arguments.iter().map(OsString::from));
    Some(words)
}

/// Calls that only the kernel counts: the return from signal handlers, and the resumption of a stopped call.
const BY_THE_KERNEL: [&str; 2] = ["rt_sigreturn", "restart_syscall"];

fn is_explained(row: &Value, differ: Differ) -> bool {
    let number = |field: &str| row[field].as_u64().expect("a number");
    let (sites, kernel) = (number("sites"), number("kernel"));
    sites == kernel
        || BY_THE_KERNEL.iter().any(|name| row["name"] == *name)
        || match differ {
            Never => false,
            NotMade(most) if kernel < sites => sites - kernel <= most,
            MadeAgain | NotMade(_) => {
                kernel.checked_sub(sites).is_some_and(|again| again <= number("kernel_errors"))
            }
        }
}

fn assert_equal(runs: impl Iterator<Item = &'static Run>) {
    if !is_root_or_skip() {
        return;
    }
    let mut wrong = Vec::new();
    for (source, arguments, input, differ) in runs {
        let Some(words) = words_of(source, arguments) else { continue };
        let traced = Tracing::new(&["--via", "both"], &words).finish_with_input(input);
        let report = traced.report();
        let compared = || rows(report.field("by_sites"));
        let differences = compared().filter(|row| !is_explained(row, *differ));
        let differences: Vec<String> = differences.map(ToString::to_string).collect();
        if !differences.is_empty() || compared().next().is_none() {
            wrong.push(format!("{source} {arguments:?}: {differences:#?}\n{traced:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_program_is_compared_or_left_out_for_a_reason() {
    let known: BTreeSet<&str> =
        RUNS.iter().map(|run| run.0).chain(LEFT_OUT.iter().map(|left| left.0)).collect();
    let name = |path: PathBuf| path.file_name().expect("a name").to_string_lossy().into_owned();
    let listed = |folder: &Path| -> BTreeSet<String> {
        let files = std::fs::read_dir(folder).expect("list tests/tracees");
        files.map(|file| name(file.expect("a file").path())).collect()
    };
    let there = listed(&sources());
    let there: BTreeSet<&str> = there.iter().map(String::as_str).collect();
    assert_eq!(known, there);
}

fn is_c(run: &&Run) -> bool {
    run.0.ends_with(".c")
}

#[test]
fn c_programs_are_counted_as_by_the_kernel() {
    assert_equal(RUNS.iter().filter(is_c).step_by(2));
}

#[test]
fn other_c_programs_are_counted_as_by_the_kernel() {
    assert_equal(RUNS.iter().filter(is_c).skip(1).step_by(2));
}

#[test]
fn programs_in_other_languages_are_counted_as_by_the_kernel() {
    assert_equal(RUNS.iter().filter(|run| !is_c(run)));
}
