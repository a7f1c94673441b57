use super::*;
use crate::page::check;
use clockscope_model::callers::{CalledRow, Callers, CutRow, FrameKind, FrameRow, StackRow};
use clockscope_model::trace::{
    Attached, ClockReads, DeclineRow, Latency, Moment, Overhead, ProcessDetail, SyscallRow, VdsoRow,
};

const HOSTILE: &str = "</script><script>alert('1')</script> & \"x\u{1b}[2J\u{0}\u{202e}";

fn vdso(function: &str, clock: Option<&str>, calls: u64) -> VdsoRow {
    VdsoRow {
        function: function.into(),
        clock: clock.map(Into::into),
        calls,
        timed: calls,
        time_total_ns: calls * 21,
        time_avg_ps: 21_400,
        time_uncertain: false,
        latency_ns: Some(Latency {
            p50: 21,
            p90: 26,
            p99: 42,
            max: 2_500,
            buckets: vec![(20, 985), (40, 14), (2_400, 1)],
        }),
    }
}

fn syscall(name: &str, calls: u64, errors: u64) -> SyscallRow {
    let time_total_ns = calls * 2_310;
    let average = 2_310_000;
    SyscallRow {
        name: name.into(),
        calls,
        errors,
        time_total_ns,
        time_avg_ps: average,
        ..SyscallRow::default()
    }
}

fn frame(function: &str, module: &str) -> FrameRow {
    FrameRow {
        function: (!function.is_empty()).then(|| function.into()),
        module: (!module.is_empty()).then(|| module.into()),
        kind: if function.is_empty() { FrameKind::Unknown } else { FrameKind::Native },
        ..FrameRow::default()
    }
}

fn stack(frames: &[usize], calls: f64) -> StackRow {
    StackRow { pid: 7, frames: frames.to_vec(), samples: 1, calls, complete: true, called: 0 }
}

fn callers() -> Callers {
    Callers {
        samples: 100,
        freq: 1_000,
        called: vec![CalledRow {
            via: "vdso".to_owned(),
            name: "clock_gettime".to_owned(),
            clock: Some("CLOCK_MONOTONIC".to_owned()),
            calls: 10_000,
            samples: 100,
            ..CalledRow::default()
        }],
        frames: vec![
            frame("clock_gettime", "/usr/lib/libc.so.6"),
            frame("fifo_post", "/opt/server"),
            frame("main", "/opt/server"),
            frame("", "/opt/plugin.so"),
        ],
        stacks: vec![
            stack(&[0, 1, 2], 5_300.0),
            stack(&[0, 2], 4_698.0),
            StackRow { complete: false, ..stack(&[3], 2.0) },
        ],
        cut: vec![CutRow {
            reason: "there is no unwind information".to_owned(),
            module: Some("plugin.so".into()),
            samples: 2,
        }],
        ..Callers::default()
    }
}

fn process(pid: i32, parent: Option<i32>, command: &str, vdso_calls: u64) -> ProcessDetail {
    ProcessDetail { pid, parent, command: command.into(), vdso_calls, ..ProcessDetail::default() }
}

fn report() -> TraceReport {
    TraceReport {
        schema: 1,
        command: vec!["server".into(), "a b".into()],
        exit_code: Some(0),
        wall_ns: 2_000_000_000,
        cpu_ns: 1_000_000_000,
        processes: 1,
        threads: 4,
        via: "bpf".into(),
        vdso: vec![vdso("clock_gettime", Some("CLOCK_MONOTONIC"), 10_000)],
        syscalls: vec![syscall("read", 500, 3)],
        clock_reads: ClockReads {
            reads: 10_000,
            clocksource_reads: 10_000,
            reads_per_second: 5_000.0,
            time_ns: 210_000,
            by_syscall_ns: 1_520_000,
            syscall_read_ps: 152_000,
            typical_hpet_ns: 12_260_000,
            typical_acpi_pm_ns: 25_520_000,
            same_tick_share: Some(0.62),
            tick_ns: 4_000_000,
            ..ClockReads::default()
        },
        processes_detail: vec![process(7, None, "server", 10_000)],
        overhead: Overhead {
            syscall_probe_ps: 142_000,
            vdso_bracket_ps: 18_200,
            ..Overhead::default()
        },
        timeline: (1..=20)
            .map(|n| Moment {
                at_ns: n * 100_000_000,
                vdso_calls: n * n * 25,
                clock_reads: n * n * 25,
                syscall_calls: n * 25,
            })
            .collect(),
        callers: Some(callers()),
        ..TraceReport::default()
    }
}

fn page(report: &TraceReport) -> String {
    let html = render(report, &HostState::default());
    check::page_with_script(&html, SCRIPT);
    html
}

