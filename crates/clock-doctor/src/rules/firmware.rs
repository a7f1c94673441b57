//! The firmware's changes of counters, and the kernel's lines about HPET and ACPI timer.

use super::finding::{Finding, Severity, Verdict};
use super::watchdog::episode;
use super::watchdog::machine::Machine;
use crate::facts::{Evidence, Facts};
use crate::log::event::EventKind;
use crate::rules::catalogue::{Fix, Label};

/// The findings of these rules.
pub(crate) fn find(facts: &Facts, verdict: &Verdict) -> Vec<Finding> {
    let machine = Machine::of(facts, verdict);
    let mut findings = Vec::new();
    findings.extend(adjusted(facts));
    let p0 = of(facts, Label::FirmwareP0Warning, |kind| *kind == EventKind::FirmwareP0);
    findings.extend(p0.map(|finding| {
        if machine.is_virtual {
            finding.detail("In a virtual machine it says nothing of the hardware.")
        } else {
            finding
        }
    }));
    findings.extend(
        of(facts, Label::HpetNotEnabledInBios, |kind| *kind == EventKind::HpetNotEnabled)
            .map(|finding| without_hpet(finding, facts, verdict, &machine)),
    );
    findings.extend(of(facts, Label::HpetUnreliable, |kind| *kind == EventKind::HpetDisabled));
    findings.extend(of(facts, Label::AcpiPmBug, |kind| {
        matches!(kind, EventKind::PmTimerBad | EventKind::PmTimerBug)
    }));
    findings
}

/// The finding `label`, if there are lines of that kind.
fn of(facts: &Facts, label: Label, is_it: impl Fn(&EventKind) -> bool) -> Option<Finding> {
    let lines: Vec<&Evidence> =
        facts.events().filter(|event| is_it(&event.kind)).map(|event| &event.evidence).collect();
    let (first, rest) = lines.split_first()?;
    // Firmware lines are printed once for each CPU.
    let finding =
        rest.iter().take(3).fold(Finding::new(label).seen(first), |all, line| all.seen(line));
    let more = lines.len();
    Some(if more > 4 { finding.detail(format!("There are {more} such lines.")) } else { finding })
}

/// The firmware wrote `TSC_ADJUST`; worse if the CPUs still disagreed afterwards.
fn adjusted(facts: &Facts) -> Option<Finding> {
    let is_adjusted = |kind: &EventKind| {
        matches!(kind, EventKind::AdjustDiffers(_) | EventKind::AdjustCompensated(_))
    };
    let finding = of(facts, Label::FirmwareTscAdjust, is_adjusted)?;
    let after = facts.events().skip_while(|event| !is_adjusted(&event.kind));
    let warped = after
        .into_iter()
        .find(|event| matches!(event.kind, EventKind::Warp(_) | EventKind::WarpRandom));
    let Some(warped) = warped else { return Some(finding) };
    Some(
        finding
            .severity(Severity::Wrong)
            .seen(&warped.evidence)
            .fix(&[Fix::BiosUpdate])
            .tell("came-back"),
    )
}

/// A missing HPET matters if the TSC is given up: the next best source is the slower ACPI timer.
fn without_hpet(finding: Finding, facts: &Facts, verdict: &Verdict, machine: &Machine) -> Finding {
    let is_lost =
        matches!(verdict.source.as_deref(), Some("acpi_pm" | "jiffies" | "refined-jiffies"))
            || episode::gather(facts)
                .iter()
                .any(|one| one.is_of_tsc() && (one.is_skew() || one.is_delay()))
            || facts
                .logged(|kind| matches!(kind, EventKind::Warp(_) | EventKind::WarpRandom))
                .is_some();
    if is_lost && !machine.is_virtual { finding.fix(&[Fix::EnableHpet]) } else { finding }
}

#[cfg(test)]
mod tests {
    use crate::rules::catalogue::Fix;
    use crate::rules::finding::{Diagnosis, Severity};
    use crate::rules::watchdog::fragment_tests::expect;

    #[track_caller]
    fn log(text: &str, must: &[&str], must_not: &[&str]) -> Diagnosis {
        expect(&[("var/log/dmesg", text)], must, must_not)
    }

    fn severity(found: &Diagnosis, label: &str) -> Severity {
        found.findings.iter().find(|one| one.label.name() == label).unwrap().severity
    }

    #[test]
    fn a_repaired_register_is_a_note_unless_the_repair_did_not_hold() {
        let differs = "[Firmware Bug]: TSC ADJUST differs: CPU0 0 --> -1234567. Restoring\n";
        let found = log(
            differs,
            &["firmware-tsc-adjust", "after-resume"],
            &["tsc-warp", "tsc-went-backwards"],
        );
        assert_eq!(severity(&found, "firmware-tsc-adjust"), Severity::Note);
        assert_eq!(severity(&found, "after-resume"), Severity::Note);
        let forced = "[ 0.0] [Firmware Bug]: TSC ADJUST: CPU0: -7284823 force to 0\n";
        log(forced, &["firmware-tsc-adjust"], &["after-resume", "tsc-warp"]);
        let warp = "[ 0.1] Measured 5000 cycles TSC warp between CPUs, turning off TSC clock.\n";
        let found = log(&format!("{forced}{warp}"), &["firmware-tsc-adjust", "tsc-warp"], &[]);
        assert_eq!(severity(&found, "firmware-tsc-adjust"), Severity::Wrong);
        let found = log(&format!("{warp}{forced}"), &["firmware-tsc-adjust", "tsc-warp"], &[]);
        assert_eq!(severity(&found, "firmware-tsc-adjust"), Severity::Note);
    }

    #[test]
    fn an_hpet_that_is_off_matters_where_the_tsc_is_lost() {
        let off = "[ 0.0] HPET not enabled in BIOS. You might try hpet=force boot option\n";
        let asks = |found: &Diagnosis| {
            let label = "hpet-not-enabled-in-bios";
            found
                .findings
                .iter()
                .any(|one| one.label.name() == label && one.fixes.contains(&Fix::EnableHpet))
        };
        assert!(!asks(&log(off, &["hpet-not-enabled-in-bios"], &["hpet-unreliable"])));
        let lost = "[ 0.1] Measured 5000 cycles TSC warp between CPUs, turning off TSC clock.\n";
        assert!(asks(&log(
            &format!("{off}{lost}"),
            &["hpet-not-enabled-in-bios", "tsc-warp"],
            &[]
        )));
    }

    #[test]
    fn timers_that_the_kernel_turned_off() {
        log(
            "[ 0.0] Will disable the HPET for this platform because it's not reliable\n",
            &["hpet-unreliable"],
            &["hpet-not-enabled-in-bios", "acpi_pm-bug"],
        );
        log(
            "[ 0.0] PM-Timer running at invalid rate: 201% of normal - aborting.\n",
            &["acpi_pm-bug"],
            &["hpet-unreliable"],
        );
        log(
            "[ 0.0] * The chipset may have PM-Timer Bug. Due to workarounds for a bug,\n",
            &["acpi_pm-bug"],
            &[],
        );
        log(
            "[ 0.0] [Firmware Bug]: TSC doesn't count with P0 frequency!\n",
            &["firmware-p0-warning"],
            &["firmware-tsc-adjust"],
        );
        log(
            "[ 0.0] hpet: HPET dysfunctional in PC10. Force disabled.\n",
            &[],
            &["hpet-unreliable"],
        );
    }
}
