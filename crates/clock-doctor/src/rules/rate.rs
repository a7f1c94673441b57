//! The rate of the TSC, and of the system clock.

use std::fmt::Display;

use super::finding::{append, merged};
use super::watchdog::figures::{a_day, hertz, share};
use super::watchdog::interval::FASTEST_HZ;
use super::watchdog::rates::{Rates, from_registration};
use super::{Event, EventKind, Evidence, Facts, Finding, Fix, Label, Verdict, is_device, is_tsc};

/// Limit beyond which a clock's rate is wrong, in parts per million: time daemons cannot slew more.
const WRONG_PPM: f64 = 500.0;
/// Maximum error of a crystal, in parts per million.
const NORMAL_PPM: f64 = 100.0;

/// The findings of these rules.
pub(crate) fn find(facts: &Facts, verdict: &Verdict) -> Vec<Finding> {
    let mut signs = Vec::new();
    signs.extend(by_log(facts));
    signs.extend(impossible(facts));
    if reads_tsc(verdict) {
        signs.extend(by_drift(facts));
        signs.extend(by_correction(facts));
    }
    // If the kernel uses another counter, its time is not wrong because of a rate that it measured only briefly.
    if reads_tsc(verdict) || is_settled(facts) {
        signs.extend(by_measurement(facts));
    }
    let mut found = merged(signs, append);
    for finding in &mut found {
        if finding.fixes.contains(&Fix::TscEarlyKhz) {
            // Recalibration would only print the rate that is known already.
            finding.fixes.retain(|fix| *fix != Fix::TscRecalibrate);
        }
        finding.fixes.push(Fix::Measure);
    }
    found
}

/// Whether the system clock runs at the TSC's rate: not if another counter is read.
fn reads_tsc(verdict: &Verdict) -> bool {
    let other = |name: &str| is_device(name) && !name.starts_with("hyperv");
    !verdict.source.as_deref().is_some_and(|name| other(name) || name == "arch_sys_counter")
}

/// Whether the kernel's rate is better than its first estimate, which may be 500 ppm off and more. The kernel refines
/// the rate only for a TSC that it did not refuse (`quick_pit_calibrate` and `tsc_refine_calibration_work` in
/// `arch/x86/kernel/tsc.c`, Linux 6.1).
fn is_settled(facts: &Facts) -> bool {
    use EventKind::{DetectedTsc, RateFromHypervisor, Refined};
    let settles = |kind: &_| matches!(kind, Refined(_) | DetectedTsc(_) | RateFromHypervisor(_));
    facts.logged(settles).is_some()
}

/// The kernel compared the rate with a timer and found it wrong.
fn by_log(facts: &Facts) -> Option<Finding> {
    let line = facts.logged(|kind| *kind == EventKind::RateDiffers)?;
    let mut found = Finding::new(Label::TscRateWrong).seen(&line.evidence);
    let (mut stated, mut timed) = (None, None);
    for event in facts.events() {
        let place = match &event.kind {
            EventKind::PreviousRate(mhz) => (&mut stated, mhz),
            EventKind::Recalibrated(mhz) => (&mut timed, mhz),
            _ => continue,
        };
        *place.0 = Some(*place.1).filter(|mhz| *mhz > 0.0 && mhz.is_finite());
        found = found.seen(&event.evidence);
    }
    let Some((stated, timed)) = stated.zip(timed) else {
        return Some(found.fix(&[Fix::BiosUpdate, Fix::TscRecalibrate]));
    };
    let ppm = (timed / stated - 1.0) * 1e6;
    let way = if ppm > 0.0 { "fast" } else { "slow" };
    let values: [(&str, &dyn Display); 6] = [
        ("stated", &format!("{stated:.3}")),
        ("timed", &format!("{timed:.3}")),
        ("khz", &format!("{:.0}", timed * 1e3)),
        ("share", &share(ppm)),
        ("way", &way),
        ("a-day", &a_day(ppm)),
    ];
    let found = found.tell_with("by-timer", &values).tell_with("kept-rate", &values);
    Some(found.fix(&[Fix::TscEarlyKhz, Fix::BiosUpdate]))
}

