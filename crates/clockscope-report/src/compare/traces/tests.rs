use super::*;
use crate::callers::samples::server;
use clock_doctor::state::HostState;
use clockscope_model::trace::SyscallRow;
use clockscope_text::lines::{WIDTH, width};

fn source(file: &str, report: TraceReport) -> TraceSource {
    TraceSource { file: file.to_owned(), report }
}

fn host(clocksource: &str, command_line: &str) -> Option<HostState> {
    Some(HostState {
        kernel: "6.1.0".to_owned(),
        clocksource: Some(clocksource.to_owned()),
        command_line: Some(command_line.to_owned()),
        ..HostState::default()
    })
}

/// The server on a machine with the TSC.
fn fast() -> TraceReport {
    let mut report = server();
    report.host = host("tsc", "ro quiet");
    report.overhead.vdso_bracket_ps = 18_000;
    for row in &mut report.vdso {
        row.time_avg_within_ps = Some(400);
    }
    report
}

/// The same program, moved to another machine: other folders, other offsets, other lines. There it reads an hpet, has
/// a new caller and lost one.
fn slow() -> TraceReport {
    let mut report = fast();
    report.host = host("hpet", "ro quiet");
    (report.wall_ns, report.cpu_ns) = (2_400_000_000, 1_900_000_000);
    for row in &mut report.vdso[..2] {
        (row.time_avg_ps, row.time_avg_within_ps) = (1_230_000, Some(9_000));
    }
    report.clock_reads.time_ns = 615_002_460;
    report.clock_reads.clocksource_passed_on = 500_002;
    let callers = report.callers.as_mut().unwrap();
    for frame in &mut callers.frames {
        frame.address += 0x40;
        frame.line = frame.line.map(|line| line + 3);
        let module = frame.module.as_ref().unwrap().verbatim().replace("/opt/", "/srv/2/");
        frame.module = Some(module.as_str().into());
    }
    callers.frames[13].function = Some("fd_fifo_select".into());
    report
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_old_machine_against_the_new_one() {
    let report = compare(&source("old.json", fast()), &source("new.json", slow()), 10.0);
    insta::assert_snapshot!(text::render(&report, false), @r"
    old.json -> new.json

    A clock read costs 1.23 us instead of 24.2 ns: 51 times as much (36 to 84). The
      program reads the clock 208,334 times a second instead of 250,001 (in both
      runs 500,002 reads). That takes 32 % of the CPU time instead of 0.81 %.

                                  before             after
    a clock read       24.2 ns +- 9.4 ns  1.23 us +- 18 ns
    clock reads                  500,002           500,002
    reads a second               250,001           208,334
    share of CPU time             0.81 %              32 %
    CPU time                       1.5 s             1.9 s
    wall time                        2 s             2.4 s

    Host: clocksource: tsc, then hpet.
    Host: clock reads: answered in user space, then passed on to the kernel.

    call                      calls  then  per s   then  a call     then
    clock_gettime(MONOTONIC)   400k  400k   200k   167k   24 ns  1.23 us  dearer
    gettimeofday               100k  100k    50k  41.7k   25 ns  1.23 us  dearer
    1 other: no change of 10 % found (--all shows them)

    reads by             per s   then  of all reads          then
    fd_fifo_select           -    50k  below 0.38 %     24 +- 2 %  new
    fd_fifo_timedget       60k      -     24 +- 2 %  below 0.38 %  gone
    libplugin.so.2+0x77  4,000      -  1.6 +- 0.9 %  below 0.38 %  gone
    libplugin.so.2+0xb7      -  3,333  below 0.38 %  1.6 +- 0.9 %  new
    3 others: no change found (--all shows them)

    Certain:      the counts of calls of these two runs
    Not certain:  that two more runs would differ likewise: rates, costs and shares
                  change with the load, too, and single runs cannot say by how much.
                  +- covers how calls were timed and which stacks were sampled
    Note:         Both read the clock as often in all, as two runs of the same work
                  do: compare numbers of calls.
    Note:         Callers without a name are matched by file and offset, so both
                  must be of one build.
    ");
}

#[test]
fn a_run_is_no_different_from_itself() {
    let report = compare(&source("a", fast()), &source("b", fast()), 10.0);
    assert!(report.rows.iter().all(|row| row.change == Change::Same), "{report:?}");
    assert_eq!(report.rows[0].cost_change, CostChange::Same);
    assert!(report.callers.unwrap().iter().all(|caller| caller.change == Change::Same));
    assert_eq!(report.host_changes, [""; 0]);
    assert!(report.conclusion[0].starts_with("No change found in what a clock read costs: 24.2"));
}

#[test]
fn a_handful_of_reads_says_nothing_of_the_work() {
    let mut few = fast();
    few.clock_reads.reads = 7;
    let report = compare(&source("a", few.clone()), &source("b", few), 10.0);
    assert!(report.notes[0].contains("unless both did the same work"), "{report:?}");
}

#[test]
fn a_change_is_one_of_the_number_and_of_the_rate() {
    let table = [
        ((100.0, 10.0), (100.0, 10.0), Change::Same),
        ((100.0, 10.0), (100.0, 5.0), Change::Same), // The same work, in twice the time.
        ((100.0, 10.0), (300.0, 10.0), Change::Same), // Counted three times as long.
        ((100.0, 10.0), (109.0, 10.9), Change::Same),
        ((100.0, 10.0), (112.0, 11.2), Change::More),
        ((112.0, 11.2), (100.0, 10.0), Change::Fewer),
        ((100.0, 10.0), (200.0, 5.0), Change::Mixed),
    ];
    for (before, after, expected) in table {
        assert_eq!(Matters(0.1).change(before, after), expected, "{before:?} {after:?}");
    }
}

#[test]
fn costs_differ_beyond_what_timing_is_wrong_by() {
    let cost = |average_ps, within_ps| Cost { average_ps, within_ps };
    let change = |a, b| Matters(0.1).cost_change(&a, &b);
    // Two runs of one program on one busy machine.
    assert_eq!(change(cost(22_280, Some(11_200)), cost(30_205, Some(7_900))), CostChange::Same);
    assert_eq!(change(cost(24_000, Some(9_400)), cost(60_000, Some(9_400))), CostChange::Dearer);
    assert_eq!(change(cost(60_000, Some(9_400)), cost(24_000, Some(9_400))), CostChange::Cheaper);
    assert_eq!(change(cost(100_000, Some(10)), cost(105_000, Some(10))), CostChange::Same);
    assert_eq!(change(cost(24_000, Some(9_400)), cost(60_000, None)), CostChange::NotKnown);
}

#[test]
fn an_older_report_does_not_say_how_well_a_cost_is_known() {
    let mut old = fast();
    old.host = None;
    for row in &mut old.vdso {
        row.time_avg_within_ps = None;
    }
    let report = compare(&source("old.json", old), &source("new.json", slow()), 10.0);
    assert_eq!(report.before.read_cost.unwrap().within_ps, Some(21_100), "half of it, and timing");
    assert_eq!(sentences::cost_change(&report), CostChange::Dearer);
    let said = words(&text::render(&report, false));
    assert!(said.contains("old.json does not say on which machine it was made."), "{said}");
    assert!(!said.contains("Host: clocksource"), "{said}");
}

#[test]
fn what_was_not_counted_did_not_go() {
    let mut with = fast();
    with.via = "bpf".to_owned();
    let row = SyscallRow { name: "read".to_owned(), calls: 9, ..SyscallRow::default() };
    with.syscalls = vec![row];
    let report = compare(&source("a", with.clone()), &source("b", fast()), 10.0);
    assert!(report.rows.iter().all(|row| row.via == "vdso"), "{report:?}");
    assert!(report.notes.iter().any(|note| note.starts_with("One report did not count system")));
    let mut without = with.clone();
    without.syscalls.clear();
    let report = compare(&source("a", with), &source("b", without), 10.0);
    let read = report.rows.iter().find(|row| row.name == "read").unwrap();
    assert_eq!(read.change, Change::Went);
}

#[test]
fn a_caller_without_a_name_is_known_by_the_same_offset_of_the_same_file_only() {
    let unnamed = |report: &TraceReport, change: fn(&mut clockscope_model::callers::FrameRow)| {
        let mut other = report.clone();
        change(&mut other.callers.as_mut().unwrap().frames[12]);
        let report = compare(&source("a", report.clone()), &source("b", other), 10.0);
        let mut callers = report.callers.unwrap().into_iter();
        let is_it = |name: &str| name.starts_with("libplugin.so.2+");
        callers.find(|c| c.before.is_seen && c.function.as_deref().is_some_and(is_it)).unwrap()
    };
    let report = fast();
    assert!(unnamed(&report, |_| ()).after.is_seen);
    assert!(!unnamed(&report, |frame| frame.address += 1).after.is_seen);
    let moved = unnamed(&report, |frame| frame.module = Some("/srv/libplugin.so.2".into()));
    assert!(!moved.after.is_seen, "{moved:?}");
}

#[test]
fn a_source_file_tells_functions_of_one_name_apart_where_both_reports_know_it() {
    let stamps = |with_file: bool| {
        let mut report = fast();
        let callers = report.callers.as_mut().unwrap();
        callers.frames[13].function = Some("stamp".into());
        let module = callers.frames[6].module.clone();
        callers.frames[13].module = module;
        callers.frames[13].file = with_file.then(|| "/src/queue.c".into());
        let report = compare(&source("a", report), &source("b", fast()), 10.0);
        let callers = report.callers.unwrap();
        callers.iter().filter(|caller| caller.function.as_deref() == Some("stamp")).count()
    };
    assert_eq!(stamps(true), 2);
    assert_eq!(stamps(false), 1);
}

#[test]
fn few_samples_make_no_caller_new() {
    let mut few = fast();
    let callers = few.callers.as_mut().unwrap();
    callers.called.iter_mut().for_each(|row| row.samples_effective = 3.0);
    callers.stacks.remove(1);
    let report = compare(&source("a", few), &source("b", fast()), 10.0);
    assert!(report.callers.unwrap().iter().all(|caller| caller.change == Change::Same));
}

#[test]
fn no_figure_is_too_large_and_no_line_too_wide() {
    let mut vast = slow();
    vast.command = vec!["x".repeat(300).as_str().into()];
    for row in &mut vast.vdso {
        (row.calls, row.time_total_ns, row.time_avg_ps) = (u64::MAX, u64::MAX, u64::MAX);
        row.time_avg_within_ps = Some(u64::MAX);
    }
    (vast.clock_reads.reads, vast.clock_reads.time_ns) = (u64::MAX, u64::MAX);
    vast.callers.as_mut().unwrap().stacks[0].calls = f64::MAX;
    let empty = TraceReport::default();
    for (a, b) in [
        (fast(), vast.clone()),
        (vast.clone(), fast()),
        (empty.clone(), vast),
        (empty.clone(), empty),
    ] {
        let report = compare(&source("a", a), &source("b", b), 10.0);
        for all in [false, true] {
            let text = text::render(&report, all);
            let wide = text.lines().find(|line| width(line) > WIDTH);
            assert_eq!(wide, None, "{text}");
        }
    }
}
