//! `bench --instructions` on this machine: counts that follow from how a route works come out as expected.

use std::collections::BTreeMap;

use clap::Parser as _;
use clockscope::cli::{Cli, Command};
use clockscope_measure::bench::{self, chosen};
use clockscope_model::bench::{Instructions, InstructionsRow};
use clockscope_report::bench::instructions;

/// The instruction counts of `clockscope bench --instructions WORDS`, and its notes.
fn measured(words: &str) -> (Instructions, Vec<String>) {
    let words = ["clockscope", "bench"].into_iter().chain(words.split_whitespace());
    let command = Cli::try_parse_from(words).expect("a command line").command;
    let Command::Bench(args) = command else { panic!("{command:?} is not bench") };
    let chosen = chosen::choose(&args.plan.request).expect("names that exist");
    bench::instructions::of(&chosen.paths)
}

fn instructions_of(words: &str) -> BTreeMap<String, InstructionsRow> {
    let (found, notes) = measured(words);
    assert!(notes.is_empty(), "{notes:?}");
    let name = |row: &InstructionsRow| {
        let subject = row.name.clock.as_deref().or(row.name.call.as_deref());
        format!("{} by {}", subject.expect("a name"), row.name.route)
    };
    found.rows.iter().map(|row| (name(row), row.clone())).collect()
}

/// The vDSO route makes no system call. The system call route makes one and executes nothing of the vDSO. The C
/// library executes the instructions of the vDSO and some of its own.
#[test]
fn instructions_show_who_enters_the_kernel() {
    let found = instructions_of("monotonic monotonic_coarse time getcpu");
    for clock in ["CLOCK_MONOTONIC", "CLOCK_MONOTONIC_COARSE", "time"] {
        let of = |route: &str| found[&format!("{clock} by {route}")].clone();
        let (libc, vdso, syscall) = (of("libc"), of("vdso"), of("syscall"));
        assert_eq!((syscall.syscalls, syscall.in_vdso), (Some(1), Some(0)), "{syscall:?}");
        assert!(vdso.in_vdso > Some(0) && vdso.in_vdso <= vdso.user, "{vdso:?}");
        if libc.in_vdso > Some(0) {
            assert_eq!((libc.in_vdso, libc.syscalls), (vdso.in_vdso, vdso.syscalls));
            assert!(libc.user >= vdso.in_vdso, "{libc:?}");
        }
    }
}

#[test]
fn two_system_calls_are_two_and_each_enters_the_kernel() {
    let found = instructions_of("syscalls getppid open+close mmap+munmap read enosys");
    for (name, row) in &found {
        let expected = if name.contains('+') { 2 } else { 1 };
        assert_eq!((row.syscalls, row.in_vdso), (Some(expected), Some(0)), "{name}: {row:?}");
        let (agreeing, repeats) = row.agreeing.expect("it was stepped");
        assert_eq!(agreeing, repeats, "{name}: nothing retries outside of the vDSO");
    }
}

/// The CPU's counters give a figure for every row, larger than the stepped count; or for none, and then the section
/// gives the reason.
#[test]
fn counters_are_there_or_their_absence_is_said() {
    let (found, _) = measured("syscalls read");
    let row = &found.rows[0];
    let stepped = row.user.expect("it was stepped") as f64;
    match &found.no_counters {
        Some(reason) => {
            assert_eq!((row.counted, row.cycles), (None, None));
            let text = instructions::render(&found);
            assert!(text.contains("the kernel's instructions are not counted: "), "{text}");
            assert!(reason.len() > 10, "{reason}");
        }
        None => {
            assert!(row.counted.expect("counted") > stepped + 100.0, "{row:?}");
            assert!(row.cycles.expect("counted") > 0.0, "{row:?}");
        }
    }
}

#[test]
fn every_system_call_is_described_on_the_page() {
    let page = include_str!("../../../../docs/measuring.md");
    for name in clockscope_measure::system_calls::names() {
        let row = format!("| `{name}` |");
        assert!(page.contains(&row), "docs/measuring.md does not describe {name}");
    }
}
