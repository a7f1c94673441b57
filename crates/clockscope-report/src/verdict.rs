//! The last line of `run --stats`: gain or loss by the program's clock.

use super::costs;
use clockscope_model::trace::{Clock, TraceReport, Verdict};
use clockscope_text::foreign::printable;
use clockscope_text::units;

/// Least relative difference for a gain or loss: the cost of a read in the program is known to within this,
/// and in a loop a read costs a little less.
const SAME: f64 = 0.1;

/// The verdict in words.
pub(super) fn sentence(report: &TraceReport, verdict: &Verdict) -> String {
    let clock = &printable(&verdict.clock);
    if verdict.reads == 0 {
        return format!("nothing to say: the program read no clock that --clock {clock} answers");
    }
    if let Some(page) = report.clock_page.as_ref().filter(|page| page.answered < page.reads / 2) {
        return format!(
            "not known, because the kernel answered {} of {} in place of the page",
            units::count(page.reads.saturating_sub(page.answered)),
            units::counted(page.reads, "read", "reads")
        );
    }
    let Some(time_ns) = verdict.time_ns else {
        return "not known, because too few reads were timed".to_owned();
    };
    let cpu_ns = report.cpu_ns;
    let [here, kernel] =
        [time_ns, verdict.by_kernel_ns].map(|time_ns| costs::each(time_ns, verdict.reads));
    let costs = format!("a read costs {here} by {clock}, {kernel} by the kernel");
    let saved_ns = verdict.by_kernel_ns.saturating_sub(time_ns);
    let added_ns = time_ns.saturating_sub(verdict.by_kernel_ns);
    let is_same = costs::ratio(saved_ns.max(added_ns), verdict.by_kernel_ns.max(1)) < SAME;
    match &*verdict.clock {
        kernel if kernel == Clock::Kernel.name() => {
            // Both times have errors of some percent.
            let part =
                if time_ns < cpu_ns { units::nanos(time_ns) } else { "about all".to_owned() };
            format!(
                "the kernel's own clock, for comparison: its reads took {part} of {} of CPU, and no \
                 other clock saves more",
                units::nanos(cpu_ns)
            )
        }
        _ if is_same => format!("makes no difference here: {costs}"),
        _ if saved_ns > 0 => {
            let without = units::nanos(cpu_ns.saturating_add(saved_ns));
            let stale = match verdict.stale_ns {
                0 => String::new(),
                ns => format!("; stamps are up to {} old", units::nanos(ns)),
            };
            let saved = units::nanos(saved_ns);
            format!("saves about {saved} of at most {without} of CPU: {costs}{stale}")
        }
        slow if slow == Clock::Slow.name() || slow == Clock::Syscall.name() => {
            // The time without these reads would be a small difference of two large figures and is not printed.
            let added = if added_ns < cpu_ns { &*units::nanos(added_ns) } else { "all" };
            format!("added about {added} of {} of CPU: {costs}", units::nanos(cpu_ns))
        }
        _ => format!("gains nothing here: {costs}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clockscope_model::trace::ClockPageReport;

    /// What is said of a million reads by a clock, with the program's CPU time in ms, and the cost of a read by that clock and
    /// by the kernel in ps.
    fn said((clock, cpu_ms, each_ps, by_kernel_ps): (Clock, u64, u64, u64)) -> String {
        let reads = 1_000_000;
        let verdict = Verdict {
            clock: clock.name().to_owned(),
            reads,
            time_ns: Some(reads * each_ps / 1_000),
            by_kernel_ns: reads * by_kernel_ps / 1_000,
            stale_ns: if clock == Clock::Coarse { 8_000_000 } else { 0 },
        };
        sentence(&TraceReport { cpu_ns: cpu_ms * 1_000_000, ..TraceReport::default() }, &verdict)
    }

    #[test]
    fn a_clock_is_said_to_gain_only_where_it_does() {
        let reads = [
            (Clock::Tsc, 40, 31_900, 22_000),
            (Clock::Tsc, 40, 20_100, 21_700),
            (Clock::TscFast, 10, 9_500, 1_226_000),
            (Clock::Coarse, 8, 7_000, 22_000),
            (Clock::Coarse, 8, 30_000, 22_000),
        ];
        insta::assert_snapshot!(reads.map(said).join("\n"), @r"
        gains nothing here: a read costs 31.9 ns by tsc, 22 ns by the kernel
        makes no difference here: a read costs 20.1 ns by tsc, 21.7 ns by the kernel
        saves about 1.22 s of at most 1.23 s of CPU: a read costs 9.5 ns by tsc-fast, 1.23 us by the kernel
        saves about 15 ms of at most 23 ms of CPU: a read costs 7 ns by coarse, 22 ns by the kernel; stamps are up to 8 ms old
        gains nothing here: a read costs 30 ns by coarse, 22 ns by the kernel
        ");
    }

    #[test]
    fn what_a_slower_clock_added_is_said() {
        let reads = [
            (Clock::Slow, 1_300, 1_222_000, 22_000),
            (Clock::Slow, 1_300, 1_222_000, 1_226_000),
            (Clock::Syscall, 300, 254_000, 22_000),
            // The time of reads is elapsed time and may exceed the CPU time.
            (Clock::Slow, 100, 1_222_000, 22_000),
        ];
        insta::assert_snapshot!(reads.map(said).join("\n"), @r"
        added about 1.2 s of 1.3 s of CPU: a read costs 1.22 us by slow, 22 ns by the kernel
        makes no difference here: a read costs 1.22 us by slow, 1.23 us by the kernel
        added about 232 ms of 300 ms of CPU: a read costs 254 ns by syscall, 22 ns by the kernel
        added about all of 100 ms of CPU: a read costs 1.22 us by slow, 22 ns by the kernel
        ");
    }

    #[test]
    fn the_kernels_own_clock_bounds_what_can_be_saved() {
        let reads = [(Clock::Kernel, 465, 23_000, 22_000), (Clock::Kernel, 22, 23_000, 22_000)];
        insta::assert_snapshot!(reads.map(said).join("\n"), @r"
        the kernel's own clock, for comparison: its reads took 23 ms of 465 ms of CPU, and no other clock saves more
        the kernel's own clock, for comparison: its reads took about all of 22 ms of CPU, and no other clock saves more
        ");
    }

    #[test]
    fn too_little_is_no_verdict() {
        let nothing = Verdict { clock: "coarse".to_owned(), ..Verdict::default() };
        let report = TraceReport::default();
        assert!(sentence(&report, &nothing).starts_with("nothing to say: "));
        let untimed = Verdict { reads: 7, ..nothing };
        assert_eq!(sentence(&report, &untimed), "not known, because too few reads were timed");
        let page = ClockPageReport { reads: 100, answered: 49, ..ClockPageReport::default() };
        let report = TraceReport { clock_page: Some(page), ..report };
        let timed = Verdict { time_ns: Some(700), by_kernel_ns: 1_400, ..untimed };
        assert_eq!(
            sentence(&report, &timed),
            "not known, because the kernel answered 51 of 100 reads in place of the page"
        );
    }
}
