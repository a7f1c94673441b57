//! Finds the faults of clocks in the figures, and leaves out apparent ones.
//!
//! The thresholds are here, with their reasons; docs/measuring.md repeats them.

use super::sentences;
use super::sentences::amount;
use clockscope_model::wrongness::{ClockRow, Fault, OffsetRow, RateRow, WarpRow, WrongnessReport};
use clockscope_text::units;

/// Median age of busy samples beyond which a coarse clock is stale, in its ticks.
///
/// An answer is as old as the last tick, plus the remainder that the kernel left out there: up to one more
/// tick, constant for a boot. The median of a healthy clock is therefore below 1.5 ticks and its greatest age
/// below 2 plus the lateness of a tick. The median decides, not the greatest age, because on a virtual
/// machine ticks come late whenever the host runs another guest.
pub(crate) const STALE_TICKS: f64 = 2.5;

/// Deviation of a rate, beyond the bound of the measurement, that is a fault; in parts per million.
///
/// # References
///
/// - `tools/testing/selftests/timers/raw_skew.c` (Linux 6.18)
pub(crate) const RATE_PPM: f64 = 1.0;

/// Limit of slewing, in parts per million. The kernel slews `CLOCK_REALTIME` together with `CLOCK_MONOTONIC`:
/// if the two are further apart, `CLOCK_REALTIME` was set.
pub(crate) const SLEW_PPM: f64 = 500.0;

/// Adds the faults to the report.
pub fn judge(report: &mut WrongnessReport) {
    let mut faults = Vec::new();
    faults.extend(step_fault(report));
    for clock in &report.clocks {
        faults.extend(backward(report, clock));
        faults.extend(ahead(report, clock));
        faults.extend(stale(report, clock));
    }
    faults.extend(report.warps.iter().filter_map(|warp| warped(report, warp)));
    faults.extend(report.offsets.iter().filter_map(|offset| offset_fault(report, offset)));
    faults.extend(report.rates.iter().filter_map(|rate| rate_fault(report, rate)));
    report.faults = faults;
}

fn fault(kind: &str, clock: &str, sentence: String) -> Fault {
    Fault { kind: kind.to_owned(), clock: clock.to_owned(), sentence }
}

/// The rate of `CLOCK_REALTIME` if only a step explains that rate.
fn step(report: &WrongnessReport) -> Option<&RateRow> {
    let mut rates = report.rates.iter();
    rates.find(|rate| rate.clock == "CLOCK_REALTIME" && rate.ppm.abs() > SLEW_PPM + rate.bound_ppm)
}

/// Whether a step of `CLOCK_REALTIME` may explain this clock's deviation.
fn was_stepped(report: &WrongnessReport, clock: &str) -> bool {
    (clock.starts_with("CLOCK_REALTIME") || clock == "CLOCK_TAI") && step(report).is_some()
}

fn step_fault(report: &WrongnessReport) -> Option<Fault> {
    let rate = step(report)?;
    // 1 ms times 1 ppm is 1 ns.
    let seconds = rate.ppm.abs() * rate.baseline_ms as f64 / 1e9;
    let way = if rate.ppm < 0.0 { "back" } else { "forward" };
    let sentence =
        format!("CLOCK_REALTIME was set {seconds:.3} s {way} against {}", rate.reference);
    Some(fault("step", &rate.clock, sentence))
}

fn backward(report: &WrongnessReport, clock: &ClockRow) -> Option<Fault> {
    if clock.backward == 0 || was_stepped(report, &clock.clock) {
        return None;
    }
    let sentence = format!("{} {}", clock.clock, sentences::went_back(clock));
    Some(fault("backward", &clock.clock, sentence))
}

/// Only a coarse clock has a reference, and must not be ahead of it.
fn ahead(report: &WrongnessReport, clock: &ClockRow) -> Option<Fault> {
    if was_stepped(report, &clock.clock) || clock.backward > 0 {
        return None;
    }
    let ahead = clock.staleness.as_ref().filter(|staleness| staleness.ahead > 0)?;
    let sentence = format!(
        "{} was ahead of {} in {} reads, by up to {}",
        clock.clock,
        ahead.reference,
        units::count(ahead.ahead),
        units::nanos(ahead.ahead_max_ns)
    );
    Some(fault("ahead", &clock.clock, sentence))
}

