//! Labels: ARM, firmware and the other timers.

use super::{Bearing, Fix, Label, LabelRow, PLAIN, Says, Severity};

pub(super) static LABELS: &[LabelRow] = &[
    LabelRow {
        label: Label::ArmErratumVdsoOff,
        severity: Severity::Slow,
        title: "a CPU erratum takes the clock out of the vDSO",
        explanation: "For errata in which a read of the counter can give a wrong value (Freescale \
            A-008585, HiSilicon 161010101, ARM 858921 of Cortex-A73, Allwinner UNKNOWN1) the \
            kernel reads it with a work-around. The vDSO cannot, so every read is a system call, \
            on all cores, even if only some have the erratum.",
        fix: "None in software. Read a coarse clock where a tick will do, or read once for a \
            batch.",
        caveat: "A kernel without the work-around would be fast and now and then wrong.",
        references: &[
            "drivers/clocksource/arm_arch_timer.c (6.12)",
            "Documentation/arch/arm64/silicon-errata.rst",
        ],
        bearing: Bearing { weight: 70, ..PLAIN },
    },
    LabelRow {
        label: Label::ArmErratumCompatOnly,
        severity: Severity::Note,
        title: "a CPU erratum concerns 32-bit programs only",
        explanation: "ARM 1418040 (Cortex-A76, Neoverse N1) makes the kernel trap the counter for 32-bit \
            processes. 64-bit ones read it in the vDSO as ever.",
        fix: "Nothing to do with 64-bit programs.",
        caveat: "",
        references: &["drivers/clocksource/arm_arch_timer.c (6.12)"],
        bearing: PLAIN,
    },
    LabelRow {
        label: Label::ArmCntvctTrapped,
        severity: Severity::Slow,
        title: "reads of the counter from user space trap",
        explanation: "On cores with the erratum a program that reads the counter itself (CNTVCT) is \
            trapped and answered by the kernel. That costs at least what a system call costs.",
        fix: "None in software; use clock_gettime, and a coarse clock where a tick will do.",
        caveat: "",
        references: &["drivers/clocksource/arm_arch_timer.c (6.12)"],
        bearing: Bearing { follows: &[Label::ArmErratumVdsoOff], ..PLAIN },
    },
    LabelRow {
        label: Label::Arm32VdsoOff,
        severity: Severity::Slow,
        title: "the vDSO's clock functions are removed",
        explanation: "On 32-bit ARM the kernel empties the vDSO's clock functions when the device tree has \
            no ARMv7 timer, or says that the firmware did not set its registers up \
            (arm,cpu-registers-not-fw-configured). Each read is a system call then.",
        fix: "A 64-bit kernel and firmware that sets the timer up.",
        caveat: "",
        references: &["arch/arm/kernel/vdso.c", "raspberrypi/linux #6601"],
        bearing: Bearing { says: &[Says::NoVdso], ..PLAIN },
    },
    LabelRow {
        label: Label::FirmwareTscAdjust,
        severity: Severity::Note,
        title: "the firmware changed the TSC, the kernel repaired it",
        explanation: "Firmware wrote TSC_ADJUST on some CPUs, which sets their counters apart; the kernel \
            set it back. By itself that is repaired, but firmware that does so may do it again \
            on resume.",
        fix: "Update the firmware.",
        caveat: "Watch for a warp after it.",
        references: &["arch/x86/kernel/tsc_sync.c (6.12)", "linuxdeepin/kernel #265"],
        bearing: PLAIN,
    },
    LabelRow {
        label: Label::FirmwareP0Warning,
        severity: Severity::Note,
        title: "the firmware's P-state set-up is odd",
        explanation: "An AMD CPU, mostly a virtual one, says that its TSC does not count with the \
            frequency of P-state 0. It is a remark on the firmware or hypervisor; the TSC's rate \
            is calibrated in any case.",
        fix: "Nothing to do.",
        caveat: "",
        references: &["arch/x86/kernel/cpu/amd.c", "oxidecomputer/propolis #328"],
        bearing: PLAIN,
    },
    LabelRow {
        label: Label::HpetNotEnabledInBios,
        severity: Severity::Note,
        title: "the HPET is turned off in the firmware",
        explanation: "The chipset has an HPET that the firmware did not turn on. That matters only if the \
            TSC is lost: the fallback and the watchdog's reference is then acpi_pm, with 24 \
            bits.",
        fix: "Turn it on in the firmware's set-up if the TSC is lost.",
        caveat: "",
        references: &["arch/x86/kernel/quirks.c (6.12)"],
        bearing: PLAIN,
    },
    LabelRow {
        label: Label::HpetUnreliable,
        severity: Severity::Note,
        title: "the kernel turned the HPET off",
        explanation: "The HPET did not count, or stands on the kernel's list of chipsets where it is not \
            reliable. acpi_pm is the fallback and the watchdog's reference then.",
        fix: "Nothing, while the TSC is in use.",
        caveat: "Do not force it on (hpet=force).",
        references: &["arch/x86/kernel/hpet.c, early-quirks.c (6.12)"],
        bearing: Bearing { also_forbids: &[Fix::EnableHpet, Fix::SwitchToHpet], ..PLAIN },
    },
    LabelRow {
        label: Label::AcpiPmBug,
        severity: Severity::Note,
        title: "the ACPI timer is slow or wrong on this chipset",
        explanation: "On chipsets of a list the kernel reads the ACPI timer three times for each value, \
            and rates it 120 instead of 200. Where it runs at a wrong rate it is not used at \
            all.",
        fix: "Use another clocksource. acpi_pm_good takes a falsely listed chipset off the list.",
        caveat: "",
        references: &["drivers/clocksource/acpi_pm.c (6.12)"],
        bearing: PLAIN,
    },
];
