//! Labels: what looks bad and is harmless.

use super::{Bearing, Fix, Label, LabelRow, PLAIN, Severity};

pub(super) static LABELS: &[LabelRow] = &[
    LabelRow {
        label: Label::HpetPc10Benign,
        severity: Severity::Ok,
        title: "the HPET is set aside as it stops in deep sleep",
        explanation: "On Coffee Lake and later the HPET stops in package sleep PC10. The kernel turns it \
            off, so that it can neither be read nor mislead the watchdog.",
        fix: "Nothing to do.",
        caveat: "Never hpet=force here.",
        references: &["arch/x86/kernel/hpet.c (5.10 to 6.12)"],
        bearing: Bearing { forbids: &[Fix::EnableHpet, Fix::SwitchToHpet], ..PLAIN },
    },
    LabelRow {
        label: Label::EarlySwitchBenign,
        severity: Severity::Ok,
        title: "the switches of clocksource at boot are normal",
        explanation: "A kernel takes the best source that it has so far: refined-jiffies, hpet, acpi_pm, \
            tsc-early or kvm-clock may each be current for seconds before the final one. A \
            request that comes too early is deferred and tried again.",
        fix: "Nothing to do.",
        caveat: "",
        references: &["kernel/time/clocksource.c (4.4 to 6.12)"],
        bearing: PLAIN,
    },
    LabelRow {
        label: Label::CalibrationNoteBenign,
        severity: Severity::Ok,
        title: "the calibration's remarks are normal",
        explanation: "`Fast TSC calibration failed` and `Unable to calibrate against PIT` only say that \
            the kernel went on to the next method (HPET, PM timer, CPUID, hypervisor). Guests \
            print it all the time.",
        fix: "Nothing to do.",
        caveat: "",
        references: &["arch/x86/kernel/tsc.c (2.6.36 to 6.12)"],
        bearing: PLAIN,
    },
];