fn stale(report: &WrongnessReport, clock: &ClockRow) -> Option<Fault> {
    let staleness = clock.staleness.as_ref()?;
    let tick = clock.resolution.as_ref()?.getres_ns? as f64;
    let median = staleness.busy.p50_ns;
    if median as f64 <= STALE_TICKS * tick || was_stepped(report, &clock.clock) {
        return None;
    }
    let sentence = format!(
        "{} is {} old in half of its reads: {:.1} ticks, where 2 explain themselves",
        clock.clock,
        units::nanos(median),
        median as f64 / tick
    );
    Some(fault("stale", &clock.clock, sentence))
}

/// A clock that goes back on one CPU also does so between two CPUs; only the former is reported.
fn warped(report: &WrongnessReport, warp: &WarpRow) -> Option<Fault> {
    let is_told = report.clocks.iter().any(|c| c.clock == warp.source && c.backward > 0);
    if warp.warps == 0 || warp.unordered || is_told || was_stepped(report, &warp.source) {
        return None;
    }
    let side = match warp.behind {
        _ if warp.random => "both see it: it is not usable at all".to_owned(),
        Some(cpu) => format!("CPU {cpu} is behind"),
        None => "it is not clear which is behind".to_owned(),
    };
    let sentence = format!(
        "{} goes back from CPU {} to {} in {} of {} hand-overs, by up to {}: {side}",
        warp.source,
        warp.cpus.0,
        warp.cpus.1,
        units::count(warp.warps),
        units::count(warp.handovers),
        amount(warp.max_warp, &warp.unit)
    );
    Some(fault("warp", &warp.source, sentence))
}

/// An offset that a warp of the same source already shows is not reported again.
fn offset_fault(report: &WrongnessReport, offset: &OffsetRow) -> Option<Fault> {
    let is_told = report
        .warps
        .iter()
        .any(|warp| warp.warps > 0 && warp.source == offset.source && warp.cpus == offset.cpus);
    if !offset.proven || is_told {
        return None;
    }
    let sentence = format!(
        "{} of CPU {} is off that of CPU {} by {} +/- {} {}",
        offset.source, offset.cpus.1, offset.cpus.0, offset.offset, offset.error, offset.unit
    );
    Some(fault("offset", &offset.source, sentence))
}

