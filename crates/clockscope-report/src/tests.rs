//! Reports for tests: the JSON files of `tests/`, changed as a test needs them.

use clockscope_model::callers::{CalledRow, FrameKind, FrameRow, StackRow};
use clockscope_model::trace::{DeclineRow, Latency, Overhead, SyscallRow, TraceReport, Via, Way};
use clockscope_text::foreign::Foreign;
use serde::de::DeserializeOwned;

/// The report in a file of this folder.
pub(crate) fn read<T: DeserializeOwned>(json: &str) -> T {
    serde_json::from_str(json).unwrap()
}

/// A threaded server that reads the clock for each message, twice, and for each line of its log.
pub(crate) fn server() -> TraceReport {
    read(include_str!("tests/server.json"))
}

/// The same program on a host whose vDSO passes every read on to the kernel.
pub(crate) fn fallen_back() -> TraceReport {
    let mut report = server();
    let row = &mut report.vdso[0];
    (row.time_avg_ps, row.time_total_ns) = (1_300_000, row.calls * 1_300);
    row.latency_ns = Some(latency(1_300));
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

/// A database that reads the clock for every row, with vDSO calls and system calls counted by eBPF.
pub(crate) fn database() -> TraceReport {
    read(include_str!("tests/database.json"))
}

/// A loop of calls of one vDSO function; system calls were not counted.
pub(crate) fn vdso_only() -> TraceReport {
    let mut report = database();
    report.command = vec!["./loop".into()];
    report.via = Some(Way::None);
    report.syscalls.clear();
    report.vdso.truncate(1);
    report.clock_reads.same_tick_share = Some(0.04);
    report.overhead = Overhead { vdso_bracket_ps: 18_200, ..Overhead::default() };
    report
}

/// A shell and its children, each with its own rows.
pub(crate) fn processes() -> TraceReport {
    TraceReport {
        command: ["sh", "-c", "date; date"].map(Foreign::from).to_vec(),
        processes: 2,
        threads: 3,
        processes_detail: read(include_str!("tests/processes.json")),
        ..database()
    }
}

/// Programs that could not be counted.
pub(crate) fn declines() -> Vec<DeclineRow> {
    read(include_str!("tests/declines.json"))
}

/// A distribution with this median.
pub(crate) fn latency(p50: u64) -> Latency {
    Latency {
        p50,
        p90: p50 + p50 / 4,
        p99: p50 * 2,
        max: p50 * 120,
        buckets: vec![(p50, 985), (p50 * 2, 14), (p50 * 120, 1)],
    }
}

/// Calls of a vDSO function, with sampled stacks.
pub(crate) fn called(name: &str, calls: u64, samples: u64) -> CalledRow {
    let samples_effective = 1e3;
    let via = Via::Vdso;
    CalledRow { via, name: name.into(), calls, samples, samples_effective, ..CalledRow::default() }
}

/// A function of a file, with the source line of the call if known.
pub(crate) fn frame(
    function: &str,
    module: &str,
    address: u64,
    line: Option<(&str, u32)>,
) -> FrameRow {
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

/// A complete stack of process 4021.
pub(crate) fn stack(called: usize, frames: &[usize], samples: u64, calls: f64) -> StackRow {
    StackRow { called, pid: 4_021, frames: frames.to_vec(), samples, calls, complete: true }
}
