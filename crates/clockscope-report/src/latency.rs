//! Tables of the time of single calls, and conclusions from the distribution of vDSO calls.

use super::entries::{self, Entry};
use super::options::TextOptions;
use super::table;
use clockscope_model::reads::{self, Source};
use clockscope_model::trace::{Clock, TraceReport, VdsoRow};
use clockscope_stats::timed::TIMED_MIN;
use clockscope_text::units;

/// A shorter call has stayed in user space, at any cost of a system call.
const USER_SPACE_NS: u64 = 100;
/// Rows with less than one in this many reads do not cause a table.
const WORTH_ONE_IN: u64 = 100;
/// Rate of calls a second below which each call finds its code and data out of the caches, and takes as long
/// as a system call in a loop.
pub(crate) const RARE: u64 = 1_000;

/// The tables of the time of single calls.
///
/// With `--latency`, they have every call that has a distribution. Otherwise they have vDSO calls only, and
/// only if a distribution shows that calls leave user space or have two speeds.
pub(super) fn render(report: &TraceReport, entries: &[Entry], options: &TextOptions) -> String {
    let is_expected = options.clock != Clock::Kernel;
    let matters = |row: &&VdsoRow| row.calls >= report.clock_reads.reads / WORTH_ONE_IN;
    let telling =
        !is_expected && report.vdso.iter().filter(matters).any(|row| is_telling(row, report));
    let mut out = String::new();
    if options.latency {
        let drawn = table::latencies(entries, options.coloured);
        if !drawn.is_empty() {
            out = format!("\nTime of single calls:\n{drawn}");
        }
    } else if telling {
        let calls = entries::Calls { vdso: &report.vdso, syscalls: &[], syscalls_timed: false };
        let drawn = table::latencies(&calls.entries(options.sort), options.coloured);
        out = format!("\nTime of single vDSO calls:\n{drawn}");
    }
    out
}

/// The clause that clock reads are not answered in user space; `None` if they are.
pub(super) fn slow_clause(report: &TraceReport) -> Option<String> {
    let slow: Vec<&VdsoRow> = report.vdso.iter().filter(|r| is_by_syscall(r, report)).collect();
    let row = slow.first()?;
    let p50 = row.latency_ns.as_ref().map_or(0, |latency| latency.p50);
    let others = match slow.len() {
        1 => String::new(),
        2 => " (and of one more function)".to_owned(),
        rows => format!(" (and of {} more functions)", rows - 1),
    };
    let syscall = match report.clock_reads.syscall_read_ps {
        0 => "a system call takes".to_owned(),
        ps => format!("a system call takes ({} here)", units::picos(ps)),
    };
    Some(format!(
        "half of the calls of {}{others} took {} or more, as long as {syscall}: they were not \
         answered in user space{}",
        entries::vdso_name(row),
        units::nanos(p50),
        if report.slow_because.is_none() { " (clockscope doctor says why)" } else { "" },
    ))
}

fn is_telling(row: &VdsoRow, report: &TraceReport) -> bool {
    let has_two_speeds = row.latency_ns.as_ref().is_some_and(|latency| {
        has_enough(row) && latency.p90 / 3 >= latency.p50.max(USER_SPACE_NS / 4)
    });
    has_two_speeds || is_by_syscall(row, report)
}

/// Whether a call that the vDSO should answer in user space took as long as a system call.
pub(super) fn is_by_syscall(row: &VdsoRow, report: &TraceReport) -> bool {
    // The factor is 3/4 because the vDSO's own system call saves the way through libc.
    let syscall_ns = report.clock_reads.syscall_read_ps / 1_000 * 3 / 4;
    let least = syscall_ns.max(USER_SPACE_NS);
    let per_second = u128::from(row.calls) * 1_000_000_000 / u128::from(report.wall_ns.max(1));
    stays_in_user_space(row)
        && has_enough(row)
        && per_second >= u128::from(RARE)
        && row.latency_ns.as_ref().is_some_and(|latency| latency.p50 > least)
}

/// Whether enough calls of similar times were timed to judge by them.
fn has_enough(row: &VdsoRow) -> bool {
    row.timed >= TIMED_MIN && !row.time_uncertain
}

/// Whether the kernel's vDSO answers the call by itself if the clocksource allows that.
pub(super) fn stays_in_user_space(row: &VdsoRow) -> bool {
    reads::source(&row.function, row.clock.as_deref()).is_some_and(Source::stays_in_user_space)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clockscope_model::trace::Latency;

    fn row(clock: &str, p50: u64, p90: u64) -> VdsoRow {
        VdsoRow {
            function: "clock_gettime".into(),
            clock: Some(clock.into()),
            calls: 1_000,
            timed: 100,
            latency_ns: Some(Latency { p50, p90, p99: p90, max: p90, buckets: Vec::new() }),
            ..VdsoRow::default()
        }
    }

    fn report(syscall_read_ps: u64) -> TraceReport {
        let mut report = TraceReport::default();
        report.clock_reads.syscall_read_ps = syscall_read_ps;
        report
    }

    #[test]
    fn a_read_as_slow_as_a_system_call_is_recognised() {
        for (clock, p50, syscall_ps, expected) in [
            ("CLOCK_MONOTONIC", 22, 150_000, false),
            ("CLOCK_MONOTONIC", 140, 150_000, true),
            ("CLOCK_MONOTONIC", 140, 300_000, false),
            ("CLOCK_MONOTONIC", 95, 60_000, false),
            ("CLOCK_MONOTONIC", 140, 0, true),
            ("CLOCK_PROCESS_CPUTIME_ID", 250, 150_000, false),
            ("other", 250, 150_000, false),
        ] {
            let found = is_by_syscall(&row(clock, p50, p50), &report(syscall_ps));
            assert_eq!(found, expected, "{clock} {p50} ns against {syscall_ps} ps");
        }
    }

    #[test]
    fn rare_calls_are_slow_because_they_are_rare() {
        let mut report = report(83_400);
        let found = row("CLOCK_MONOTONIC_COARSE", 143, 282);
        report.wall_ns = 1_000_000_000; // 1,000 a second
        assert!(is_by_syscall(&found, &report));
        report.wall_ns = 1_100_000_000;
        assert!(!is_by_syscall(&found, &report));
    }

    #[test]
    fn a_handful_of_timed_calls_says_nothing() {
        let mut few = row("CLOCK_MONOTONIC", 500, 5_000);
        few.timed = TIMED_MIN - 1;
        assert!(!is_telling(&few, &report(150_000)));
    }

    #[test]
    fn two_speeds_tell_something_and_one_does_not() {
        assert!(!is_telling(&row("CLOCK_MONOTONIC", 22, 40), &report(150_000)));
        assert!(is_telling(&row("CLOCK_MONOTONIC", 30, 1_300), &report(150_000)));
        assert!(!is_telling(&row("CLOCK_MONOTONIC", 2, 9), &report(150_000)));
    }
}