fn rate_fault(report: &WrongnessReport, rate: &RateRow) -> Option<Fault> {
    let is_stepped = was_stepped(report, &rate.clock) || was_stepped(report, &rate.reference);
    let is_counter = rate.hz.is_some();
    let expected = rate.expected_ppm.or(is_counter.then_some(0.0))?;
    let off = rate.ppm - expected;
    if off.abs() <= rate.bound_ppm + RATE_PPM || is_stepped {
        return None;
    }
    let than = match rate.expected_ppm {
        None => "than in the first half of the run".to_owned(),
        Some(_) if is_counter => "than its nominal rate".to_owned(),
        Some(expected) => format!("than {}, where {expected:.2} are due", rate.reference),
    };
    let way = if rate.ppm < 0.0 { "slower" } else { "faster" };
    let sentence = format!(
        "{} runs {:.2} +/- {:.2} ppm {way} {than}",
        rate.clock,
        rate.ppm.abs(),
        rate.bound_ppm
    );
    Some(fault("rate", &rate.clock, sentence))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clockscope_model::wrongness::{Distribution, Resolution, Staleness};

    fn kinds(report: &mut WrongnessReport) -> Vec<String> {
        judge(report);
        report.faults.iter().map(|fault| fault.kind.clone()).collect()
    }

    fn coarse(p50_ns: u64) -> ClockRow {
        ClockRow {
            clock: "CLOCK_REALTIME_COARSE".to_owned(),
            unit: "ns".to_owned(),
            staleness: Some(Staleness {
                reference: "CLOCK_REALTIME".to_owned(),
                busy: Distribution { count: 10, p50_ns, p99_ns: p50_ns, ..Distribution::default() },
                ..Staleness::default()
            }),
            resolution: Some(Resolution { getres_ns: Some(4_000_000), ..Resolution::default() }),
            ..ClockRow::default()
        }
    }

    fn with_clock(clock: ClockRow) -> WrongnessReport {
        WrongnessReport { clocks: vec![clock], ..WrongnessReport::default() }
    }

    #[test]
    fn a_coarse_clock_may_be_two_ticks_old_but_not_three() {
        assert_eq!(kinds(&mut with_clock(coarse(8_000_000))), [""; 0]);
        assert_eq!(kinds(&mut with_clock(coarse(10_000_000))), [""; 0]);
        assert_eq!(kinds(&mut with_clock(coarse(12_000_000))), ["stale"]);
    }

    #[test]
    fn what_a_step_did_is_told_once() {
        let mut clock = coarse(900_000_000);
        clock.backward = 1;
        let mut report = with_clock(clock);
        let row = |clock: &str, reference: &str, ppm| RateRow {
            clock: clock.to_owned(),
            reference: reference.to_owned(),
            ppm,
            expected_ppm: Some(0.0),
            baseline_ms: 1_000,
            ..RateRow::default()
        };
        report.rates = vec![
            row("CLOCK_REALTIME", "CLOCK_MONOTONIC", -900_000.0),
            row("CLOCK_TAI", "CLOCK_REALTIME", 900_000.0),
        ];
        assert_eq!(kinds(&mut report), ["step"]);
        let said = "CLOCK_REALTIME was set 0.900 s back against CLOCK_MONOTONIC";
        assert_eq!(report.faults[0].sentence, said);
    }

    fn rate(ppm: f64, expected_ppm: Option<f64>, hz: Option<f64>) -> WrongnessReport {
        let row = RateRow {
            clock: "CLOCK_MONOTONIC".to_owned(),
            reference: "CLOCK_MONOTONIC_RAW".to_owned(),
            ppm,
            expected_ppm,
            bound_ppm: 0.5,
            hz,
            ..RateRow::default()
        };
        WrongnessReport { rates: vec![row], ..WrongnessReport::default() }
    }

    #[test]
    fn a_rate_is_judged_against_what_is_due_with_its_bound() {
        assert_eq!(kinds(&mut rate(1.4, Some(0.0), None)), [""; 0]);
        assert_eq!(kinds(&mut rate(-1.6, Some(0.0), None)), ["rate"]);
        assert_eq!(kinds(&mut rate(31.0, Some(30.0), None)), [""; 0]);
        assert_eq!(kinds(&mut rate(50.0, Some(0.0), None)), ["rate"]);
        assert_eq!(kinds(&mut rate(50.0, None, None)), [""; 0], "the kernel was slewing");
        assert_eq!(kinds(&mut rate(50.0, None, Some(1e9))), ["rate"], "a counter may not change");
    }

    fn warp(warps: u64, unordered: bool) -> WarpRow {
        WarpRow {
            source: "lfence;rdtsc".to_owned(),
            unit: "ticks".to_owned(),
            cpus: (0, 1),
            warps,
            unordered,
            behind: Some(1),
            ..WarpRow::default()
        }
    }

    #[test]
    fn only_ordered_reads_prove_a_warp_and_an_offset_is_not_told_twice() {
        let offset = OffsetRow {
            source: "lfence;rdtsc".to_owned(),
            cpus: (0, 1),
            proven: true,
            ..OffsetRow::default()
        };
        let mut report = WrongnessReport { warps: vec![warp(4, true)], ..Default::default() };
        assert_eq!(kinds(&mut report), [""; 0]);
        report.warps = vec![warp(4, false)];
        report.offsets = vec![offset];
        assert_eq!(kinds(&mut report), ["warp"]);
        report.warps = vec![warp(0, false)];
        assert_eq!(kinds(&mut report), ["offset"]);
    }
}
