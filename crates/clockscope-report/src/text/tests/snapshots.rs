//! Snapshots of typical reports.

use crate::answers::cost;
use crate::options::SortBy;
use clockscope_containers::place::{Container, Place, Runtime};
use clockscope_model::trace::Clock;
use insta::assert_snapshot;

use super::*;
use crate::tests::{database, declines, latency, processes, vdso_only};
use clockscope_model::trace::{Ended, Overhead, SyscallRow, TraceReport, Way};

fn text(report: &TraceReport) -> String {
    render(report, &TextOptions::default())
}

/// The lines of a report from the one that begins with `begin` to the next empty one.
fn paragraph(text: &str, begin: &str) -> String {
    let lines = text.lines().skip_while(|line| !line.starts_with(begin));
    lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

/// The lines of a report with all details that begin with a label, and the lines that go on with it.
fn of_label(report: &TraceReport, label: &str) -> String {
    let printed = render(report, &TextOptions { all: true, ..TextOptions::default() });
    let mut lines = printed.lines().skip_while(|line| !line.starts_with(&format!("{label}:")));
    let first = lines.next().into_iter();
    first.chain(lines.take_while(|line| line.starts_with("  "))).collect::<Vec<_>>().join("\n")
}

#[test]
fn an_empty_report_says_that_nothing_was_counted() {
    assert_snapshot!(text(&TraceReport::default()), @r"
    program: still running, 0 ns (CPU 0 ns)
    Clock:        no reads

    no calls were counted
    ");
}

#[test]
fn a_report_of_vdso_calls_only() {
    assert_snapshot!(text(&vdso_only()));
}

#[test]
fn a_slow_clock_is_told_by_what_the_whole_program_would_take() {
    let mut report = vdso_only();
    report.clock_reads.clocksource_reads = report.vdso[0].calls;
    assert_snapshot!(of_label(&report, "Fallen back"), @r"
    Fallen back:  typical on bare metal: 1.2 us a read on hpet, 2.5 us a read on
                  acpi_pm; more in a virtual machine
    ");
    // Half of the CPU time was that of clock reads.
    report.cpu_ns = 2 * report.vdso[0].time_total_ns;
    let printed = text(&report);
    assert!(printed.contains("on hpet it would take 29 times as long"), "{printed}");
}

#[test]
fn vdso_calls_and_system_calls_share_a_table() {
    assert_snapshot!(text(&database()));
}

#[test]
fn summary_only_prints_the_table_and_what_is_missing_from_it() {
    let mut report = database();
    report.declines = declines();
    let options = TextOptions { summary_only: true, sort: SortBy::Calls, ..TextOptions::default() };
    let printed = render(&report, &options);
    assert!(paragraph(&printed, "Not counted").contains("wine (process 77): it is a 32-bit"));
    assert_snapshot!(paragraph(&printed, "% time"));
}

#[test]
fn great_numbers_leave_less_for_the_name() {
    let mut report = database();
    report.vdso[0].calls = 123_456_789_012;
    report.vdso[0].time_total_ns = 2_641_975_284_856_000;
    report.syscalls[2].errors = Some(1_234_567);
    let options = TextOptions { summary_only: true, ..TextOptions::default() };
    assert_snapshot!(render(&report, &options));
}

#[test]
fn thousands_of_declines_take_a_few_lines() {
    let mut report = TraceReport { declines: declines(), ..TraceReport::default() };
    let wine = report.declines[0].clone();
    for pid in 1_000..4_000 {
        report.declines.push(clockscope_model::trace::DeclineRow { pid, ..wine.clone() });
    }
    assert_snapshot!(paragraph(&text(&report), "Not counted"));
}

#[test]
fn many_reasons_are_cut_short() {
    let mut report = TraceReport::default();
    for pid in 1..=10 {
        let mut row = declines().remove(0);
        row.reason = format!("reason number {pid}");
        report.declines.push(row);
    }
    let printed = text(&report);
    assert!(printed.contains("reason number 8\n"), "{printed}");
    assert!(!printed.contains("reason number 9"), "{printed}");
    assert!(printed.contains("and 2 more reasons; --format json lists them all\n"), "{printed}");
}

#[test]
fn each_process_has_a_table() {
    let options = TextOptions { per_process: true, summary_only: true, ..TextOptions::default() };
    let printed = render(&processes(), &options);
    assert_snapshot!(&printed[printed.find("process 4021").expect("the first process")..]);
}

#[test]
fn each_thread_has_a_table() {
    let options = TextOptions { per_thread: true, summary_only: true, ..TextOptions::default() };
    let printed = render(&processes(), &options);
    let threads = printed.find("thread 4022 worker of process 4022").expect("the first thread");
    assert_snapshot!(&printed[threads..]);
}

#[test]
fn latency_adds_a_table_of_percentiles() {
    let mut report = database();
    report.syscalls[0].latency_ns = Some(latency(2_200));
    report.syscalls[1].latency_ns = Some(latency(400_000));
    let options = TextOptions { latency: true, summary_only: true, ..TextOptions::default() };
    let printed = render(&report, &options);
    assert_snapshot!(&printed[printed.find("Time of single calls").expect("a table")..]);
}

#[test]
fn reads_that_fall_back_to_a_system_call_are_pointed_out() {
    let mut report = vdso_only();
    report.vdso[0].time_avg_ps = 1_310_000;
    report.vdso[0].time_total_ns = 1_310_004_000;
    report.vdso[0].latency_ns = Some(latency(1_290));
    report.clock_reads.time_ns = 1_310_004_000;
    report.clock_reads.syscall_read_ps = 1_340_000;
    report.clock_reads.by_syscall_ns = 1_340_004_000;
    let printed = text(&report);
    assert!(printed.contains("\n 1.29us  1.61us  2.58us   155us vdso    clock_gettime(REALTIME)"));
    assert_snapshot!(of_label(&report, "Clock"), @r"
    Clock:        66 % of its CPU: 1,000,024 reads, 433k a second, 1.31 us each
                  half of the calls of clock_gettime(REALTIME) took 1.29 us or more,
                  as long as a system call takes (1.34 us here): they were not
                  answered in user space (clockscope doctor says why)
    ");
    report.slow_because =
        Some("the clocksource is hpet: the CPUs' counters differ [tsc-warp]".into());
    let printed = paragraph(&text(&report), "Clock");
    assert!(!printed.contains("doctor says"), "{printed}");
    assert!(printed.contains("\nWhy:          the clocksource is hpet: the CPUs'"), "{printed}");
}

#[test]
fn a_read_that_the_vdso_passes_on_is_one_read_and_nothing_is_said_of_other_hosts() {
    let mut report = vdso_only();
    report.clock_reads.reads = 1_011;
    report.clock_reads.passed_on = 1_009;
    report.clock_reads.clocksource_reads = 1_011;
    report.clock_reads.clocksource_passed_on = 1_009;
    report.via = Some(Way::Ptrace);
    let printed = text(&report);
    assert!(
        !printed.contains("on hpet") && of_label(&report, "Fallen back").is_empty(),
        "{printed}"
    );
    assert_snapshot!(of_label(&report, "Clock"), @r"
    Clock:        1.1 % of its CPU: 1,011 reads, 433k a second, 21.2 us each; 1,009
                  of them by the kernel, ptrace's stops included
    ");
}

#[test]
fn how_long_the_program_waited_for_a_cpu_is_told_where_it_matters() {
    let mut report = vdso_only();
    let first = |report: &TraceReport| text(report).lines().next().unwrap_or_default().to_owned();
    report.queued_ns = report.cpu_ns / 10 - 1;
    assert_eq!(first(&report), "./loop: exit code 0, 2.31 s (CPU 1.98 s)");
    report.queued_ns = 4_200_000_000;
    let told = "./loop: exit code 0, 2.31 s (CPU 1.98 s, waited for a CPU 4.2 s)";
    assert_eq!(first(&report), told);
    report.threads = 12;
    assert_eq!(first(&report), "./loop: exit code 0, 2.31 s (CPU 1.98 s), 1 process, 12 threads");
    assert_snapshot!(of_label(&report, "Waited"), @r"Waited:       4.2 s for CPUs on which something else ran");
    assert_eq!(of_label(&report, "Throttled"), "");
    report.throttled_ns = 3_100_000_000;
    assert_snapshot!(of_label(&report, "Throttled"), @r"Throttled:    for 3.1 s, all CPUs together, by its control group's quota");
}

#[test]
fn how_long_threads_stood_still_is_said_once() {
    let process = |pause_ns, threads, ended| Attached {
        command: "postgres".into(),
        threads,
        pause_ns,
        detach_pause_ns: if ended == Ended::Exited { 0 } else { 2_000_000 },
        ended,
        ..Attached::default()
    };
    let said = |attached: Vec<Attached>| {
        let report = TraceReport { attached, ..TraceReport::default() };
        paragraph(&text(&report), "Attached").split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let (long, short) = (process(400_000, 3, Ended::Duration), process(90_000, 1, Ended::Exited));
    let three = vec![short.clone(), long.clone(), short.clone()];
    assert_snapshot!([vec![long], vec![short], three].map(said).join("\n"), @r"
    Attached: all 3 threads stood still up to 400 us at the start and 2 ms at the end
    Attached: its thread stood still up to 90 us at the start; it exited
    Attached: 5 threads of 3 processes stood still up to 400 us at the start and 2 ms at the end; 2 exited
    ");
}

#[test]
fn of_several_processes_the_first_is_named_and_the_others_are_counted() {
    let process = |pid| Attached { pid, title: "nginx: worker".into(), ..Attached::default() };
    let head = |pids: &[i32]| {
        let attached = pids.iter().copied().map(process).collect();
        let text = text(&TraceReport { attached, ..TraceReport::default() });
        text.lines().next().unwrap_or_default().to_owned()
    };
    assert!(head(&[7]).starts_with("nginx: worker (7): attached"), "{}", head(&[7]));
    let several = head(&[7, 8, 9]);
    assert!(several.starts_with("nginx: worker (7) and 2 more: attached"), "{several}");
}

#[test]
fn the_first_line_says_that_reads_may_be_missing() {
    let mut report = TraceReport { declines: declines(), ..vdso_only() };
    assert!(cost(&report).ends_with("each; some may be missing: see \"Not counted\""));
    report.cpu_ns = 2_200_000_000;
    let few =
        "1,000,024 reads, 0.97 % of its CPU counted, some may be missing: see \"Not counted\"";
    assert_eq!(cost(&report), few);
    report.clock_reads.reads = 0;
    assert_eq!(cost(&report), "no reads counted, some may be missing: see \"Not counted\"");
}

#[test]
fn where_reads_are_no_burden_nothing_else_is_said() {
    let mut report = vdso_only();
    report.cpu_ns = 2_200_000_000;
    let clock = |report: &TraceReport| paragraph(&text(report), "Clock");
    assert_eq!(
        clock(&report),
        "Clock:        1,000,024 reads, 0.97 % of its CPU: not worth a thought\n\
         Calls:        system calls were not counted"
    );
    report.vdso[0].timed = 0;
    report.clock_reads.time_ns = 0;
    report.cpu_ns = 251_000_000_000;
    assert!(clock(&report).starts_with("Clock:        1,000,024 reads: not worth a thought\n"));
    report.cpu_ns = 249_000_000_000;
    assert!(clock(&report).contains("its reads would take 1.2 s on hpet"), "{}", clock(&report));
}

#[test]
fn where_processes_run_is_said_once_for_all_that_run_there() {
    let process = |pid, container: Option<&str>, unit: Option<&str>| Attached {
        pid,
        command: "postgres".into(),
        place: Place {
            container: container.map(|name| Container {
                runtime: Some(Runtime::Podman),
                id: "3f2a81c09d4b7e65f1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708".into(),
                name: Some(name.into()),
            }),
            pod: None,
            unit: unit.map(Into::into),
        },
        ..Attached::default()
    };
    let told = |attached: Vec<Attached>| -> String {
        let report = TraceReport { attached, ..TraceReport::default() };
        let text = text(&report);
        let behind = text.split_once("Runs in").map_or("", |(_, behind)| behind);
        let lines = format!("Runs in{behind}");
        lines.lines().take(4).map(|line| format!("{line}\n")).collect()
    };
    insta::assert_snapshot!(told(vec![
        process(7, Some("db\u{1b}[31m"), None),
        process(8, Some("db\u{1b}[31m"), None)
    ]));
    insta::assert_snapshot!(told(vec![
        process(7, Some("db"), None),
        process(8, None, Some("postgresql.service")),
        process(9, Some("db"), None),
        process(10, None, None),
    ]));
}

#[test]
fn a_program_killed_by_a_signal_is_said_to_be() {
    let mut report = vdso_only();
    (report.exit_code, report.signal, report.wall_ns) = (None, Some(9), 0);
    (report.vdso[0].timed, report.clock_reads.time_ns) = (0, 0);
    report.clock_reads.reads_per_second = f64::INFINITY;
    report.clock_reads.same_tick_share = None;
    report.overhead = Overhead::default();
    let printed = text(&report);
    assert!(printed.starts_with("./loop: killed by SIGKILL, 0 ns (CPU 1.98 s)\n"), "{printed}");
    assert!(printed.contains("\n     -        -          - 1000003        vdso    clock_get"));
    assert_snapshot!(of_label(&report, "Clock"), @r"
    Clock:        1,000,024 reads; none of them was timed
                  its reads would take 1.2 s on hpet, 2.5 s on acpi_pm
    ");
    report.signal = Some(40);
    assert!(text(&report).starts_with("./loop: killed by signal 40, 0 ns"), "real-time signal");
}

#[test]
fn counts_without_times_have_dashes() {
    let mut report = database();
    report.vdso.clear();
    for row in &mut report.syscalls {
        (row.time_total_ns, row.time_avg_ps, row.errors) = (0, 0, Some(0));
    }
    report.via = Some(Way::Ptrace);
    report.clock_reads = clockscope_model::trace::ClockReads::default();
    report.overhead = Overhead::default();
    assert_snapshot!(text(&report));
}

#[test]
fn foreign_text_cannot_break_the_table() {
    let mut report = TraceReport { schema: 1, exit_code: Some(3), ..TraceReport::default() };
    report.command = vec!["a\nb\u{1b}[31m".into(), "x".repeat(300).into()];
    report.syscalls =
        vec![SyscallRow { name: "evil\nname".into(), ..database().syscalls.remove(0) }];
    let printed = text(&report);
    assert!(!printed.contains('\u{1b}'));
    assert!(printed.starts_with("a?b?[31m x"), "{printed}");
    assert!(printed.contains(" evil?name\n"), "{printed}");
}

#[test]
fn a_clock_that_was_asked_for_is_not_advised_against() {
    let mut report = vdso_only();
    report.vdso[0].latency_ns = Some(latency(150));
    report.clock_reads.same_tick_share = Some(0.8);
    let has = |clock: Clock, text: &str| {
        let options = TextOptions { clock, all: true, ..TextOptions::default() };
        render(&report, &options).split_whitespace().collect::<Vec<_>>().join(" ").contains(text)
    };
    for (text, kernel, syscall, coarse) in [
        ("Time of single vDSO calls", true, false, false),
        ("half of the calls of", true, false, false),
        ("By syscall", true, false, true),
        // This host has fallen back, as the slow reads show.
        ("Fallen back", false, true, true),
        ("Same tick", true, true, false),
    ] {
        let found = [Clock::Kernel, Clock::Syscall, Clock::Coarse].map(|clock| has(clock, text));
        assert_eq!(found, [kernel, syscall, coarse], "{text}");
    }
}
