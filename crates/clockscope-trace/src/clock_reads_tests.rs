//! Tests of the cost of clock reads, for every kind of read.

use super::*;
use crate::rows_for_tests;
use clockscope_model::reads::clock_name;
use vdso_image::layout::{COUNTERS, Counted};
use vdso_image::plan::HAS_COARSE_FORM;

/// The reads of these rows, answered by this clock.
fn found(vdso: &[VdsoRow], syscalls: &[SyscallRow], clock: Clock) -> ClockReads {
    let costs =
        ReadCosts { clocksource: Picos(100_000), tick: Picos(80_000), cpu_time: Picos(300_000) };
    let passed_on = FallbackReads::default();
    clock_reads(vdso, syscalls, None, &Context { wall_ns: 0, costs, tick_ns: 0, passed_on, clock })
}

fn row(function: &str, clock: Option<&str>, calls: u64, each_ns: u64) -> VdsoRow {
    VdsoRow {
        timed: calls.min(600),
        time_total_ns: calls * each_ns,
        ..rows_for_tests::row(function, clock, calls)
    }
}

/// 1,009 calls of a function whose clock no vDSO reads, and the system calls.
fn reads(timed: u64, clock: &str, syscalls: u64) -> ClockReads {
    let vdso = VdsoRow {
        timed,
        time_total_ns: if timed > 0 { 2_018_000 } else { 0 },
        ..rows_for_tests::row("clock_gettime", Some(clock), 1_009)
    };
    let syscall = SyscallRow {
        name: "clock_gettime".to_owned(),
        calls: syscalls,
        time_total_ns: syscalls * 1_000,
        ..SyscallRow::default()
    };
    found(&[vdso], &[syscall], Clock::Kernel)
}

/// A read that is passed on is counted and timed once; a system call that no vDSO made is another read. The time of a few
/// system calls is not that of all reads, and system calls that were not counted make no reads fewer.
#[test]
fn reads_and_the_system_calls_that_they_make_are_counted_once() {
    let [cpu_time, monotonic] = ["CLOCK_PROCESS_CPUTIME_ID", "CLOCK_MONOTONIC"];
    for (timed, clock, syscalls, expected) in [
        (50, cpu_time, 1_011, (1_011, 1_009, 2_018_000 + 2_000)),
        (0, cpu_time, 1_011, (1_011, 1_009, 1_011_000)),
        (50, monotonic, 2, (1_011, 0, 2_020_000)),
        (0, monotonic, 2, (1_011, 0, 0)),
        (50, cpu_time, 0, (1_009, 0, 2_018_000)),
    ] {
        let reads = reads(timed, clock, syscalls);
        let found = (reads.reads, reads.passed_on, reads.time_ns);
        assert_eq!(found, expected, "{timed} {clock} {syscalls}");
    }
}

#[test]
fn coarse_clocks_and_processor_time_cost_nothing_more_where_the_kernel_fell_back() {
    let rows = [
        row("clock_gettime", Some("CLOCK_REALTIME_COARSE"), 5_000_000, 10),
        row("clock_gettime", Some("CLOCK_THREAD_CPUTIME_ID"), 1_000_000, 400),
    ];
    let found = found(&rows, &[], Clock::Kernel);
    assert_eq!((found.reads, found.clocksource_reads), (6_000_000, 0));
    assert_eq!((found.typical_hpet_ns, found.typical_acpi_pm_ns), (0, 0));
    // Coarse reads count at 80 ns; all other reads are system calls and count with their measured time.
    assert_eq!(found.by_syscall_ns, 5_000_000 * 80 + 1_000_000 * 400);
}

#[test]
fn each_read_is_priced_by_what_it_looks_at() {
    let table = [
        (row("clock_gettime", Some("CLOCK_MONOTONIC"), 1_000, 20), 1_000, 100),
        (row("clock_gettime", Some("CLOCK_MONOTONIC_RAW"), 1_000, 20), 1_000, 100),
        (row("clock_gettime", Some("CLOCK_BOOTTIME_ALARM"), 1_000, 250), 1_000, 250),
        (row("clock_gettime", Some("CLOCK_MONOTONIC_COARSE"), 1_000, 5), 0, 80),
        (row("clock_gettime", Some("CLOCK_PROCESS_CPUTIME_ID"), 1_000, 500), 0, 500),
        (row("clock_gettime", Some("other"), 1_000, 700), 0, 700),
        (row("gettimeofday", None, 1_000, 20), 1_000, 100),
        (row("time", None, 1_000, 3), 0, 80),
        (row("getcpu", None, 1_000, 3), 0, 0),
    ];
    for (row, clocksource, each_ns) in table {
        let rows = [row];
        let found = found(&rows, &[], Clock::Kernel);
        assert_eq!(found.clocksource_reads, clocksource, "{rows:?}");
        assert_eq!(found.typical_hpet_ns, clocksource * TYPICAL_HPET_NS, "{rows:?}");
        assert_eq!(found.by_syscall_ns, each_ns * 1_000, "{rows:?}");
    }
}

#[test]
fn what_clockscope_answers_itself_asks_no_clocksource() {
    let rows = [
        row("clock_gettime", Some("CLOCK_MONOTONIC"), 1_000, 5),
        row("clock_gettime", Some("CLOCK_BOOTTIME"), 100, 5),
        row("clock_gettime", Some("CLOCK_MONOTONIC_RAW"), 10, 20),
    ];
    for (clock, expected) in [
        (Clock::Kernel, 1_110),
        (Clock::Syscall, 1_110),
        (Clock::Coarse, 110),
        (Clock::Tsc, 10),
        (Clock::TscFast, 10),
    ] {
        let found = found(&rows, &[], clock);
        assert_eq!(found.clocksource_reads, expected, "{clock:?}");
    }
}

#[test]
fn few_timed_reads_have_no_cost_and_do_not_spoil_that_of_many() {
    let few = |calls| VdsoRow {
        timed: calls,
        time_uncertain: true,
        ..row("clock_gettime", Some("CLOCK_REALTIME"), calls, 602_000)
    };
    let of = |rows: &[VdsoRow]| {
        let found = found(rows, &[], Clock::Kernel);
        (found.time_ns, found.too_few_timed)
    };
    assert_eq!(of(&[few(12)]), (0, true));
    assert_eq!(of(&[]), (0, false));
    let many = row("clock_gettime", Some("CLOCK_MONOTONIC"), 3_000, 25);
    assert_eq!(of(&[many.clone(), few(12)]), (3_012 * 25, false));
    assert_eq!(of(&[many, few(1_200)]), (0, true), "two of seven are not a few");
}

#[test]
fn the_image_takes_distances_of_the_reads_that_have_a_coarse_form() {
    for index in 0..COUNTERS {
        let Some(counted) = Counted::from_counter(index) else { continue };
        let clock = counted.clock.map(clock_name);
        let expected = reads::has_coarse_form(counted.function.name(), clock.as_deref());
        assert_eq!(HAS_COARSE_FORM >> index & 1 == 1, expected, "{counted:?}");
    }
}