/// The kernel takes the TSC to run at a rate that no CPU has, and no other line has a possible one: else this line is
/// damaged.
fn impossible(facts: &Facts) -> Option<Finding> {
    let stated = |event: &Event| match &event.kind {
        EventKind::DetectedProcessor(mhz)
        | EventKind::DetectedTsc(mhz)
        | EventKind::Refined(mhz) => Some(mhz * 1e6),
        EventKind::Registered { name, max_cycles, max_idle_ns, .. } if is_tsc(name) => {
            from_registration(*max_cycles, *max_idle_ns)
        }
        _ => None,
    };
    let rates = facts.events().filter_map(|event| Some((event, stated(event)?)));
    let (event, hz) = rates.into_iter().find(|(_, hz)| *hz > FASTEST_HZ)?;
    if Rates::of(facts).tsc("tsc").is_some_and(|rate| rate.hz <= FASTEST_HZ) {
        return None;
    }
    let found = Finding::new(Label::TscRateWrong).seen(&event.evidence);
    let found = found.tell_with("impossible", &[("rate", &hertz(hz))]);
    Some(found.fix(&[Fix::BiosUpdate, Fix::TscRecalibrate]))
}

/// The time daemon recorded a drift too large for a crystal.
fn by_drift(facts: &Facts) -> Option<Finding> {
    let known = facts.drift_ppm.as_ref()?;
    let found = off_by(known.value, &known.evidence, "by-drift")?;
    // chrony's drift is the gain of the clock; ntpd's has the opposite sign.
    let gains = known.evidence.file.contains("chrony").then_some(known.value);
    let rate = gains.zip(Rates::of(facts).tsc("tsc"));
    let truth = rate.map(|(gains, rate)| (rate.hz, rate.hz / (1.0 - gains / 1e6)));
    // A second value for the parameter would only confuse.
    let is_told = facts.logged(|kind| matches!(kind, EventKind::Recalibrated(_))).is_some();
    let Some((hz, truth)) = truth.filter(|(_, hz)| (1e8..1e10).contains(hz) && !is_told) else {
        return Some(found.fix(&[Fix::BiosUpdate, Fix::TscRecalibrate]));
    };
    let khz = format!("{:.0}", truth / 1e3);
    let values: [(&str, &dyn Display); 3] =
        [("rate", &hertz(hz)), ("truth", &hertz(truth)), ("khz", &khz)];
    Some(found.tell_with("true-rate", &values).fix(&[Fix::TscEarlyKhz, Fix::BiosUpdate]))
}

/// The kernel's clock is presently corrected by that much.
fn by_correction(facts: &Facts) -> Option<Finding> {
    let discipline = facts.measured.as_ref()?.discipline.as_ref()?;
    // `tick` is in microseconds for a hundredth of a second: one more is 100 ppm.
    let by_tick =
        if discipline.tick_us > 0 { (discipline.tick_us - 10_000) as f64 * 100.0 } else { 0.0 };
    let text = format!("frequency {} ppm, tick {}", discipline.frequency_ppm, discipline.tick_us);
    let evidence = Evidence::measured(text);
    let found = off_by(discipline.frequency_ppm + by_tick, &evidence, "by-correction")?;
    Some(found.fix(&[Fix::BiosUpdate, Fix::TscRecalibrate]))
}

/// The finding that a clock is corrected by `ppm`, if that is too much.
fn off_by(ppm: f64, evidence: &Evidence, key: &str) -> Option<Finding> {
    let is_wrong = ppm.abs() > WRONG_PPM && ppm.is_finite();
    let values: [(&str, &dyn Display); 3] =
        [("share", &share(ppm)), ("a-day", &a_day(ppm)), ("normal", &share(NORMAL_PPM))];
    let finding = Finding::new(Label::TscRateWrong).seen(evidence).tell_with(key, &values);
    is_wrong.then_some(finding)
}

