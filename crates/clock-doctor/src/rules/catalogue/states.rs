//! Labels: states and clocksources, which the verdict names.

use super::{Label, LabelRow, PLAIN, Severity};

pub(super) static LABELS: &[LabelRow] = &[
    LabelRow {
        label: Label::StateFast,
        severity: Severity::Ok,
        title: "clock reads stay in user space",
        explanation: "The vDSO reads the clocksource itself: 18 to 60 ns a read, without entering the \
            kernel.",
        fix: "Nothing to do.",
        caveat: "",
        references: &["arch/x86/entry/vdso (6.12)", "lib/vdso/gettimeofday.c (6.12)"],
        bearing: PLAIN,
    },
    LabelRow {
        label: Label::StateSlow,
        severity: Severity::Slow,
        title: "each clock read is a system call, a slow device read, or both",
        explanation: "The vDSO cannot read the current clocksource, or there is no vDSO. A system call \
            costs 5 to 7 times the vDSO's read; a device (hpet, acpi_pm) 0.7 to 2.6 us, and 2 to \
            30 us in a guest, where each read leaves it. Devices are read one at a time, so many \
            readers wait for each other. Coarse clocks stay cheap.",
        fix: "By its cause: the findings name it.",
        caveat: "",
        references: &["lib/vdso/gettimeofday.c (6.12)", "drivers/clocksource/acpi_pm.c (6.12)"],
        bearing: PLAIN,
    },
    LabelRow {
        label: Label::StateSlowUnlessPvclockVdso,
        severity: Severity::Slow,
        title: "the vDSO reads this clock only if kernel and hypervisor agree",
        explanation: "xen's and KVM's clocks are read by the vDSO only from certain kernels on and if the \
            hypervisor sets the stable bit of its page; otherwise each read is a system call. \
            Files do not show which.",
        fix: "Measure on the machine: `clockscope doctor`.",
        caveat: "",
        references: &["arch/x86/xen/time.c (4.19, 6.12)", "arch/x86/entry/vdso (6.12)"],
        bearing: PLAIN,
    },
    LabelRow {
        label: Label::StateUnknown,
        severity: Severity::Note,
        title: "there is not enough to tell how the clock is read",
        explanation: "Neither the current clocksource nor a log that names it is there.",
        fix: "Run `clockscope doctor` on the machine, or `clockscope capture` there and \
            `clockscope doctor --root` here.",
        caveat: "",
        references: &["/sys/devices/system/clocksource/clocksource0/current_clocksource"],
        bearing: PLAIN,
    },
    LabelRow {
        label: Label::SourceTsc,
        severity: Severity::Ok,
        title: "the time-stamp counter",
        explanation: "A counter in each x86 CPU, read by one instruction without leaving user space. \
            Rating 300.",
        fix: "Nothing to do.",
        caveat: "",
        references: &["arch/x86/kernel/tsc.c (6.12)"],
        bearing: PLAIN,
    },
    LabelRow {
        label: Label::SourceTscEarly,
        severity: Severity::Ok,
        title: "the time-stamp counter, before its rate is refined",
        explanation: "Stands in for tsc in the first seconds of a boot; as fast. Rating 299.",
        fix: "Nothing to do.",
        caveat: "It should give way to tsc within seconds.",
        references: &["arch/x86/kernel/tsc.c (4.19, 6.12)"],
        bearing: PLAIN,
    },
    LabelRow {
        label: Label::SourceHpet,
        severity: Severity::Slow,
        title: "the chipset's event timer",
        explanation: "A memory-mapped counter of the chipset, 14.318 MHz as a rule: 1.2 to 1.9 us a read, \
            one reader at a time, and a system call from 4.7 on. Rating 250.",
        fix: "Get the TSC back: the findings say how.",
        caveat: "",
        references: &["arch/x86/kernel/hpet.c (4.4, 4.9, 6.12)"],
        bearing: PLAIN,
    },
    LabelRow {
        label: Label::SourceAcpiPm,
        severity: Severity::Slow,
        title: "the ACPI power-management timer",
        explanation: "A 24-bit counter at 3.579545 MHz behind an I/O port: 0.7 to 2.6 us a read and a \
            system call, more in a guest. It wraps after 4.69 s. Rating 200.",
        fix: "Get the TSC back: the findings say how.",
        caveat: "",
        references: &["drivers/clocksource/acpi_pm.c (6.12)"],
        bearing: PLAIN,
    },
    LabelRow {
        label: Label::SourceKvmClock,
        severity: Severity::Ok,
        title: "KVM's paravirtual clock",
        explanation: "The TSC with scale and offset that the host keeps up to date; the vDSO reads it if \
            the host's TSC is stable, at 1.5 to 2 times the cost of tsc. Rating 400, or 299 \
            where the guest has an invariant TSC.",
        fix: "Nothing to do if the vDSO reads it.",
        caveat: "",
        references: &["arch/x86/kernel/kvmclock.c (4.19, 5.10, 6.12)"],
        bearing: PLAIN,
    },
    LabelRow {
        label: Label::SourceXen,
        severity: Severity::Slow,
        title: "Xen's paravirtual clock",
        explanation: "The TSC with scale and offset from the hypervisor; the vDSO reads it from about 4.16 \
            on if the hypervisor sets the stable bit. Rating 400, 275 in dom0, 299 where the TSC \
            is safe (6.12).",
        fix: "Measure; tsc where it is safe.",
        caveat: "",
        references: &["arch/x86/xen/time.c (4.14, 4.19, 6.1, 6.12)"],
        bearing: PLAIN,
    },
    LabelRow {
        label: Label::SourceHypervClocksourceTscPage,
        severity: Severity::Ok,
        title: "Hyper-V's reference page",
        explanation: "The TSC with scale and offset from the hypervisor; the vDSO reads it from 4.12 on, \
            in about 50 ns.",
        fix: "Nothing to do from 4.12 on.",
        caveat: "",
        references: &["drivers/clocksource/hyperv_timer.c (5.10, 6.12)"],
        bearing: PLAIN,
    },
    LabelRow {
        label: Label::SourceHypervClocksourceMsr,
        severity: Severity::Slow,
        title: "Hyper-V's reference counter",
        explanation: "One hypercall a read. In old kernels its name is hyperv_clocksource.",
        fix: "A kernel with the TSC page (4.12 on), or a host that offers it.",
        caveat: "",
        references: &["drivers/clocksource/hyperv_timer.c (6.12)"],
        bearing: PLAIN,
    },
    LabelRow {
        label: Label::SourceArchSysCounter,
        severity: Severity::Ok,
        title: "ARM's system counter",
        explanation: "Read by one instruction in the vDSO, unless an erratum forbids it. Rating 400.",
        fix: "Nothing to do.",
        caveat: "",
        references: &["drivers/clocksource/arm_arch_timer.c (6.12)"],
        bearing: PLAIN,
    },
    LabelRow {
        label: Label::SourceRefinedJiffies,
        severity: Severity::Wrong,
        title: "the tick counter",
        explanation: "Counts timer interrupts: steps of 1 to 10 ms, and lost interrupts are lost time. \
            Rating 2.",
        fix: "Any other source.",
        caveat: "Normal in the first second of a boot.",
        references: &["kernel/time/jiffies.c (6.12)"],
        bearing: PLAIN,
    },
    LabelRow {
        label: Label::SourceJiffies,
        severity: Severity::Wrong,
        title: "the tick counter",
        explanation: "Counts timer interrupts: steps of 1 to 10 ms, and lost interrupts are lost time. \
            Rating 1.",
        fix: "Any other source.",
        caveat: "Normal in the first second of a boot.",
        references: &["kernel/time/jiffies.c (6.12)"],
        bearing: PLAIN,
    },
    LabelRow {
        label: Label::SourceSgiRtc,
        severity: Severity::Slow,
        title: "the clock of SGI's UV machines",
        explanation: "A memory-mapped counter that all nodes share: a system call and a slow read. It has \
            been seen to drift against hpet and tsc. Rating 299.",
        fix: "tsc, after a measurement.",
        caveat: "",
        references: &["arch/x86/platform/uv/uv_time.c (3.6 to 6.12)"],
        bearing: PLAIN,
    },
];
