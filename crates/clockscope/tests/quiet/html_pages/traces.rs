//! Reports of `trace` for the tests of its page: a server that reads the clock too often.

use clock_doctor::state::HostState;
use clockscope_containers::place::{Container, Place, Runtime};
use clockscope_model::callers::{CalledRow, Callers, CutRow, FrameKind, FrameRow, StackRow};
use clockscope_model::trace::{
    Attached, ClockReads, DeclineRow, Latency, Moment, Overhead, ProcessDetail, SyscallRow,
    TraceReport, VdsoRow, WhatIf,
};

/// Names of functions and their files, from `main` to the wrapper in the C library.
const FUNCTIONS: [(&str, &str); 12] = [
    ("start_thread", "/usr/lib/x86_64-linux-gnu/libc.so.6"),
    ("main", "/usr/bin/freeDiameterd"),
    ("fd_psm_th", "/usr/lib/libfdcore.so.7"),
    ("fd_msg_rt_th", "/usr/lib/libfdcore.so.7"),
    ("fd_fifo_post_internal", "/usr/lib/libfdproto.so.7"),
    ("fd_fifo_tget", "/usr/lib/libfdproto.so.7"),
    ("fd_log_time<script>alert(1)</script>", "/usr/lib/libfdproto.so.7"),
    (
        "std::collections::hash_map::HashMap<alloc::string::String, core::time::Duration>::insert",
        "/usr/lib/librust_extension.so",
    ),
    ("clock_gettime", "/usr/lib/x86_64-linux-gnu/libc.so.6"),
    ("gettimeofday_caller", "/usr/lib/extensions/dict_legacy_xml.fdx"),
    ("v8::internal::Runtime_DateCurrentTime", "/usr/bin/node"),
    ("", "/usr/lib/stripped.so"),
];
/// Stacks as indices of functions, the caller first, and their calls in thousands.
const STACKS: [(&[usize], u32); 9] = [
    (&[8, 4, 2, 0], 530),
    (&[8, 5, 2, 0], 160),
    (&[8, 4, 3, 0], 90),
    (&[8, 6, 3, 0], 70),
    (&[8, 6, 5, 3, 0], 60),
    (&[8, 7, 1], 40),
    (&[9, 1], 30),
    (&[8, 10, 1], 15),
    (&[8, 11], 5),
];

/// The report.
pub(crate) fn server() -> TraceReport {
    TraceReport {
        schema: 1,
        command: ["freeDiameterd", "-c", "/etc/freeDiameter/<&>.conf"].map(Into::into).to_vec(),
        exit_code: Some(0),
        wall_ns: 12_000_000_000,
        cpu_ns: 9_000_000_000,
        processes: 14,
        threads: 61,
        via: "bpf".into(),
        vdso: vec![
            vdso("clock_gettime", Some("CLOCK_REALTIME"), 970_000, 21),
            vdso("clock_gettime", Some("CLOCK_PROCESS_CPUTIME_ID"), 1_200, 243),
            vdso("gettimeofday", None, 30_000, 22),
        ],
        syscalls: vec![
            syscall("futex", 402_113, 1_204, 3_200),
            syscall("epoll_wait", 98_002, 0, 41_000),
            syscall("read", 51_000, 12, 900),
            syscall("openat", 340, 31, 1_900),
        ],
        clock_reads: ClockReads {
            reads: 1_001_200,
            reads_per_second: 83_433.0,
            time_ns: 21_400_000,
            by_syscall_ns: 152_000_000,
            syscall_read_ps: 152_000,
            typical_hpet_ns: 1_227_000_000,
            typical_acpi_pm_ns: 2_555_000_000,
            same_tick_share: Some(0.97),
            tick_ns: 4_000_000,
            passed_on: 0,
            clocksource_reads: 1_000_900,
            ..ClockReads::default()
        },
        processes_detail: processes(),
        declines: vec![DeclineRow {
            pid: 4100,
            command: "old32".into(),
            what: "vdso".into(),
            reason: "it is a 32-bit program".into(),
        }],
        what_if: Some(WhatIf {
            from_ratio: true,
            read_ps: Some(260_000),
            cpu_ns: Some(1_200_000_000),
            times_as_long: Some(3.0),
        }),
        overhead: Overhead {
            syscall_probe_ps: 142_000,
            bystander_tax_ps: 40_000,
            syscall_subtracted_ps: 61_000,
            vdso_bracket_ps: 18_200,
        },
        timeline: timeline(),
        callers: Some(callers()),
        attached: vec![attached()],
        ..TraceReport::default()
    }
}

/// A process in a container with a hostile name.
fn attached() -> Attached {
    Attached {
        pid: 4021,
        command: "freeDiameterd".into(),
        title: "freeDiameterd --daemon".into(),
        threads: 61,
        pause_ns: 1_640_000,
        detach_pause_ns: 902_000,
        ended: "duration".into(),
        place: Place {
            container: Some(Container {
                runtime: Some(Runtime::Docker),
                id: "3f2a81c09d4b7e65f1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708".into(),
                name: Some("<b>diameter".into()),
            }),
            pod: None,
            unit: None,
        },
    }
}