/// The TSC's rate, measured against the kernel's clock, differs from the kernel's rate by more than the measurement's
/// bound.
fn by_measurement(facts: &Facts) -> Option<Finding> {
    let host = &facts.measured.as_ref()?.host;
    let (kernel, measured) = (host.tsc_hz_kernel?, host.tsc_hz_measured?);
    let ppm = (measured / kernel - 1.0) * 1e6;
    let is_known = kernel > 0.0 && measured > 0.0 && ppm.is_finite();
    let is_wrong = is_known && ppm.abs() > WRONG_PPM && ppm.abs() > host.tsc_bound_ppm?;
    if !is_wrong {
        return None;
    }
    let from = host.tsc_hz_source.as_deref().unwrap_or("the kernel");
    let (measured, kernel) = (hertz(measured), hertz(kernel));
    let text = format!("TSC {measured} measured, {kernel} by {from}");
    let finding = Finding::new(Label::TscRateWrong).measured(text);
    let values: [(&str, &dyn Display); 5] = [
        ("measured", &measured),
        ("kernel", &kernel),
        ("from", &from),
        ("share", &share(ppm)),
        ("a-day", &a_day(ppm)),
    ];
    Some(finding.tell_with("by-measurement", &values).fix(&[Fix::BiosUpdate]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Known;
    use crate::measured::{Discipline, Measured};
    use crate::rules::state;
    use clockscope_model::host::HostState;

    /// A host whose kernel assumes one rate of the TSC, where another was measured.
    fn rates(kernel: f64, measured: f64, bound_ppm: Option<f64>) -> Measured {
        let host = HostState {
            tsc_hz_kernel: Some(kernel),
            tsc_hz_measured: Some(measured),
            tsc_bound_ppm: bound_ppm,
            ..HostState::default()
        };
        Measured { host, ..Measured::default() }
    }

    fn with_measured(measured: Measured) -> Vec<&'static str> {
        let current = Some(Known::new("tsc".to_owned(), "current_clocksource", "tsc"));
        let facts = Facts { measured: Some(measured), current, ..Facts::default() };
        let verdict = state::verdict(&facts);
        find(&facts, &verdict).iter().map(|finding| finding.label.name()).collect()
    }

    #[test]
    fn a_measured_rate_counts_only_beyond_its_bound() {
        let host = |measured, bound| with_measured(rates(2e9, measured, bound));
        assert_eq!(host(2.002e9, Some(20.0)), ["tsc-rate-wrong"]);
        assert_eq!(host(1.998e9, Some(20.0)), ["tsc-rate-wrong"]);
        assert!(host(2.002e9, Some(1500.0)).is_empty(), "within the bound");
        assert!(host(2.000_9e9, Some(20.0)).is_empty(), "450 ppm");
        assert!(host(2.002e9, None).is_empty(), "no bound");
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(host(bad, Some(20.0)).is_empty(), "{bad}");
        }
    }

    #[test]
    fn a_first_look_at_a_tsc_that_was_refused_is_no_rate() {
        let found = |log: &str, source: &str| {
            let log = crate::log::reader::read(&mut log.as_bytes(), "dmesg").unwrap();
            let facts = Facts {
                log: Some(log),
                current: Some(Known::new(source.to_owned(), "current_clocksource", source)),
                measured: Some(rates(2_594_291_000.0, 2_596_152_000.0, Some(10.0))),
                ..Facts::default()
            };
            find(&facts, &state::verdict(&facts)).len()
        };
        let glanced = "[    0.000000] tsc: Detected 2594.291 MHz processor\n";
        let refined = "[    1.8] tsc: Refined TSC clocksource calibration: 2594.291 MHz\n";
        assert_eq!(found(glanced, "hpet"), 0);
        assert_eq!(found(&format!("{glanced}{refined}"), "hpet"), 1);
        assert_eq!(found(glanced, "tsc"), 1);
    }

    #[test]
    fn the_kernels_correction_counts_with_its_tick() {
        let corrected = |frequency_ppm: f64, tick_us: i64| {
            let discipline = Discipline { frequency_ppm, tick_us, ..Discipline::default() };
            with_measured(Measured { discipline: Some(discipline), ..Measured::default() })
        };
        assert!(corrected(-35.0, 10_000).is_empty());
        assert!(corrected(450.0, 10_000).is_empty());
        assert!(corrected(0.0, 0).is_empty(), "not known");
        assert_eq!(corrected(12.0, 9_600), ["tsc-rate-wrong"]);
        // The tick is 5 us longer, and the frequency correction compensates for that.
        assert!(corrected(-480.0, 10_005).is_empty());
    }
}
