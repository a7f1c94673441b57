//! In work, threads and instructions, on this machine: what is known by construction comes out, and
//! the sections say what was measured.

use std::collections::BTreeMap;

use clap::Parser as _;
use clockscope::cli::measure::BenchArgs;
use clockscope::cli::{Cli, Command};
use clockscope_measure::bench::{chosen, extras};
use clockscope_model::bench::{BenchReport, InstructionsRow};
use clockscope_report::bench::{in_work, instructions, threads};
use clockscope_sys::affinity;

fn args(words: &str) -> BenchArgs {
    let words = ["clockscope", "bench"].into_iter().chain(words.split_whitespace());
    match Cli::try_parse_from(words).expect("a command line").command {
        Command::Bench(args) => args,
        other => panic!("{other:?} is not bench"),
    }
}

/// What is beside the costs in the report of `clockscope bench WORDS`.
fn measured(words: &str) -> BenchReport {
    let args = args(words);
    let chosen = chosen::choose(&args.request()).expect("names that exist");
    let mut report = BenchReport::default();
    extras::add(&args.extras(), &args.request(), &chosen, &mut report, &|_| {});
    report
}

fn instructions_of(words: &str) -> BTreeMap<String, InstructionsRow> {
    let report = measured(&format!("--instructions {words}"));
    assert!(report.notes.is_empty(), "{:?}", report.notes);
    let found = report.instructions.expect("they were asked for");
    let name = |row: &InstructionsRow| {
        let subject = row.name.clock.as_deref().or(row.name.call.as_deref());
        format!("{} by {}", subject.expect("a name"), row.name.route)
    };
    found.rows.iter().map(|row| (name(row), row.clone())).collect()
}

/// The vDSO route makes no system call, the system call route makes one and is not in the vDSO, and
/// the library does what the vDSO does and something more.
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

/// Counters are there for all rows, with more instructions than stepping has seen, or for none, and
/// then the section says why.
#[test]
fn counters_are_there_or_their_absence_is_said() {
    let report = measured("--instructions syscalls read");
    let found = report.instructions.expect("they were asked for");
    let row = &found.rows[0];
    match &found.no_counters {
        Some(reason) => {
            assert_eq!((row.counted, row.counted_user, row.cycles, row.ipc), Default::default());
            let text = instructions::render(&found);
            assert!(text.contains("this host shows no hardware counters"), "{text}");
            assert!(reason.len() > 10, "{reason}");
        }
        None => {
            let stepped = row.user.expect("it was stepped") as f64;
            assert!(row.counted.expect("counted") > stepped + 100.0, "{row:?}");
            assert!((row.counted_user.expect("counted") - stepped).abs() < 1.0, "{row:?}");
        }
    }
}

#[test]
fn a_system_call_costs_about_as_much_in_work_as_alone() {
    let report = measured("--quick --in-work syscalls getppid enosys");
    assert!(in_work::render(&report.in_work).contains("getppid by syscall "));
    assert_eq!(report.in_work.len(), 2);
    for row in report.in_work.iter().filter(|row| row.grade != "unusable") {
        // It is far dearer than the work beside it: it cannot hide in it.
        let alone = i64::try_from(row.alone_ps).expect("a cost");
        assert!(row.compute_ps > alone / 2 && row.memory_ps > alone / 2, "{row:?}");
    }
}

#[test]
fn threads_run_on_cpus_of_their_own_and_too_many_are_declined() {
    let allowed = affinity::allowed().expect("they are known").len();
    let report = measured("--quick --threads 1,2,4000 --route vdso monotonic");
    assert!(threads::render(&report.threads).contains("MONOTONIC by vdso "));
    let never = "--threads 2 was not measured: the host is so busy that the threads never ran";
    let is_busy = report.notes.iter().any(|note| note.starts_with(never));
    let expected = if allowed < 2 || is_busy { vec![1] } else { vec![1, 2] };
    let counts: Vec<u32> = report.threads.iter().map(|row| row.threads).collect();
    assert_eq!(counts, expected, "{:?}", report.notes);
    for row in &report.threads {
        let cpus: std::collections::BTreeSet<u32> = row.cpus.iter().copied().collect();
        assert_eq!(cpus.len(), row.cost_ps_by_thread.len());
        assert!(row.calls_per_second > 0.0 && row.efficiency > 0.0, "{row:?}");
    }
    let last = report.notes.last().expect("a note");
    assert!(last.starts_with("--threads 4000 was not measured: 4000 threads need"), "{last}");
}

#[test]
fn the_calling_thread_may_run_where_it_could_before() {
    let before = affinity::allowed().expect("they are known");
    measured("--quick --in-work --threads 1 rdtsc");
    assert_eq!(affinity::allowed().expect("they are known"), before);
}

#[test]
fn every_system_call_is_described_on_the_page() {
    let page = include_str!("../../../../docs/bench.md");
    for name in clockscope_measure::system_calls::names() {
        assert!(page.contains(&format!("| `{name}` |")), "docs/bench.md does not describe {name}");
    }
}
