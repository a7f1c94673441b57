//! A program that reads the CPU's counter itself, which neither the vDSO nor the kernel sees, is told of.

use std::collections::BTreeMap;
use std::path::Path;

use clockscope_model::trace::{CountedReads, CounterReads, Counters, TraceReport};
use clockscope_tracee::lacks;

use crate::support::attaching::{Attachment, attach_for, signal, status_of, wait_until};
use crate::support::builds::{self, Link};
use crate::support::conversation::Conversation;
use crate::support::printed::Printed;
use crate::support::running::{Tracing, child_of, trace};

/// The instructions in the program's own file are as many as it says, and in the functions that it names.
fn assert_told(report: &TraceReport, program: &Path, said: &Printed) {
    let path = program.canonicalize().expect("is there");
    let is_own = |row: &&CounterReads| Path::new(row.file.verbatim()) == path;
    let row = report.counter_reads.iter().find(is_own).unwrap_or_else(|| panic!("{report:#?}"));
    let functions = row.functions.iter().map(|name| format!("function {}", name.verbatim()));
    let places = row.places.map(|places| format!("places {places}"));
    let mut told: Vec<String> = functions.chain(places).collect();
    told.sort_unstable();
    assert_eq!(said.results, told);
    assert!(!row.of_system, "{row:?}");
}

/// The program has the same bytes where they are no instructions, too.
#[test]
fn each_instruction_of_a_launched_program_is_found() {
    for link in [Link::Dynamic, Link::MuslStatic] {
        let Some(program) = builds::c("counter", link) else { return };
        let traced = trace(&["--via", "none"], &words![&program]);
        assert_told(&traced.report().model(), &program, &Printed::parse(&traced.stdout));
    }
}

#[test]
fn a_running_program_is_searched_too() {
    let Some(program) = builds::c("counter", Link::Dynamic) else { return };
    let mut running = Conversation::start(&words![&program, "asked"]);
    let attachment = Attachment::to(&[running.pid()], &["--via", "none"]);
    running.say("");
    let said = Printed::parse(&running.wait_for("done"));
    let report = attachment.detach().report().model();
    running.say("");
    assert_told(&report, &program, &said);
}

#[test]
fn a_program_without_such_instructions_has_none_but_those_of_the_system() {
    let Some(program) = builds::c("reads", Link::Dynamic) else { return };
    let report = trace(&["--via", "none"], &words![&program, "10"]).report().model();
    assert!(report.counter_reads.iter().all(|row| row.of_system), "{report:#?}");
}

/// The reads of each function as the program says, all processes together.
fn by_function_said(said: &Printed) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for (function, reads) in
        said.results.iter().filter_map(|it| it.strip_prefix("by ")?.split_once(' '))
    {
        let reads: u64 = reads.parse().expect("a number");
        *all.entry(function.to_owned()).or_default() += reads;
    }
    all
}

fn by_function(counters: &Counters) -> BTreeMap<String, u64> {
    let name = |row: &CountedReads| row.function.as_ref().expect("a symbol").verbatim().to_owned();
    counters.by_function.iter().map(|row| (name(row), row.reads)).collect()
}

/// Runs the program under `--counters`, and compares what all its processes say they read.
fn assert_counted(link: Link, words: &[&str]) -> TraceReport {
    let program = builds::c("counted_reads", link).expect("a compiler");
    let mut command = words![&program].to_vec();
    command.extend(words.iter().map(Into::into));
    let traced = trace(&["--counters"], &command).succeeded();
    let (report, said) = (traced.report().model(), Printed::parse(&traced.stdout));
    let sum = |name: &str| {
        let of = said.results.iter().filter_map(|result| result.strip_prefix(name));
        of.map(|reads| reads.trim().parse::<u64>().expect("a number")).sum::<u64>()
    };
    let counters = report.counters.as_ref().expect("asked for");
    let counted = [counters.rdtsc, counters.rdtscp];
    assert_eq!(counted, [sum("rdtsc "), sum("rdtscp ")], "{link:?} {words:?} {report:#?}");
    assert_eq!(by_function(counters), by_function_said(&said), "{link:?} {words:?} {report:#?}");
    assert_eq!(sum("wrong "), 0, "{link:?} {words:?}");
    report
}

/// Whichever way a program reads the counter: each read is counted, and gives what it would without.
#[test]
fn reads_are_counted_in_the_program() {
    if lacks::SITES.is_some() {
        return;
    }
    for link in [Link::Dynamic, Link::Static, Link::MuslStatic] {
        for words in [
            &["200000"][..],
            &["50000", "threads"],
            &["200", "timer"],
            &["5000", "forks"],
            &["2000", "forbidden"],
        ] {
            let report = assert_counted(link, words);
            let file = report.counter_reads.iter().find(|row| !row.of_system);
            let file = file.unwrap_or_else(|| panic!("{report:#?}")).file.printable();
            let left = format!(
                "reads by 2 instructions of {file}: 1 in functions that jump to computed addresses, 1 with no room"
            );
            let reasons = report.declines.iter().map(|row| &row.reason);
            assert!(reasons.clone().any(|it| it.contains(&left)), "{reasons:#?}");
        }
    }
}

/// The program goes on with what the killed tracer has left in it, and checks what it reads.
#[test]
fn a_killed_tracer_changes_nothing_that_a_program_reads() {
    let Some(program) = builds::c("counted_reads", Link::Dynamic) else { return };
    for round in 0..12 {
        let tracing = Tracing::new(&["--counters"], &words![&program, "10", "asked"]);
        let mut running = Conversation::start(&tracing.words());
        let pid = child_of(running.pid()).expect("its child");
        (0..round).for_each(|_| drop(running.wait_for("looked")));
        signal("KILL", running.pid());
        wait_until("the tracer has ended", || status_of(pid, "TracerPid").as_deref() == Some("0"));
        if round % 2 == 0 {
            attach_for("0.02", &[pid], &["--via", "sites"]).succeeded();
        }
        running.say("");
        running.wait_for("result wrong 0");
    }
}
