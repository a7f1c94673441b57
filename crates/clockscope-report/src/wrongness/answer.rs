//! The verdict in a few sentences, and the legend of the table.

use super::sentences::short;
use clockscope_model::wrongness::{ClockRow, Staleness, WrongnessReport};
use clockscope_text::names::distinct;
use clockscope_text::units;

/// The meaning of each head of the table, one clause each.
pub(super) const LEGEND: &str = "back: the worst step back on one CPU; step: the least step forward, for a precise clock what a read \
     costs; getres: what clock_getres(2) says; stale: how old the answers are, the middle, 99 % of them, and the \
     oldest; warp: the worst step back from one CPU to another; floor: a smaller warp cannot be seen; t: ticks of \
     the counter; - not tested; ? the CPUs never met";

/// The errors of the clocks in total, and whether they are acceptable.
pub(super) fn of(report: &WrongnessReport) -> String {
    let seconds = report.elapsed_ms as f64 / 1e3;
    let wrong = wrong(report);
    let mut sentences = vec![if report.faults.is_empty() {
        format!("No fault found in {seconds:.1} s: {}.", order(report))
    } else {
        let faults = units::counted(report.faults.len() as u64, "fault", "faults");
        let others = report.clocks.iter().filter(|clock| !wrong.contains(&&*clock.clock)).count();
        let others = match others {
            0 => String::new(),
            1 => "; no fault was found in the other one".to_owned(),
            others => format!("; none was found in the {others} others"),
        };
        let names: Vec<&str> = wrong.iter().map(|name| short(name)).collect();
        format!("{faults} found in {seconds:.1} s, in {}{others}.", names.join(", "))
    }];
    sentences.extend(lag(report, &wrong));
    if report.discipline.as_ref().is_some_and(|discipline| !discipline.synchronised) {
        sentences.push(
            "Nothing keeps REALTIME to the true time: how far it is off is not known.".to_owned(),
        );
    }
    sentences.join(" ")
}

/// Clocks with a fault, each once.
fn wrong(report: &WrongnessReport) -> Vec<&str> {
    distinct(report.faults.iter().map(|fault| &*fault.clock))
}

/// The tests that no clock failed.
fn order(report: &WrongnessReport) -> String {
    let clocks = match report.clocks.len() {
        0 => return "no clock was read".to_owned(),
        1 => "the clock".to_owned(),
        number => format!("all {number} clocks"),
    };
    let is_compared =
        |warp: &&clockscope_model::wrongness::WarpRow| warp.floor.is_some() && !warp.unordered;
    let places = match report.warps.iter().any(|warp| is_compared(&warp)) {
        true => "on one CPU and, where that was tested, between CPUs",
        false => "on one CPU",
    };
    let unordered = report.warps.iter().filter(|warp| warp.unordered && warp.warps > 0);
    let except = match unordered.map(|warp| short(&warp.source)).next() {
        Some(source) => format!(", except {source}, which may be read before its turn"),
        None => String::new(),
    };
    format!("{clocks} kept order {places}{except}")
}

/// Age of the answers of coarse clocks without a fault.
fn lag(report: &WrongnessReport, wrong: &[&str]) -> Option<String> {
    let aged = |clock: &&ClockRow| {
        let staleness = clock.staleness.as_ref();
        staleness.is_some_and(|s| s.busy.count > 0) && !wrong.contains(&&*clock.clock)
    };
    let coarse: Vec<&ClockRow> = report.clocks.iter().filter(aged).collect();
    let oldest = |of: fn(&Staleness) -> u64| {
        coarse.iter().filter_map(|clock| clock.staleness.as_ref()).map(of).max()
    };
    let (busy, idle) = (oldest(|s| s.busy.p99_ns)?, oldest(|s| s.idle.p99_ns)?);
    let idle = if idle > busy + busy / 8 {
        format!(" ({} if the machine sleeps in between)", units::nanos(idle))
    } else {
        String::new()
    };
    let names: Vec<&str> = coarse.iter().map(|clock| short(&clock.clock)).collect();
    let answers = if names.len() == 1 { "answers" } else { "answer" };
    Some(format!(
        "{} {answers} with a time up to {} old{idle}, which is what coarse clocks do: fine for time stamps, not for \
         short times.",
        names.join(" and "),
        units::nanos(busy)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clockscope_model::wrongness::{Discipline, Distribution, Fault, WarpRow};

    fn clock(name: &str, p99_ns: u64) -> ClockRow {
        let busy = Distribution { count: 9, p99_ns, ..Distribution::default() };
        let staleness = (p99_ns > 0).then(|| Staleness { busy, ..Staleness::default() });
        ClockRow { clock: name.to_owned(), staleness, ..ClockRow::default() }
    }

    fn report() -> WrongnessReport {
        WrongnessReport {
            elapsed_ms: 2_100,
            clocks: vec![
                clock("CLOCK_MONOTONIC", 0),
                clock("CLOCK_REALTIME_COARSE", 5_680_000),
                clock("CLOCK_MONOTONIC_COARSE", 5_690_000),
            ],
            warps: vec![WarpRow { floor: Some(20), ..WarpRow::default() }],
            ..WrongnessReport::default()
        }
    }

    #[test]
    fn clocks_without_a_fault_are_called_fine() {
        assert_eq!(
            of(&report()),
            "No fault found in 2.1 s: all 3 clocks kept order on one CPU and, where that was tested, between CPUs. \
             REALTIME_COARSE and MONOTONIC_COARSE answer with a time up to 5.69 ms old, which is what coarse \
             clocks do: fine for time stamps, not for short times."
        );
        let alone = WrongnessReport { clocks: vec![clock("rdtsc", 0)], warps: vec![], ..report() };
        assert_eq!(of(&alone), "No fault found in 2.1 s: the clock kept order on one CPU.");
        let early =
            WarpRow { source: "rdtsc".to_owned(), unordered: true, warps: 7, ..WarpRow::default() };
        let said = of(&WrongnessReport { warps: vec![early], ..report() });
        assert!(said.contains("kept order on one CPU, except rdtsc, which may be read"), "{said}");
        let mut sleepy = report();
        sleepy.clocks[1].staleness.as_mut().unwrap().idle.p99_ns = 16_000_000;
        assert!(
            of(&sleepy).contains("5.69 ms old (16 ms if the machine sleeps in between), which")
        );
        let none = WrongnessReport::default();
        assert_eq!(of(&none), "No fault found in 0.0 s: no clock was read.");
    }

    #[test]
    fn a_clock_with_a_fault_is_named_and_not_excused() {
        let fault = |kind: &str, clock: &str| Fault {
            kind: kind.to_owned(),
            clock: clock.to_owned(),
            ..Fault::default()
        };
        let faults = vec![
            fault("stale", "CLOCK_REALTIME_COARSE"),
            fault("backward", "CLOCK_MONOTONIC"),
            fault("warp", "CLOCK_MONOTONIC"),
        ];
        let said = of(&WrongnessReport { faults, ..report() });
        assert_eq!(
            said,
            "3 faults found in 2.1 s, in REALTIME_COARSE, MONOTONIC; no fault was found in the other one. \
             MONOTONIC_COARSE answers with a time up to 5.69 ms old, which is what coarse clocks do: fine for time \
             stamps, not for short times."
        );
    }

    #[test]
    fn a_wall_clock_that_nothing_disciplines_may_be_off() {
        let discipline = Some(Discipline::default());
        let said = of(&WrongnessReport { discipline, ..report() });
        assert!(said.ends_with("how far it is off is not known."), "{said}");
    }
}