#[test]
fn a_report_with_everything_is_a_page_with_everything() {
    let html = page(&report());
    for words in [
        "How often server a b reads the clock",
        "<dd>5,000</dd>",
        "10,000 in 2 s, counted",
        "typical, not measured; 12.3 ms in all",
        "a read, fallen back to acpi_pm",
        "12.3 ms where it fell back to hpet, 58 times as much",
        "62 % of the precise reads came within the same 4 ms tick",
        "aria-sort=\"descending\">time</th>",
        "data-key=\"1155000\"",
        "fifo_post makes 53 % of the clock reads.",
        "Places that read a clock, most reads first",
        "blue: server, green: libc.so.6",
        "there is no unwind information",
        "142 ns a system call by eBPF",
        "clockscope trace --format html -o report.html -- server &#39;a b&#39;",
    ] {
        assert!(html.contains(words), "{words}");
    }
    assert_eq!(html.matches("<figure>").count(), 3);
    assert!(html.len() < 100_000, "{} bytes", html.len());
}

#[test]
fn nothing_is_a_page() {
    let html = page(&TraceReport::default());
    assert!(html.contains("No call was counted.") && html.contains("It read no clock."), "{html}");
    assert!(!html.contains("<figure>"));
}

#[test]
fn callers_without_stacks_are_said_to_be_unknown() {
    let report = TraceReport { callers: Some(Callers::default()), ..report() };
    assert!(page(&report).contains("nothing is known of the callers"));
}

#[test]
fn without_system_calls_the_page_says_so() {
    let report = TraceReport { syscalls: Vec::new(), via: "none".into(), ..report() };
    let html = page(&report);
    assert!(html.contains("System calls were not counted."));
    assert!(!html.contains(">syscall</td>"));
}

#[test]
fn typical_costs_are_not_given_where_the_host_has_fallen_back() {
    let mut report = report();
    report.clock_reads.clocksource_passed_on = 9_000;
    assert!(!page(&report).contains("typical"));
}

#[test]
fn names_of_others_stay_text() {
    let mut report = report();
    report.command = vec![HOSTILE.into()];
    report.vdso[0].function = HOSTILE.to_owned();
    report.syscalls[0].name = HOSTILE.to_owned();
    report.processes_detail = vec![process(7, None, HOSTILE, 5), process(8, Some(7), HOSTILE, 5)];
    let decline = DeclineRow {
        pid: 7,
        command: HOSTILE.into(),
        what: HOSTILE.to_owned(),
        reason: HOSTILE.to_owned(),
    };
    report.declines = vec![decline.clone()];
    report.attached =
        vec![Attached { command: HOSTILE.into(), ended: HOSTILE.into(), ..Attached::default() }];
    let callers = report.callers.get_or_insert_default();
    callers.frames[1] = frame(HOSTILE, HOSTILE);
    callers.called[0].name = HOSTILE.to_owned();
    callers.cut[0].reason = HOSTILE.to_owned();
    callers.declines = vec![decline];
    let html = page(&report);
    let scripts = html.to_lowercase().matches("<script").count();
    assert_eq!(scripts, 2, "the data and ours");
    assert!(html.contains("\\u003c/script\\u003e\\u003cscript\\u003ealert('1')"), "{html}");
    assert!(!html.contains(['\u{1b}', '\u{0}', '\u{202e}']), "{html}");
    assert!(!html.contains("\\u001b") && !html.contains("\\u0000"), "{html}");
}

#[test]
fn a_thousand_processes_take_few_lines() {
    let mut report = report();
    let mut all = vec![process(1, None, "make", 10)];
    all.extend((2..1_002).map(|pid| process(pid, Some(1), "cc1", u64::try_from(pid).unwrap())));
    all.extend((2_000..2_100).map(|pid| process(pid, Some(1), &format!("job{pid}"), 1)));
    report.processes_detail = all;
    let html = page(&report);
    assert!(html.contains("<b>cc1 \u{d7} 1,000</b>"), "{html}");
    assert!(html.contains("2 to 1,001 each"), "{html}");
    assert!(html.contains("<b>60 processes more</b>"), "{html}");
    assert!(html.contains("1,101 processes made 501,610 vDSO calls."), "{html}");
    assert!(html.len() < 100_000, "{} bytes", html.len());
}

#[test]
fn a_long_line_of_forks_is_cut_and_process_ids_may_come_again() {
    let mut report = report();
    report.processes_detail =
        (1..=500).map(|pid| process(pid, (pid > 1).then(|| pid - 1), "sh", 1)).collect();
    // The second process 1 is the child of the last one.
    report.processes_detail.push(process(1, Some(500), "again", 7));
    let html = page(&report);
    assert_eq!(html.matches("<details").count(), 8);
    assert!(html.contains("Below it: 493 processes, 499 vDSO calls"), "{html}");
    assert!(html.contains("with its children 507 vDSO calls (100 %)"), "{html}");
}

