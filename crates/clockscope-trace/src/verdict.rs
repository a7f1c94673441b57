//! Gain or loss by a clock that `clockscope run` gave to a program: the reads that it answers, their time in
//! the program, and the time of as many reads through the kernel's vDSO.

use crate::clock_page::is_on_page;
use crate::clock_reads::ReadCosts;
use clockscope_model::reads::{self, Source};
use clockscope_model::trace::{Clock, VdsoRow, Verdict};

/// Greatest age of a coarse clock's answer, in ticks: one, and another if the tick comes late.
const STALE_TICKS: u64 = 2;

/// The figures of a verdict on `clock`; `by_vdso` was measured on this host before the program started.
pub(crate) fn verdict(
    vdso: &[VdsoRow],
    tick_ns: u64,
    clock: Clock,
    by_vdso: &ReadCosts,
) -> Verdict {
    let answered = || vdso.iter().filter(|row| is_answered(clock, row));
    let by_kernel_ps = answered().filter_map(|row| {
        let source = reads::source(&row.function, row.clock.as_deref())?;
        Some(u128::from(row.calls) * u128::from(by_vdso.of(source).0))
    });
    let by_kernel_ns = u64::try_from(by_kernel_ps.sum::<u128>() / 1_000).unwrap_or(u64::MAX);
    Verdict {
        clock: clock.name().to_owned(),
        reads: answered().map(|row| row.calls).sum(),
        time_ns: time_of(answered()),
        by_kernel_ns,
        stale_ns: if clock == Clock::Coarse { STALE_TICKS * tick_ns } else { 0 },
    }
}

/// Whether `clock` determines the answer to such a read.
fn is_answered(clock: Clock, row: &VdsoRow) -> bool {
    let source = reads::source(&row.function, row.clock.as_deref());
    match clock {
        Clock::Kernel | Clock::Slow => source == Some(Source::Clocksource),
        Clock::Syscall => source.is_some_and(Source::stays_in_user_space),
        Clock::Coarse => reads::has_coarse_form(&row.function, row.clock.as_deref()),
        Clock::Tsc | Clock::TscFast => is_on_page(row),
    }
}

/// Time of all these reads, if nearly all are of known time; the rest is taken to cost the same.
fn time_of<'a>(rows: impl Iterator<Item = &'a VdsoRow>) -> Option<u64> {
    /// Of this many reads, one may be of a kind that was timed too rarely.
    const UNKNOWN_ONE_IN: u64 = 100;
    let (mut known, mut all, mut time) = (0_u64, 0_u64, 0_u128);
    for row in rows {
        all += row.calls;
        if row.has_time() {
            known += row.calls;
            time += u128::from(row.time_total_ns);
        }
    }
    let is_enough = known > 0 && all - known <= all / UNKNOWN_ONE_IN;
    is_enough.then(|| u64::try_from(time * u128::from(all) / u128::from(known)).ok())?
}

#[cfg(test)]
mod tests {
    use fastclock::Picos;

    use super::*;
    use crate::rows_for_tests::row;

    const TICK_NS: u64 = 4_000_000;

    fn rows() -> Vec<VdsoRow> {
        let rows = [
            ("clock_gettime", Some("CLOCK_MONOTONIC"), 100_000, 40),
            ("clock_gettime", Some("CLOCK_MONOTONIC_RAW"), 10_000, 30),
            ("clock_gettime", Some("CLOCK_MONOTONIC_COARSE"), 1_000, 8),
            ("clock_gettime", Some("CLOCK_THREAD_CPUTIME_ID"), 1_000, 300),
            ("time", None, 1_000, 4),
            ("getcpu", None, 1_000, 4),
        ];
        let row = |(function, clock, calls, ns_each)| VdsoRow {
            timed: 900,
            time_total_ns: calls * ns_each,
            ..row(function, clock, calls)
        };
        rows.map(row).into()
    }

    fn costs() -> ReadCosts {
        ReadCosts { clocksource: Picos(22_000), tick: Picos(7_000), cpu_time: Picos(300_000) }
    }

    #[test]
    fn each_clock_is_judged_by_the_reads_that_it_answers() {
        for (clock, reads, time_ns, by_kernel_ns) in [
            (Clock::Kernel, 110_000, 4_300_000, 2_420_000),
            (Clock::Slow, 110_000, 4_300_000, 2_420_000),
            (Clock::Syscall, 112_000, 4_312_000, 2_434_000),
            (Clock::Coarse, 100_000, 4_000_000, 2_200_000),
            (Clock::Tsc, 100_000, 4_000_000, 2_200_000),
        ] {
            let verdict = verdict(&rows(), TICK_NS, clock, &costs());
            let found = (verdict.reads, verdict.time_ns, verdict.by_kernel_ns);
            assert_eq!(found, (reads, Some(time_ns), by_kernel_ns), "{clock:?}");
            let stale_ns = if clock == Clock::Coarse { 8_000_000 } else { 0 };
            assert_eq!(verdict.stale_ns, stale_ns, "{clock:?}");
        }
    }

    #[test]
    fn reads_that_were_not_timed_take_no_time_that_is_known() {
        let mut rows = rows();
        rows[0].timed = 0;
        assert_eq!(verdict(&rows, TICK_NS, Clock::Tsc, &costs()).time_ns, None);
        assert_eq!(verdict(&rows, TICK_NS, Clock::Kernel, &costs()).time_ns, None);
        assert_eq!(verdict(&[], TICK_NS, Clock::Kernel, &costs()).time_ns, None);
    }
}
