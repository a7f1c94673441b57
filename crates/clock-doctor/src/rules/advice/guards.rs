//! Whether a clock that reads the TSC in user space would be correct on this machine.

use crate::rules::{Facts, Finding, Label, Says};

/// Whether a program can get correct time from the TSC on this machine: `Ok` if no known fact speaks against it. A TSC
/// given up by the watchdog is acceptable if the watchdog's own numbers acquit it (a wrapped or slow reference, a torn
/// read, a pause).
///
/// # Errors
///
/// The reason against it, as a clause.
pub fn tsc_guards(facts: &Facts, findings: &[Finding]) -> Result<(), String> {
    let has_tsc = |machine: &&str| ["x86_64", "i386", "i586", "i686"].contains(machine);
    if let Some(machine) = facts.cpu.machine_name().filter(|machine| !has_tsc(machine)) {
        return Err(format!("{machine} has no TSC"));
    }
    let refused = |label: Label, but: &str| Err(format!("{}{but} ({label})", label.page().title));
    if let Some(finding) = findings.iter().find(|finding| finding.says(Says::TscIsWrong)) {
        return refused(finding.label, "");
    }
    invariant(facts)?;
    let warp = facts.measured.as_ref().and_then(|measured| measured.warp.as_ref());
    let offsets_are_good = warp.is_some_and(|warp| warp.pairs > 0 && warp.backwards == 0);
    for finding in findings {
        if finding.says(Says::OffsetsAreOpen) && !offsets_are_good {
            return refused(finding.label, ", and no measurement says otherwise");
        }
        if finding.says(Says::RateIsOpen) && !rate_is_good(facts) {
            return refused(finding.label, "");
        }
    }
    Ok(())
}

/// The counter's rate must not follow the CPU's, and the counter must not stop in sleep.
fn invariant(facts: &Facts) -> Result<(), String> {
    for flag in ["constant_tsc", "nonstop_tsc"] {
        match facts.tsc_flag(flag) {
            Some(true) => {}
            Some(false) => return Err(format!("the TSC is not invariant: no {flag}")),
            None => return Err(format!("it is not known whether the CPU has {flag}")),
        }
    }
    Ok(())
}

/// Whether the kernel's rate of the TSC agrees with the measured one within 100 ppm, the tolerance of crystals. The
/// rate was measured against the kernel's clock, so this proves something only if the kernel does not get its time from
/// the TSC.
fn rate_is_good(facts: &Facts) -> bool {
    let host = facts.measured.as_ref().map(|measured| &measured.host);
    let is_other = |source: &str| ["hpet", "acpi_pm", "sgi_rtc"].contains(&source);
    let host = host.filter(|host| host.clocksource.as_deref().is_some_and(is_other));
    let rates = host.and_then(|host| Some((host.tsc_hz_kernel?, host.tsc_hz_measured?)));
    rates.is_some_and(|(kernel, measured)| ((measured - kernel) / kernel).abs() < 100e-6)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::facts::{CpuFacts, Known};
    use crate::measured::{Measured, WarpMeasured};

    fn machine(flags: &[&str]) -> Facts {
        let flags: BTreeSet<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
        let flags = Some(Known::new(flags, "proc/cpuinfo", "flags"));
        let cpu = CpuFacts { flags, flags_are_complete: true, ..CpuFacts::default() };
        Facts { cpu, ..Facts::default() }
    }

    fn invariant_machine() -> Facts {
        machine(&["constant_tsc", "nonstop_tsc"])
    }

    fn findings(labels: &[Label]) -> Vec<Finding> {
        labels.iter().map(|&label| Finding::new(label)).collect()
    }

    #[test]
    fn a_watchdog_that_erred_is_no_reason_against_the_tsc() {
        for label in [
            Label::WatchdogFalsePositiveLikely,
            Label::WatchdogCounterWrapped,
            Label::TscWatchdogReaddelay,
            Label::TscWatchdogGlitch,
            Label::TscWatchdogShortInterval,
            Label::VmPaused,
        ] {
            let findings = findings(&[Label::TscWatchdogSkew, Label::TscAbsent, label]);
            assert_eq!(tsc_guards(&invariant_machine(), &findings), Ok(()), "{label}");
        }
        assert_eq!(tsc_guards(&invariant_machine(), &[]), Ok(()));
    }

    #[test]
    fn every_reason_against_it_is_named() {
        let is_wrong = |label: &Label| label.bearing().says.contains(&Says::TscIsWrong);
        for label in Label::ALL.into_iter().filter(is_wrong) {
            let refused = tsc_guards(&invariant_machine(), &findings(&[label])).unwrap_err();
            assert!(refused.contains(label.name()), "{refused}");
        }
    }

    #[test]
    fn a_tsc_that_is_not_known_to_be_invariant_is_refused() {
        let refused = |facts: &Facts| tsc_guards(facts, &[]).unwrap_err();
        assert_eq!(
            refused(&machine(&["constant_tsc"])),
            "the TSC is not invariant: no nonstop_tsc"
        );
        let unknown = refused(&Facts::default());
        assert_eq!(unknown, "it is not known whether the CPU has constant_tsc");
        let mut arm = invariant_machine();
        arm.cpu.machine = Some(Known::new("aarch64".to_owned(), "", ""));
        assert_eq!(refused(&arm), "aarch64 has no TSC");
    }

    #[test]
    fn a_warp_of_the_boot_is_overruled_by_a_measurement_only() {
        let found = findings(&[Label::TscWarp, Label::TscWarpSmall]);
        let mut facts = invariant_machine();
        assert!(tsc_guards(&facts, &found).is_err());
        let warp =
            |backwards| Some(WarpMeasured { pairs: 6, backwards, ..WarpMeasured::default() });
        facts.measured = Some(Measured { warp: warp(1), ..Measured::default() });
        assert!(tsc_guards(&facts, &found).is_err());
        facts.measured = Some(Measured { warp: warp(0), ..Measured::default() });
        assert_eq!(tsc_guards(&facts, &found), Ok(()));
    }

    #[test]
    fn an_undecided_rate_needs_one_that_was_measured() {
        let found = findings(&[Label::NeedsRateMeasurement]);
        assert!(tsc_guards(&invariant_machine(), &found).is_err());
        let guards = |hz, clocksource: &str| {
            let mut measured = Measured::default();
            measured.host.tsc_hz_kernel = Some(1.896e9);
            measured.host.tsc_hz_measured = Some(hz);
            measured.host.clocksource = Some(clocksource.to_owned());
            tsc_guards(&Facts { measured: Some(measured), ..invariant_machine() }, &found)
        };
        assert!(guards(1.975e9, "acpi_pm").is_err());
        assert!(guards(1.896_01e9, "tsc").is_err(), "the TSC is judged by itself");
        assert_eq!(guards(1.896_01e9, "acpi_pm"), Ok(()));
    }
}