#[test]
fn a_process_names_its_calls_where_they_are_known() {
    let mut report = report();
    let mut child = process(8, Some(7), "worker", 30);
    child.vdso = vec![vdso("time", None, 30)];
    child.syscall_calls = Some(4);
    report.processes_detail.push(child);
    let html = page(&report);
    assert!(html.contains("Most calls: time 30"), "{html}");
    assert!(html.contains("30 vDSO calls (0.30 %), 4 system calls"), "{html}");
}

#[test]
fn attaching_is_told() {
    let mut report = report();
    report.command.clear();
    report.attached = vec![Attached {
        pid: 42,
        command: "redis-server".into(),
        threads: 5,
        pause_ns: 640_000,
        detach_pause_ns: 0,
        ended: "duration".into(),
    }];
    let html = page(&report);
    assert!(html.contains("How often redis-server reads the clock"));
    let pauses = ">640 us</td><td data-label=\"stood still at the end\">-</td>";
    assert!(html.contains(pauses), "{html}");
    assert!(html.contains("-p 42 --duration 2"), "{html}");
    // The command of an attachment names what was attached to, and is none to type.
    report.command = vec!["redis-server (42)".into()];
    let html = page(&report);
    assert!(html.contains("-p 42 --duration 2") && !html.contains("-- &#39;"), "{html}");
}

/// Frames of the view as lines, indented by their depth.
fn drawn(callers: &Callers) -> Vec<String> {
    let (view, _) = flame_tree::FlameTree::new(callers, &|pid| format!("p{pid}")).view();
    let line = |(depth, name, calls): &(u32, usize, u64)| {
        format!("{}{} {calls}", " ".repeat(*depth as usize), view.names[*name])
    };
    view.frames.iter().map(line).collect()
}

#[test]
fn stacks_become_a_tree_with_the_busiest_first() {
    let expected = [
        "all calls 10000",
        " p7 10000",
        "  main 9998",
        "   fifo_post 5300",
        "    clock_gettime 5300",
        "     clock_gettime(MONOTONIC) 5300",
        "   clock_gettime 4698",
        "    clock_gettime(MONOTONIC) 4698",
    ];
    assert_eq!(drawn(&callers()), expected, "two calls are too few to be drawn");
    let mut callers = callers();
    callers.stacks[2].calls = 1_000.0;
    let expected = ["  [cut] 1000", "   [plugin.so] 1000", "    clock_gettime(MONOTONIC) 1000"];
    assert_eq!(drawn(&callers)[8..], expected);
}

#[test]
fn what_is_too_small_is_put_together() {
    let mut callers = callers();
    callers.frames = (0..4_000).map(|n| frame(&format!("f{n}"), "m")).collect();
    callers.stacks = (0..4_000).map(|n| stack(&[n], if n == 0 { 4_000.0 } else { 1.0 })).collect();
    let expected = [
        "all calls 7999",
        " p7 7999",
        "  f0 4000",
        "   clock_gettime(MONOTONIC) 4000",
        "  (other) 3999",
    ];
    assert_eq!(drawn(&callers), expected);
}

#[test]
fn twenty_thousand_stacks_make_a_page_of_sane_size() {
    let mut report = report();
    let mut callers = callers();
    callers.frames = (0..5_000)
        .map(|n| {
            frame(&format!("core::very::long::name::of::function_number_{n}"), "/usr/bin/server")
        })
        .collect();
    callers.stacks = (0..20_000_usize)
        .map(|n| {
            let frames: Vec<usize> =
                (0..40).map(|level| (n / (level + 1) * 7 + level) % 5_000).collect();
            let calls = 10_000.0 / f64::from(u32::try_from(n).unwrap() + 1);
            stack(&frames, calls)
        })
        .collect();
    report.callers = Some(callers);
    let html = page(&report);
    assert!(html.len() < 1_500_000, "{} bytes", html.len());
}

#[test]
fn stacks_that_point_nowhere_do_no_harm() {
    let mut callers = callers();
    callers.stacks = vec![
        StackRow { called: 99, frames: vec![77, 1], ..stack(&[], 10.0) },
        stack(&[1], f64::NAN),
        stack(&[1], -4.0),
    ];
    assert_eq!(drawn(&callers), ["all calls 10", " p7 10", "  fifo_post 10"]);
    callers.stacks.clear();
    assert_eq!(drawn(&callers), ["all calls 0"]);
}

#[test]
fn sentences_begin_and_end_as_sentences() {
    for (clause, expected) in [
        ("half of them", "Half of them."),
        ("vDSO calls of x: y", "vDSO calls of x: y."),
        ("clock_gettime is slow", "clock_gettime is slow."),
        ("\u{e4}rger!", "\u{c4}rger!"),
        ("", "."),
    ] {
        assert_eq!(sentence(clause), expected);
    }
}
