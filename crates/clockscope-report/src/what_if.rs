//! CPU time of the program at another cost of a read, and the cost of a read for a given slow-down.

use std::time::Duration;

use super::costs;
use clockscope_model::trace::{TraceReport, WhatIf};
use clockscope_text::units;

/// Cost of a read above which no clocksource is the explanation: emulated ones take up to some 30 us.
const BEYOND_EXPLANATION_PS: u64 = 100_000_000;

/// The user's question.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Question {
    /// CPU time, if a read had this cost.
    Read(Duration),
    /// Cost of a read, if the program took this many times as long.
    Times(f64),
}

/// The answer, from the time of the reads in this trace.
pub fn answer(report: &TraceReport, question: Question) -> WhatIf {
    let reads = report.clock_reads.clocksource_reads;
    let rest_ns = costs::without_reads(report);
    match question {
        Question::Read(cost) => {
            let read_ps = u64::try_from(cost.as_nanos()).unwrap_or(u64::MAX).saturating_mul(1_000);
            let time_ns = u128::from(reads) * u128::from(read_ps) / 1_000;
            let time_ns = u64::try_from(time_ns).unwrap_or(u64::MAX);
            let cpu_ns = rest_ns.map(|rest_ns| rest_ns.saturating_add(time_ns));
            let times_as_long = cpu_ns.map(|cpu_ns| costs::ratio(cpu_ns, report.cpu_ns));
            WhatIf { from_ratio: false, read_ps: Some(read_ps), cpu_ns, times_as_long }
        }
        Question::Times(times) => {
            let all_ns = costs::whole(report.cpu_ns as f64 * times);
            let cpu_ns = rest_ns.map(|_| all_ns);
            let left = rest_ns.and_then(|rest_ns| all_ns.checked_sub(rest_ns));
            let read_ps = left.map(|time_ns| {
                let each = u128::from(time_ns) * 1_000 / u128::from(reads.max(1));
                u64::try_from(each).unwrap_or(u64::MAX)
            });
            WhatIf { from_ratio: true, read_ps, cpu_ns, times_as_long: Some(times) }
        }
    }
}

/// The answer in words.
pub fn sentence(report: &TraceReport, what_if: &WhatIf) -> String {
    let reads = &report.clock_reads;
    if reads.clocksource_reads == 0 {
        return "no read of this program asks the clocksource: its cost makes no difference"
            .to_owned();
    }
    let (Some(cpu_ns), Some(times)) = (what_if.cpu_ns, what_if.times_as_long) else {
        return "not known, because too few reads were timed".to_owned();
    };
    let here = here_ps(report).map(|ps| format!(", here {}", units::picos(ps))).unwrap_or_default();
    let (now, then) = (units::nanos(report.cpu_ns), units::nanos(cpu_ns));
    let times_as_long = costs::times_as_long(times);
    let read = units::picos(what_if.read_ps.unwrap_or_default());
    match (what_if.from_ratio, what_if.read_ps) {
        (false, _) => format!(
            "at {read} a read{here}, this would take {then} of CPU time instead of {now}, {times_as_long}"
        ),
        (true, Some(ps)) if ps < BEYOND_EXPLANATION_PS => format!(
            "{times_as_long} ({then} of CPU time instead of {now}) fits a read of {read}{here}"
        ),
        (true, Some(_)) => format!(
            "{times_as_long} would need a read of {read}{here}: no clocksource is that slow, so look for \
             another cause"
        ),
        (true, None) => format!("no cost of a read makes this take {then} of CPU time"),
    }
}

/// Cost of a read of the clocksource in this trace, in picoseconds.
fn here_ps(report: &TraceReport) -> Option<u64> {
    let rest_ns = costs::without_reads(report)?;
    let time_ns = report.cpu_ns.checked_sub(rest_ns)?;
    let each =
        u128::from(time_ns) * 1_000 / u128::from(report.clock_reads.clocksource_reads.max(1));
    u64::try_from(each).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clockscope_model::trace::{ClockReads, VdsoRow};

    /// 100 ms of CPU time, with 1,000,000 reads of 25 ns each.
    fn report() -> TraceReport {
        let row = VdsoRow {
            function: "clock_gettime".to_owned(),
            clock: Some("CLOCK_MONOTONIC".to_owned()),
            calls: 1_000_000,
            timed: 900,
            time_total_ns: 25_000_000,
            ..VdsoRow::default()
        };
        TraceReport {
            cpu_ns: 100_000_000,
            vdso: vec![row],
            clock_reads: ClockReads {
                reads: 1_000_000,
                clocksource_reads: 1_000_000,
                ..ClockReads::default()
            },
            ..TraceReport::default()
        }
    }

    fn said(report: &TraceReport, question: Question) -> String {
        sentence(report, &answer(report, question))
    }

    #[test]
    fn a_cost_gives_a_time_and_a_time_gives_the_same_cost() {
        let slow = answer(&report(), Question::Read(Duration::from_nanos(1_225)));
        assert_eq!((slow.read_ps, slow.cpu_ns), (Some(1_225_000), Some(1_300_000_000)));
        assert_eq!(answer(&report(), Question::Times(13.0)).read_ps, Some(1_225_000));
        let questions = [Question::Read(Duration::from_nanos(1_225)), Question::Times(3.0)];
        insta::assert_snapshot!(questions.map(|question| said(&report(), question)).join("\n"), @r"
        at 1.23 us a read, here 25 ns, this would take 1.3 s of CPU time instead of 100 ms, 13 times as long
        3.0 times as long (300 ms of CPU time instead of 100 ms) fits a read of 225 ns, here 25 ns
        ");
    }

    #[test]
    fn a_faster_clock_saves_only_what_the_reads_took() {
        let fast = answer(&report(), Question::Read(Duration::from_nanos(20)));
        assert_eq!(fast.cpu_ns, Some(95_000_000));
    }

    #[test]
    fn what_no_clock_explains_is_said_to_have_another_cause() {
        let mut report = report();
        report.vdso[0].calls = 100;
        report.vdso[0].time_total_ns = 2_500;
        report.clock_reads.clocksource_reads = 100;
        assert_eq!(
            said(&report, Question::Times(3.0)),
            "3.0 times as long would need a read of 2 ms, here 25 ns: no clocksource is that slow, so \
             look for another cause"
        );
    }

    #[test]
    fn too_little_known_is_no_answer() {
        let mut untimed = report();
        untimed.vdso[0].timed = 0;
        for question in [Question::Read(Duration::from_micros(1)), Question::Times(3.0)] {
            assert_eq!(said(&untimed, question), "not known, because too few reads were timed");
            assert_eq!(answer(&untimed, question).cpu_ns, None);
        }
        untimed.clock_reads.clocksource_reads = 0;
        assert!(said(&untimed, Question::Times(3.0)).starts_with("no read of this program asks"));
    }
}
