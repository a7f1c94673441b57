//! A program that reads the CPU's counter itself, which neither the vDSO nor the kernel sees, is told of.

use std::path::Path;

use clockscope_model::trace::{CounterReads, TraceReport};

use crate::support::attaching::Attachment;
use crate::support::builds::{self, Link};
use crate::support::conversation::Conversation;
use crate::support::printed::Printed;
use crate::support::running::trace;

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
