//! The clock page of `run --clock tsc`: the timekeeper that runs beside the program, and the page's part of
//! the report.

use std::time::Duration;

use anyhow::Context as _;
use fastclock::Decline;

use crate::nanos;
use clockscope_model::trace::{ByKernel, ClockPageReport, VdsoRow, WithdrawalRow};
use clockscope_text::units;
use clockscope_timekeeper::{Options, Report, Timekeeper};
use clockscope_tracee::counts::Timings;
use clockscope_tracee::session::Session;

/// Starts to keep the session's page, if it has one.
///
/// # Errors
///
/// When the thread cannot be started.
pub(crate) fn keep(session: &Session, force: bool) -> anyhow::Result<Option<Timekeeper>> {
    let Some(page) = session.clock_page() else { return Ok(None) };
    let options = Options { force, early: true, ..Options::default() };
    Timekeeper::start(page, options).map(Some).context("cannot start the timekeeper's thread")
}

/// The page's part of the report: reads answered from it, and its upkeep.
pub(crate) fn report(
    kept: &Report,
    vdso: &[VdsoRow],
    timings: &Timings,
    ordered: bool,
) -> ClockPageReport {
    let by_kernel: Vec<ByKernel> = timings
        .declined
        .iter()
        .zip(0..)
        .filter(|(reads, _)| **reads > 0)
        .map(|(reads, number)| ByKernel {
            number,
            reason: Decline::from_raw(number)
                .map_or_else(|| "for another reason".to_owned(), |reason| reason.to_string()),
            reads: *reads,
        })
        .collect();
    let reads = vdso.iter().filter(|row| is_on_page(row)).map(|row| row.calls).sum::<u64>();
    let declined = by_kernel.iter().map(|row| row.reads).sum::<u64>();
    ClockPageReport {
        ordered,
        reads,
        answered: reads.saturating_sub(declined),
        by_kernel,
        lines: kept.lines,
        worst_bound_ns: kept.worst_bound,
        answered_ns: nanos(kept.answered),
        withdrawals: kept
            .withdrawals
            .iter()
            .map(|gone| WithdrawalRow {
                reason: gone.reason.to_string(),
                lasted_ns: nanos(gone.lasted),
            })
            .collect(),
    }
}

/// Whether a row counts reads that the page answers.
pub(crate) fn is_on_page(row: &VdsoRow) -> bool {
    const CLOCKS: [&str; 4] = ["CLOCK_REALTIME", "CLOCK_MONOTONIC", "CLOCK_BOOTTIME", "CLOCK_TAI"];
    match row.function.as_str() {
        "gettimeofday" => true,
        "clock_gettime" => row.clock.as_deref().is_some_and(|clock| CLOCKS.contains(&clock)),
        _ => false,
    }
}

/// The sentence about periods after the start in which the kernel's clock answered instead; `None` if there
/// were none.
pub(crate) fn gave_way(kept: &Report) -> Option<String> {
    let gone = || kept.withdrawals.iter().filter(|gone| gone.reason != Decline::Starting);
    let times = u64::try_from(gone().count()).unwrap_or(u64::MAX);
    if times == 0 {
        return None;
    }
    let lasted = gone().map(|gone| gone.lasted).sum::<Duration>();
    let mut reasons: Vec<&str> = gone().map(|gone| gone.reason.as_str()).collect();
    reasons.dedup();
    Some(format!(
        "the page gave way to the kernel's clock for {} ({}): {}",
        units::nanos(nanos(lasted)),
        units::counted(times, "time", "times"),
        reasons.join("; ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows_for_tests::row;
    use clockscope_timekeeper::Withdrawal;

    fn kept(withdrawals: &[(Decline, u64)]) -> Report {
        let withdrawal = |(reason, millis): &(Decline, u64)| Withdrawal {
            reason: *reason,
            lasted: Duration::from_millis(*millis),
        };
        Report { withdrawals: withdrawals.iter().map(withdrawal).collect(), ..Report::default() }
    }

    #[test]
    fn the_start_is_not_a_giving_way() {
        assert_eq!(gave_way(&kept(&[(Decline::Starting, 200)])), None);
        let twice =
            [(Decline::Starting, 200), (Decline::Suspended, 700), (Decline::Suspended, 500)];
        assert_eq!(
            gave_way(&kept(&twice)).as_deref(),
            Some(
                "the page gave way to the kernel's clock for 1.2 s (2 times): the machine was suspended"
            )
        );
    }

    #[test]
    fn only_reads_of_the_pages_clocks_are_its_own() {
        let rows = [
            row("clock_gettime", Some("CLOCK_MONOTONIC"), 100),
            row("clock_gettime", Some("CLOCK_MONOTONIC_RAW"), 1_000),
            row("clock_getres", Some("CLOCK_MONOTONIC"), 1_000),
            row("time", None, 10),
        ];
        let mut timings = Timings::default();
        timings.declined[1] = 7;
        timings.declined[31] = 2;
        let report = report(&Report::default(), &rows, &timings, true);
        assert_eq!((report.reads, report.answered), (100, 91));
        assert_eq!(report.by_kernel[0].reason, Decline::Starting.to_string());
        assert_eq!(report.by_kernel[1].reads, 2);
    }
}
