//! Cost of clock reads for a program, as numbers and words.

use clockscope_model::reads::{self, Source};
use clockscope_model::trace::{TraceReport, VdsoRow};
use clockscope_text::units;

/// CPU time of the program if its reads of the clocksource took `typical_ns`, from their time here; `None` if
/// the time of more than a few reads is unknown.
pub(super) fn whole_on(report: &TraceReport, typical_ns: u64) -> Option<u64> {
    without_reads(report)?.checked_add(typical_ns)
}

/// CPU time of the program less that of its reads of the clocksource; `None` if the time of more than a few
/// reads is unknown.
pub(super) fn without_reads(report: &TraceReport) -> Option<u64> {
    /// Of this many reads, one may have an unknown time: of another program's start, or a system call past
    /// the vDSO.
    const UNKNOWN_ONE_IN: u64 = 100;
    let is_known = |row: &&VdsoRow| {
        let source = reads::source(&row.function, row.clock.as_deref());
        source == Some(Source::Clocksource) && row.has_time()
    };
    let (mut known, mut here) = (0_u64, 0_u64);
    for row in report.vdso.iter().filter(is_known) {
        known = known.checked_add(row.calls)?;
        here = here.checked_add(row.time_total_ns)?;
    }
    let unknown = report.clock_reads.clocksource_reads.checked_sub(known)?;
    let is_enough = report.cpu_ns > 0 && known > 0 && unknown <= known / UNKNOWN_ONE_IN;
    is_enough.then(|| report.cpu_ns.saturating_sub(here))
}

/// A ratio of two times in words.
pub(super) fn times_as_long(ratio: f64) -> String {
    match ratio {
        ratio if ratio < 1.01 => "about as long".to_owned(),
        ratio if ratio < 1.1 => format!("{} longer", units::share(ratio - 1.0)),
        ratio if ratio < 10.0 => format!("{ratio:.1} times as long"),
        ratio => format!("{ratio:.0} times as long"),
    }
}

/// Time of one of `calls` calls, rounded to the nearest picosecond; a time below 1 ns is no more than the error.
pub(super) fn each(time_ns: u64, calls: u64) -> String {
    if time_ns < calls {
        return "less than 1 ns".to_owned();
    }
    let calls = u128::from(calls.max(1));
    units::picos_wide((u128::from(time_ns) * 1_000 + calls / 2) / calls)
}

/// The sum; numbers of a damaged file cannot overflow it.
pub(super) fn total(values: impl Iterator<Item = u64>) -> u64 {
    values.fold(0, u64::saturating_add)
}

/// The whole part of an estimate; saturates.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
pub(super) fn whole(value: f64) -> u64 {
    value as u64
}

/// `part / whole`, exact to 15 digits; three are printed.
pub(super) fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}