/// A machine.
pub(crate) fn host() -> HostState {
    HostState {
        date: "2026-05-04T12:00:00Z".to_owned(),
        clockscope: "1.0.0".to_owned(),
        kernel: "6.12.9".to_owned(),
        arch: "x86_64".to_owned(),
        cpu_model: Some("A CPU of some kind @ 2.50GHz".to_owned()),
        cpus_online: 8,
        clocksource: Some("tsc".to_owned()),
        clocksources_available: ["tsc", "hpet", "acpi_pm"].map(String::from).to_vec(),
        ..HostState::default()
    }
}

fn vdso(function: &str, clock: Option<&str>, calls: u64, ns: u64) -> VdsoRow {
    VdsoRow {
        function: function.into(),
        clock: clock.map(Into::into),
        calls,
        timed: calls / 100,
        time_total_ns: calls * ns,
        time_avg_ps: ns * 1_000,
        time_avg_within_ps: None,
        time_uncertain: false,
        latency_ns: Some(latency(ns)),
    }
}

fn syscall(name: &str, calls: u64, errors: u64, ns: u64) -> SyscallRow {
    SyscallRow {
        name: name.into(),
        number: 0,
        calls,
        errors: Some(errors),
        time_total_ns: calls * ns,
        time_avg_ps: ns * 1_000,
        latency_ns: Some(latency(ns)),
        waits: clockscope_model::waiting::waits(name),
        ..SyscallRow::default()
    }
}

fn latency(ns: u64) -> Latency {
    let buckets = [(16, 900), (17, 4_000), (18, 2_200), (20, 700), (24, 90), (40, 12), (900, 2)];
    Latency {
        p50: ns * 17 / 16,
        p90: ns * 19 / 16,
        p99: ns * 24 / 16,
        max: ns * 900 / 16,
        buckets: buckets.map(|(sixteenths, calls)| (ns * sixteenths / 16, calls)).to_vec(),
    }
}

fn processes() -> Vec<ProcessDetail> {
    let process = |pid, parent, command: &str, vdso_calls| ProcessDetail {
        pid,
        parent,
        command: command.into(),
        vdso_calls,
        ..ProcessDetail::default()
    };
    let mut all = vec![
        process(4021, None, "freeDiameterd", 980_000),
        process(4030, Some(4021), "sh", 200),
        process(4031, Some(4030), "a-program-with-a-rather-long-name-that-goes-on", 16_000),
    ];
    all[0].vdso = server_rows();
    all[0].syscall_calls = Some(540_000);
    all.extend((4040..4050).map(|pid| process(pid, Some(4021), "date", 500)));
    all.push(process(4100, Some(4031), "old32", 0));
    all
}

fn server_rows() -> Vec<VdsoRow> {
    vec![
        vdso("clock_gettime", Some("CLOCK_REALTIME"), 950_000, 21),
        vdso("gettimeofday", None, 30_000, 22),
    ]
}

fn timeline() -> Vec<Moment> {
    let (mut reads, mut calls) = (0, 0);
    (1..=240)
        .map(|n: u64| {
            reads += if n > 120 && n < 150 { 11_000 } else { 2_800 + (n * 7_919) % 900 };
            calls += 2_200 + (n * 104_729) % 500;
            Moment {
                at_ns: n * 50_000_000,
                vdso_calls: reads + n,
                clock_reads: reads,
                syscall_calls: calls,
            }
        })
        .collect()
}

fn callers() -> Callers {
    let frame = |(function, module): &(&str, &str)| FrameRow {
        function: (!function.is_empty()).then(|| (*function).into()),
        module: Some((*module).into()),
        kind: if function.is_empty() { FrameKind::Unknown } else { FrameKind::Native },
        ..FrameRow::default()
    };
    let called = |name: &str, clock: Option<&str>, calls| CalledRow {
        via: "vdso".to_owned(),
        name: name.to_owned(),
        clock: clock.map(str::to_owned),
        calls,
        samples: calls / 1_000,
        ..CalledRow::default()
    };
    let stack = |(frames, thousands): &(&[usize], u32)| StackRow {
        called: usize::from(frames[0] == 9),
        pid: 4021,
        frames: frames.to_vec(),
        samples: u64::from(*thousands),
        calls: f64::from(*thousands) * 1_000.0,
        complete: frames.len() > 1 && *frames != [8, 11],
    };
    Callers {
        samples: 1_000,
        lost: 3,
        freq: 1_000,
        called: vec![
            called("clock_gettime", Some("CLOCK_REALTIME"), 970_000),
            called("gettimeofday", None, 30_000),
        ],
        frames: FUNCTIONS.iter().map(frame).collect(),
        stacks: STACKS.iter().map(stack).collect(),
        cut: vec![CutRow {
            reason: "there is no unwind information".to_owned(),
            module: Some("/usr/lib/stripped.so".into()),
            samples: 5,
        }],
        cost_share: 0.004,
        waits: None,
        ..Callers::default()
    }
}
