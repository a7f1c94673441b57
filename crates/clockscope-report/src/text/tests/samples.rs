//! Reports for the tests of the text.

use clockscope_model::trace::{
    ClockReads, DeclineRow, Latency, Missing, Overhead, ProcessDetail, SyscallRow, ThreadDetail,
    TraceReport, VdsoRow, Way,
};
use clockscope_text::foreign::Foreign;

pub(super) fn vdso(
    function: &str,
    clock: Option<&str>,
    calls: u64,
    timed: u64,
    average_ps: u64,
) -> VdsoRow {
    VdsoRow {
        function: function.into(),
        clock: clock.map(Into::into),
        calls,
        timed,
        time_total_ns: calls * average_ps / 1_000,
        time_avg_ps: average_ps,
        time_avg_within_ps: None,
        time_uncertain: false,
        latency_ns: (timed > 0).then(|| latency(average_ps / 1_000)),
    }
}

pub(super) fn syscall(name: &str, calls: u64, errors: u64, average_ps: u64) -> SyscallRow {
    SyscallRow {
        name: name.into(),
        number: 0,
        calls,
        errors: Some(errors),
        time_total_ns: calls * average_ps / 1_000,
        time_avg_ps: average_ps,
        latency_ns: None,
        waits: clockscope_model::waiting::waits(name),
        ..SyscallRow::default()
    }
}

pub(super) fn latency(p50: u64) -> Latency {
    Latency {
        p50,
        p90: p50 + p50 / 4,
        p99: p50 * 2,
        max: p50 * 120,
        buckets: vec![(p50, 985), (p50 * 2, 14), (p50 * 120, 1)],
    }
}

/// A database that reads the clock for every row, with vDSO calls and system calls counted by eBPF.
pub(super) fn database() -> TraceReport {
    TraceReport {
        schema: 1,
        command: ["sqlite3", "t.db", ".read load.sql"].map(Foreign::from).to_vec(),
        exit_code: Some(0),
        wall_ns: 2_310_400_000,
        cpu_ns: 1_984_000_000,
        processes: 1,
        threads: 1,
        via: Some(Way::Bpf),
        vdso: vec![
            vdso("clock_gettime", Some("CLOCK_REALTIME"), 1_000_003, 10_023, 21_400),
            vdso("clock_gettime", Some("CLOCK_PROCESS_CPUTIME_ID"), 12, 12, 243_000),
            vdso("time", None, 7, 7, 4_100),
            vdso("getcpu", None, 0, 0, 0),
        ],
        syscalls: vec![
            syscall("pwrite64", 20_417, 0, 2_310_000),
            syscall("fdatasync", 38, 0, 412_500_000),
            syscall("openat", 34, 13, 1_900_000),
            syscall("clock_gettime", 2, 0, 152_000),
        ],
        clock_reads: ClockReads {
            reads: 1_000_024,
            passed_on: 0,
            clocksource_reads: 1_000_024,
            clocksource_passed_on: 0,
            too_few_timed: false,
            reads_per_second: 432_836.0,
            time_ns: 21_403_000,
            by_syscall_ns: 152_003_000,
            syscall_read_ps: 152_000,
            typical_hpet_ns: 1_200_028_800,
            typical_acpi_pm_ns: 2_500_060_000,
            same_tick_share: Some(0.62),
            tick_ns: 4_000_000,
        },
        overhead: Overhead {
            syscall_probe_ps: 142_000,
            bystander_tax_ps: 40_000,
            syscall_subtracted_ps: 61_000,
            vdso_bracket_ps: 18_200,
        },
        ..TraceReport::default()
    }
}

/// A loop of calls of one vDSO function; system calls were not counted.
pub(super) fn vdso_only() -> TraceReport {
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
pub(super) fn processes() -> TraceReport {
    let mut report = database();
    report.command = ["sh", "-c", "date; date"].map(Foreign::from).to_vec();
    report.processes = 2;
    report.threads = 3;
    let thread = |tid, calls| ThreadDetail {
        tid,
        name: "worker".into(),
        vdso: vec![vdso("time", None, calls, calls, 4_100)],
        syscalls: vec![syscall("read", calls, 1, 300_000)],
    };
    report.processes_detail = vec![
        ProcessDetail {
            pid: 4_021,
            command: "sh".into(),
            vdso_calls: 0,
            syscall_calls: Some(3),
            syscalls: vec![syscall("wait4", 3, 1, 900_000_000)],
            ..ProcessDetail::default()
        },
        ProcessDetail {
            pid: 4_022,
            parent: None,
            command: "date".into(),
            title: "date -u".into(),
            vdso_calls: 12,
            syscall_calls: Some(12),
            vdso: vec![vdso("time", None, 12, 12, 4_100)],
            syscalls: vec![syscall("read", 12, 2, 300_000)],
            threads: vec![thread(4_022, 5), thread(4_023, 7)],
            ..ProcessDetail::default()
        },
        ProcessDetail {
            pid: 4_024,
            command: "true".into(),
            syscall_calls: Some(0),
            ..ProcessDetail::default()
        },
    ];
    report
}

/// Programs that could not be counted.
pub(super) fn declines() -> Vec<DeclineRow> {
    let decline = |pid, command: &str, what, reason: &str| DeclineRow {
        pid,
        command: command.into(),
        what,
        reason: reason.into(),
    };
    let mut rows = vec![decline(77, "wine", Missing::Vdso, "it is a 32-bit program")];
    let setuid = "it runs with the rights of its owner, which a traced program does not get";
    for (pid, command) in [(80, "sudo"), (81, "ping"), (82, "sudo"), (83, "su"), (84, "passwd")] {
        rows.push(decline(pid, command, Missing::Vdso, setuid));
    }
    rows.push(decline(90, "", Missing::Syscalls, "it ended before the probes were loaded"));
    rows
}
