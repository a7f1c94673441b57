//! The lines below the table: what the clock reads cost here and would cost elsewhere.

use super::lines::labelled;
use super::model::{ClockReads, TraceReport};
use super::{latency, units};
use crate::cli::Clock;

/// From this share of same-tick reads on, a coarse clock is worth a try.
const COARSE_WORTH: f64 = 0.5;

/// The lines about clock reads of a program that was given `clock`; one line if there were none.
///
/// Nothing is advised or compared that the given clock already does.
pub(super) fn render(report: &TraceReport, clock: Clock) -> String {
    let reads = &report.clock_reads;
    if reads.reads == 0 {
        return labelled("Clock reads", "none");
    }
    let mut out = labelled("Clock reads", &how_many(reads));
    out += &labelled("Here", &how_long(report));
    let slow = if clock == Clock::Kernel { latency::slow_reads(report) } else { String::new() };
    out += &slow;
    if clock != Clock::Syscall {
        out += &labelled("By syscall", &by_syscall(reads));
    }
    // Not where it has happened already, nor for clocks that no clocksource is read for.
    if slow.is_empty() && reads.passed_on <= reads.reads / 2 {
        out += &typical(reads);
    }
    let share = reads.same_tick_share.filter(|share| share.is_finite() && clock != Clock::Coarse);
    if let Some(share) = share {
        out += &labelled("Same tick", &same_tick(share, reads.tick_ns));
    }
    out
}

pub(super) fn how_many(reads: &ClockReads) -> String {
    let count = units::count(reads.reads);
    let counted = match units::rate(reads.reads_per_second) {
        Some(rate) => format!("{count}, that is {rate} a second (counted)"),
        None => format!("{count} (counted)"),
    };
    match reads.passed_on {
        0 => counted,
        calls => {
            let calls = units::count(calls);
            format!("{counted}; {calls} of them the vDSO passed on to the kernel")
        }
    }
}

pub(super) fn how_long(report: &TraceReport) -> String {
    let reads = &report.clock_reads;
    if reads.time_ns == 0 {
        return "not measured, because no read was timed".to_owned();
    }
    let shares: Vec<String> = [(report.wall_ns, "wall"), (report.cpu_ns, "CPU")]
        .into_iter()
        .filter(|(whole, _)| *whole > 0)
        .map(|(whole, name)| format!("{} of {name}", units::share(ratio(reads.time_ns, whole))))
        .collect();
    let time = units::nanos(reads.time_ns);
    let each = each(reads.time_ns, reads.reads);
    let colon = if shares.is_empty() { "" } else { ": " };
    let how = if report.via == "ptrace" && reads.passed_on > 0 {
        "measured, ptrace's stops included"
    } else {
        "measured"
    };
    format!("{time}, {each} a read ({how}){colon}{}", shares.join(", "))
}

pub(super) fn by_syscall(reads: &ClockReads) -> String {
    match reads.syscall_read_ps {
        0 => "not measured".to_owned(),
        ps => {
            format!("{}, {} a read (measured)", units::nanos(reads.by_syscall_ns), units::picos(ps))
        }
    }
}

/// What the reads would take on a host whose clocksource is not the TSC.
fn typical(reads: &ClockReads) -> String {
    let sources: Vec<(u64, &str)> =
        [(reads.typical_hpet_ns, "hpet"), (reads.typical_acpi_pm_ns, "acpi_pm")]
            .into_iter()
            .filter(|(ns, _)| *ns > 0)
            .collect();
    if sources.is_empty() {
        return String::new();
    }
    let times: Vec<String> =
        sources.iter().map(|(ns, name)| format!("{} on {name}", units::nanos(*ns))).collect();
    let each: Vec<String> = sources.iter().map(|(ns, _)| each(*ns, reads.reads)).collect();
    labelled("Fallen back", &format!("{} (typical: {} a read)", times.join(", "), each.join(", ")))
}

pub(super) fn same_tick(share: f64, tick_ns: u64) -> String {
    let tick = match tick_ns {
        0 => "timer tick".to_owned(),
        ns => format!("{} tick", units::nanos(ns)),
    };
    let fact = format!(
        "{} of the precise reads came within the same {tick} as the thread's read before",
        units::share(share)
    );
    if share >= COARSE_WORTH {
        format!(
            "{fact}: a coarse clock would have returned the same \
             (try: clockscope run --clock coarse)"
        )
    } else {
        format!("{fact}: for the others a coarse clock would have returned a new value")
    }
}

/// Time of one of `calls`, rounded to the nearest picosecond.
pub(super) fn each(time_ns: u64, calls: u64) -> String {
    let calls = u128::from(calls.max(1));
    units::picos_wide((u128::from(time_ns) * 1_000 + calls / 2) / calls)
}

/// `part / whole`, exact to 15 digits, which is enough to print three.
#[expect(clippy::cast_precision_loss, reason = "three digits are printed")]
pub(super) fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}
