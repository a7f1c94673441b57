//! Hand-made stacks for tests.

use clockscope_model::callers::{
    CalledRow, Callers, CutRow, FrameKind, FrameRow, PairRow, StackRow,
};
use clockscope_model::trace::{
    ClockReads, DeclineRow, Latency, Missing, ProcessDetail, SyscallRow, TraceReport, VdsoRow, Via,
    Way,
};
use clockscope_text::foreign::Foreign;

const SERVER: &str = "/opt/diameter/bin/diameterd";
const LIBRARY: &str = "/opt/diameter/lib/libfdproto.so.7";
const LIBC: &str = "/usr/lib/x86_64-linux-gnu/libc.so.6";

/// A function of a file, with the source line of the call if known.
pub fn frame(function: &str, module: &str, address: u64, line: Option<(&str, u32)>) -> FrameRow {
    FrameRow {
        function: Some(function.into()),
        module: Some(module.into()),
        address,
        file: line.map(|(file, _)| file.into()),
        line: line.map(|(_, line)| line),
        start: None,
        kind: FrameKind::Native,
    }
}

/// Calls of a vDSO function.
pub fn vdso(name: &str, clock: Option<&str>, calls: u64, samples: u64) -> CalledRow {
    let clock = clock.map(str::to_owned);
    CalledRow {
        via: Via::Vdso,
        name: name.to_owned(),
        clock,
        calls,
        samples,
        samples_effective: 1e3,
        estimated: false,
    }
}

/// A complete stack of process 4021.
pub fn stack(called: usize, frames: &[usize], samples: u64, calls: f64) -> StackRow {
    StackRow { called, pid: 4_021, frames: frames.to_vec(), samples, calls, complete: true }
}

fn frames() -> Vec<FrameRow> {
    let fifo = "/src/libfdproto/fifo.c";
    let server = "/src/diameterd/server.c";
    let log = "/src/diameterd/log.c";
    vec![
        frame("clock_gettime", LIBC, 0xcf8d0, None),
        frame("fd_fifo_post_internal", LIBRARY, 0x5120, Some((fifo, 512))),
        frame("fd_fifo_post", LIBRARY, 0x5400, Some((fifo, 540))),
        frame("receiver", SERVER, 0x8800, Some((server, 88))),
        frame("start_thread", LIBC, 0x89134, None),
        frame("clone3", LIBC, 0x109a80, None),
        FrameRow { kind: FrameKind::Inlined, ..frame("stamp", SERVER, 0x1700, Some((log, 17))) },
        frame("log_line", SERVER, 0x1700, Some((log, 40))),
        frame("main", SERVER, 0x2000, Some((server, 200))),
        frame("__libc_start_call_main", LIBC, 0x2724a, None),
        frame("__libc_start_main@@GLIBC_2.34", LIBC, 0x27305, None),
        frame("_start", SERVER, 0x1021, None),
        FrameRow {
            function: None,
            kind: FrameKind::Unknown,
            ..frame("", "/opt/plugins/libplugin.so.2", 0x77, None)
        },
        frame("fd_fifo_timedget", LIBRARY, 0x6100, None),
        frame("log_line", SERVER, 0x1744, Some((log, 44))),
    ]
}

fn callers() -> Callers {
    let cut = StackRow { complete: false, ..stack(0, &[0, 12], 60, 8_000.0) };
    Callers {
        samples: 3_400,
        lost: 12,
        stripped: Vec::new(),
        freq: 1_000,
        called: vec![
            vdso("clock_gettime", Some("CLOCK_MONOTONIC"), 400_001, 3_000),
            vdso("gettimeofday", None, 100_001, 400),
            vdso("getcpu", None, 7, 0),
        ],
        frames: frames(),
        stacks: vec![
            stack(0, &[0, 1, 2, 3, 4, 5], 1_590, 212_000.4),
            stack(0, &[0, 13, 3, 4, 5], 900, 120_000.3),
            stack(1, &[14, 3, 4, 5], 400, 100_001.0),
            stack(0, &[0, 6, 7, 3, 4, 5], 300, 40_000.1),
            stack(0, &[0, 6, 7, 8, 9, 10, 11], 150, 20_000.2),
            cut,
        ],
        pairs: vec![
            PairRow { first: 0, second: 1, samples: 700, share: 0.55, gap_ns: 120 },
            PairRow { first: 3, second: 0, samples: 90, share: 0.3, gap_ns: 900 },
        ],
        cut: vec![CutRow {
            reason: "no unwind information".to_owned(),
            module: Some("/opt/plugins/libplugin.so.2".into()),
            samples: 60,
        }],
        declines: vec![DeclineRow {
            pid: 4_022,
            command: "helper".into(),
            what: Missing::Callers,
            reason: "its CPU has no breakpoint left".to_owned(),
        }],
        cost_share: 0.008,
        waits: None,
    }
}

fn row(function: &str, clock: Option<&str>, calls: u64, timed: u64, average_ps: u64) -> VdsoRow {
    let p50 = average_ps / 1_000;
    let latency = Latency { p50, p90: p50, p99: p50, max: p50, buckets: vec![(p50, 1)] };
    VdsoRow {
        function: function.to_owned(),
        clock: clock.map(str::to_owned),
        calls,
        timed,
        time_total_ns: calls * average_ps / 1_000,
        time_avg_ps: average_ps,
        time_avg_within_ps: None,
        time_uncertain: false,
        latency_ns: (timed > 0).then_some(latency),
    }
}

/// A threaded server that reads the clock for each message, twice, and for each line of its log.
pub fn server() -> TraceReport {
    TraceReport {
        schema: 1,
        command: ["diameterd", "-c", "d.conf"].map(Foreign::from).to_vec(),
        exit_code: Some(0),
        wall_ns: 2_000_000_000,
        cpu_ns: 1_500_000_000,
        processes: 2,
        threads: 5,
        via: Some(Way::None),
        vdso: vec![
            row("clock_gettime", Some("CLOCK_MONOTONIC"), 400_001, 9_000, 24_000),
            row("gettimeofday", None, 100_001, 4_000, 25_000),
            row("getcpu", None, 7, 0, 0),
        ],
        clock_reads: ClockReads {
            reads: 500_002,
            clocksource_reads: 500_002,
            reads_per_second: 250_001.0,
            time_ns: 12_100_049,
            by_syscall_ns: 76_000_000,
            syscall_read_ps: 152_000,
            same_tick_share: Some(0.93),
            tick_ns: 4_000_000,
            ..ClockReads::default()
        },
        processes_detail: vec![ProcessDetail {
            pid: 4_021,
            command: "diameterd".into(),
            vdso_calls: 500_009,
            ..ProcessDetail::default()
        }],
        callers: Some(callers()),
        ..TraceReport::default()
    }
}

/// The same program on a host whose vDSO passes every read on to the kernel.
pub(crate) fn fallen_back() -> TraceReport {
    let mut report = server();
    report.vdso[0] = row("clock_gettime", Some("CLOCK_MONOTONIC"), 400_001, 9_000, 1_300_000);
    report.clock_reads.same_tick_share = None;
    report.syscalls = vec![SyscallRow {
        name: "clock_gettime".to_owned(),
        number: 228,
        calls: 400_001,
        time_total_ns: 400_001 * 1_200,
        time_avg_ps: 1_200_000,
        ..SyscallRow::default()
    }];
    report
}
