//! Labels: selection and parameters.

use super::{Bearing, Label, LabelRow, PLAIN, Says, Severity};

pub(super) static LABELS: &[LabelRow] = &[
    LabelRow {
        label: Label::TscAvailableNotSelected,
        severity: Severity::Slow,
        title: "the TSC is good and not used",
        explanation: "tsc is in the list of available clocksources, so the kernel has nothing against it, \
            and another source that is slower to read is current. Left alone the kernel takes \
            the source with the highest rating (tsc 300, hpet 250, acpi_pm 200; xen 400 or 275), \
            so a parameter, a script or a rating put the slow one first.",
        fix: "Write tsc to current_clocksource and read the file again; to keep it, take the \
            parameter away or boot with clocksource=tsc.",
        caveat: "On Xen hosts that suspend, and for guests that are restored from snapshots or \
            migrate, another source than tsc can be meant.",
        references: &[
            "kernel/time/clocksource.c (current_clocksource_store; 2.6.36 to 6.12)",
            "coreos/bugs #185",
        ],
        bearing: Bearing { weight: 70, ..PLAIN },
    },
    LabelRow {
        label: Label::BetterSourceAvailable,
        severity: Severity::Slow,
        title: "a faster clocksource is available and not used",
        explanation: "Among the available clocksources is one that the vDSO reads, or a device that is \
            better than the current one. hpet takes 1.2 to 1.9 us a read, acpi_pm 0.7 to 2.6 us, \
            both up to 30 us in a guest; acpi_pm also wraps every 4.69 s and is read three times \
            on some chipsets.",
        fix: "Write its name to current_clocksource and read the file again.",
        caveat: "See first whether a parameter asks for the slow one, and why.",
        references: &["kernel/time/clocksource.c (current_clocksource_store; 2.6.36 to 6.12)"],
        bearing: PLAIN,
    },
    LabelRow {
        label: Label::OverrideRejected,
        severity: Severity::Note,
        title: "a request for another clocksource was ignored",
        explanation: "A write to current_clocksource succeeds for every name, also for one that is unknown \
            or marked unstable; then nothing changes but a line in the log (`... is not HRT \
            compatible`). Somebody tried it here and got another source.",
        fix: "Read current_clocksource after writing it. What is marked unstable comes back with a \
            reboot only.",
        caveat: "The same line with `deferring` is harmless: the kernel tries again.",
        references: &["kernel/time/clocksource.c (current_clocksource_store; 2.6.36 to 6.12)"],
        bearing: PLAIN,
    },
    LabelRow {
        label: Label::ParamClocksource,
        severity: Severity::Note,
        title: "the command line names a clocksource",
        explanation: "clocksource=NAME puts that source before all others, whatever their ratings. If NAME \
            never registers, the parameter is ignored without a word; of several the last one \
            wins.",
        fix: "Keep it if the source is the one that you want, take it away if it is yesterday's \
            work-around.",
        caveat: "",
        references: &[
            "kernel/time/clocksource.c (boot_override_clocksource; 2.6.36 to 6.12)",
            "Documentation/admin-guide/kernel-parameters.txt (6.12)",
        ],
        bearing: PLAIN,
    },
    LabelRow {
        label: Label::ParamClocksourceUnavailable,
        severity: Severity::Slow,
        title: "the command line names a clocksource that does not exist here",
        explanation: "The source that clocksource= asks for is not available: it was refused, turned off \
            by another parameter (nohpet, hpet=disable, no-kvmclock, tsc=unstable), or the \
            kernel lacks its driver. The kernel took the best of the rest without a word.",
        fix: "Take the parameter that turns it off away, or the request itself. A parameter that \
            is not in the boot loader's configuration can be built into the kernel \
            (CONFIG_CMDLINE).",
        caveat: "",
        references: &["kernel/time/clocksource.c (4.4 to 6.12)", "damentz/liquorix-package #144"],
        bearing: Bearing { weight: 70, ..PLAIN },
    },
    LabelRow {
        label: Label::ParamTscReliable,
        severity: Severity::Note,
        title: "the command line takes the TSC's protection off",
        explanation: "tsc=reliable turns off the watchdog, and from about 3.3 on the comparison of the \
            CPUs too. If the TSC goes wrong after a firmware update, a suspend or a migration, \
            nothing notices.",
        fix: "Measure with `clockscope wrongness` now and after each change of firmware, kernel or \
            host; tsc=nowatchdog is milder where it does.",
        caveat: "In a guest without a paravirtual clock a live migration to a host with another TSC \
            rate makes the time wrong.",
        references: &[
            "Documentation/admin-guide/kernel-parameters.txt (6.12)",
            "erigones/esdc-factory #114",
        ],
        bearing: PLAIN,
    },
    LabelRow {
        label: Label::ParamTscUnstable,
        severity: Severity::Slow,
        title: "the command line refuses the TSC",
        explanation: "tsc=unstable (from 4.14 on) and notsc (from 4.19 on) make the kernel refuse the TSC \
            from the start. The kernel's own message after a watchdog hit proposes tsc=unstable; \
            it silences the message and makes the slow clock permanent.",
        fix: "Take it away, reboot, and see what the kernel says of the TSC by itself.",
        caveat: "If the TSC was refused for a good reason (firmware, sleep), the kernel will refuse \
            it again by itself.",
        references: &[
            "arch/x86/kernel/tsc.c (4.14 to 6.12)",
            "Documentation/admin-guide/kernel-parameters.txt (6.12)",
        ],
        bearing: Bearing { weight: 90, says: &[Says::WhyTscIsGone], ..PLAIN },
    },
    LabelRow {
        label: Label::ParamNoHpet,
        severity: Severity::Note,
        title: "the command line turns the HPET off",
        explanation: "nohpet or hpet=disable takes the HPET away. If the TSC is lost, acpi_pm is what is \
            left, and the watchdog has only its 24 bits to judge by.",
        fix: "Take it away, unless the HPET stops in deep sleep (PC10) on this machine.",
        caveat: "",
        references: &[
            "arch/x86/kernel/hpet.c (6.12)",
            "Documentation/admin-guide/kernel-parameters.txt (6.12)",
        ],
        bearing: PLAIN,
    },
    LabelRow {
        label: Label::ParamNoParavirtualClock,
        severity: Severity::Note,
        title: "the command line turns paravirtual clocks off",
        explanation: "no-kvmclock, nopv and their like hide the hypervisor's own clock. It is what stays \
            right through pauses and migrations, and the best fallback when the guest's TSC is \
            refused.",
        fix: "Take it away, unless it works around an irregular kvm-clock (as reported for \
            VirtualBox).",
        caveat: "",
        references: &[
            "Documentation/admin-guide/kernel-parameters.txt (6.12)",
            "VirtualBox/virtualbox #580",
        ],
        bearing: PLAIN,
    },
    LabelRow {
        label: Label::ParamVdso,
        severity: Severity::Slow,
        title: "the command line turns the vDSO off",
        explanation: "With vdso=0 the kernel gives programs no vDSO (no AT_SYSINFO_EHDR), so every clock \
            read is a system call, coarse clocks included. vdso32=0 does the same to 32-bit \
            programs only.",
        fix: "Take it away.",
        caveat: "",
        references: &["Documentation/admin-guide/kernel-parameters.txt (6.12)"],
        bearing: Bearing { weight: 90, says: &[Says::NoVdso], ..PLAIN },
    },
    LabelRow {
        label: Label::ParamVsyscall,
        severity: Severity::Note,
        title: "the command line changes the old vsyscall page",
        explanation: "vsyscall= concerns only the page at a fixed address that programs used before the \
            vDSO (emulate, xonly, none; once native). Clock reads of today's C libraries do not \
            use it.",
        fix: "Nothing, unless very old static programs run here: with emulate each of their reads \
            traps.",
        caveat: "",
        references: &[
            "arch/x86/entry/vsyscall (3.6, 6.12)",
            "Documentation/admin-guide/kernel-parameters.txt (6.12)",
        ],
        bearing: PLAIN,
    },
    LabelRow {
        label: Label::TscReliableIgnored,
        severity: Severity::Slow,
        title: "this kernel does not apply tsc=reliable to the early TSC",
        explanation: "When tsc-early was introduced (it is in 4.18 of early RHEL 8 and in 4.19) it did not \
            heed tsc=reliable, so the watchdog could still give it up in the first seconds, and \
            the TSC with it. The correction is in 5.10.",
        fix: "A newer kernel. In a guest: an invariant TSC or kvm-clock, so that the parameter is \
            not needed.",
        caveat: "",
        references: &[
            "projectacrn/acrn-kernel #257",
            "madgraph5/madgraph4gpu #116",
            "arch/x86/kernel/tsc.c (4.19, 5.10)",
        ],
        bearing: PLAIN,
    },
    LabelRow {
        label: Label::RateRiskTicks,
        severity: Severity::Wrong,
        title: "time is counted in timer ticks, and lost with them",
        explanation: "jiffies and refined-jiffies count timer interrupts: time moves in steps of 1 to 10 \
            ms, and each interrupt that is lost, as in deep sleep or a stalled guest, is time \
            lost. A recorded machine ran five times too slow that way.",
        fix: "Any other source: tsc if it is available, else turn HPET or ACPI timer on in the \
            firmware.",
        caveat: "During the first second of a boot it is normal.",
        references: &["kernel/time/jiffies.c (6.12)", "coreos/bugs #185"],
        bearing: Bearing { clause: "time is counted in ticks", ..PLAIN },
    },
    LabelRow {
        label: Label::CauseNeedsDmesg,
        severity: Severity::Note,
        title: "the reason stands in a log that is not here",
        explanation: "The files show that the TSC was refused or not taken. Why stands only in the \
            kernel's log of that boot.",
        fix: "`sudo dmesg`, or `journalctl -k -b` where the ring buffer has wrapped.",
        caveat: "Without it each fix is a guess.",
        references: &["arch/x86/kernel/tsc.c and kernel/time/clocksource.c print it"],
        bearing: Bearing {
            weight: 10,
            follows: &[Label::TscAbsent, Label::TscAvailableNotSelected],
            says: &[Says::EffectOnly, Says::LogIsWanted],
            ..PLAIN
        },
    },
    LabelRow {
        label: Label::LogIncomplete,
        severity: Severity::Note,
        title: "the log does not reach back to the boot",
        explanation: "The first line is stamped long after the boot, and the kernel's version line is \
            missing: the ring buffer has wrapped, or the file was rotated. What was printed at \
            boot, when the TSC is compared, is gone.",
        fix: "`journalctl -k -b` keeps the whole boot; log_buf_len=4M makes the ring buffer \
            larger.",
        caveat: "That a line is not there proves nothing then.",
        references: &[
            "kernel/printk/printk.c",
            "Documentation/admin-guide/kernel-parameters.txt (6.12)",
        ],
        bearing: Bearing { weight: 10, says: &[Says::LogIsWanted], ..PLAIN },
    },
];
