//! Labels: what this machine measured of itself.

use super::{Bearing, Label, LabelRow, Never, Order, PLAIN, Says, Severity, TRUST};

pub(super) static LABELS: &[LabelRow] = &[
    LabelRow {
        label: Label::VdsoFallsBack,
        severity: Severity::Slow,
        title: "the vDSO makes a system call for every read",
        explanation: "A read by the vDSO costs about as much as the raw system call, so the vDSO asks the \
            kernel each time. No file shows that; it is measured. The cause is the clocksource \
            (hpet, acpi_pm, a paravirtual clock without its stable bit) or an old kernel.",
        fix: "Mend the clocksource. Until then read less, or coarse clocks.",
        caveat: "",
        references: &["lib/vdso/gettimeofday.c (6.12)"],
        bearing: Bearing {
            weight: 10,
            follows: &[
                Label::KvmClockNoVdsoSuspected,
                Label::VdsoSupportDependsOnKernel,
                Label::ArmErratumVdsoOff,
                Label::Arm32VdsoOff,
                Label::TscAvailableNotSelected,
                Label::BetterSourceAvailable,
                Label::TscWarp,
                Label::TscWatchdogSkew,
                Label::TscAbsent,
            ],
            says: &[Says::NoCauseOfSlowness],
            ..PLAIN
        },
    },
    LabelRow {
        label: Label::VdsoOff,
        severity: Severity::Slow,
        title: "programs get no vDSO",
        explanation: "The kernel gives this process no vDSO: no AT_SYSINFO_EHDR in its auxiliary vector \
            and no [vdso] in its maps. Every clock read is a system call, coarse clocks \
            included. A parameter (vdso=0), a sandbox, or an emulated kernel does that.",
        fix: "Take the parameter away, or see what runs the process.",
        caveat: "",
        references: &["vdso(7)", "Documentation/admin-guide/kernel-parameters.txt (6.12)"],
        bearing: Bearing { says: &[Says::NoVdso], ..PLAIN },
    },
    LabelRow {
        label: Label::Vsyscall64Off,
        severity: Severity::Slow,
        title: "the vDSO is told to make system calls",
        explanation: "Kernels up to 3.0 have kernel.vsyscall64. With 0 the vDSO's clock_gettime and \
            gettimeofday make system calls, coarse clocks too. It was meant for User Mode Linux \
            guests that want their own time.",
        fix: "`sysctl -w kernel.vsyscall64=1`, and in /etc/sysctl.conf.",
        caveat: "",
        references: &["arch/x86/kernel/vsyscall_64.c (2.6.36)"],
        bearing: Bearing { says: &[Says::NoVdso], ..PLAIN },
    },
    LabelRow {
        label: Label::MeasurementDisagrees,
        severity: Severity::Note,
        title: "the measurement and the table of clocksources disagree",
        explanation: "By its name this clocksource should be read otherwise than it was measured to be. \
            The measurement counts. A patched kernel, a sandbox that replaces the vDSO, a \
            trapped rdtsc or a busy machine explain it.",
        fix: "Measure again on a quiet machine: `clockscope bench`.",
        caveat: "",
        references: &["arch/x86/entry/vdso (6.12)"],
        bearing: PLAIN,
    },
    LabelRow {
        label: Label::SlowReadMeasured,
        severity: Severity::Slow,
        title: "the vDSO answers by itself and is slow all the same",
        explanation: "The vDSO makes no system call, and a read still takes much longer than a TSC's. A \
            hypervisor that traps rdtsc does that, or an emulated CPU.",
        fix: "See what runs this machine: under emulation nothing helps; a hypervisor can be told \
            to let rdtsc through.",
        caveat: "",
        references: &["Intel SDM vol. 3, RDTSC exiting"],
        bearing: PLAIN,
    },
    LabelRow {
        label: Label::TscOffsetMeasured,
        severity: Severity::Wrong,
        title: "the CPUs' counters are apart now",
        explanation: "One CPU's TSC lags behind another's by more than a read can explain: a thread that \
            moves could see time go back. Measured just now, not concluded from a log.",
        fix: "Measure longer with `clockscope wrongness`, update the firmware, and use another \
            clocksource until then.",
        caveat: "Never tsc=reliable or tsc=nowatchdog.",
        references: &["arch/x86/kernel/tsc_sync.c (6.12)"],
        bearing: Bearing {
            also_forbids: TRUST,
            never: Some(Never {
                place: 3,
                order: Order::Do(
                    "force the TSC (tsc=reliable, tsc=nowatchdog, clocksource=tsc): the CPUs' counters \
         are apart now.",
                ),
            }),
            weight: 90,
            says: &[Says::TscIsWrong],
            ..PLAIN
        },
    },
    LabelRow {
        label: Label::TscDeniedToProcess,
        severity: Severity::Note,
        title: "this process may not read the TSC",
        explanation: "prctl(PR_SET_TSC, PR_TSC_SIGSEGV) was called here or in a parent. A vDSO read of a \
            TSC-based clock then dies with SIGSEGV; coarse clocks and raw system calls go on.",
        fix: "Nothing for the host; the program that set it has a reason.",
        caveat: "",
        references: &["prctl(2)", "arch/x86/kernel/process.c (CR4.TSD)"],
        bearing: Bearing { says: &[Says::TscIsWrong], ..PLAIN },
    },
    LabelRow {
        label: Label::SyscallsTraced,
        severity: Severity::Note,
        title: "somebody traces system calls on this host",
        explanation: "A BPF program, a perf event or ftrace hangs on system calls. Each one costs more, \
            for every process; clock reads only where they are system calls.",
        fix: "Stop the tracer if clock reads are system calls here; else nothing.",
        caveat: "",
        references: &["kernel/trace/trace_syscalls.c"],
        bearing: Bearing { clause: "each system call is traced", ..PLAIN },
    },
    LabelRow {
        label: Label::TracedByPtrace,
        severity: Severity::Note,
        title: "somebody traces this process",
        explanation: "A debugger or strace stops this process at its system calls. Reads by the vDSO are \
            not seen by it; reads by system call become slower by far. The measurements here \
            suffer from it.",
        fix: "Measure without it.",
        caveat: "",
        references: &["ptrace(2)"],
        bearing: PLAIN,
    },
    LabelRow {
        label: Label::SeccompFilter,
        severity: Severity::Note,
        title: "a seccomp filter makes system calls dearer",
        explanation: "Each system call runs through the filter, which adds up to 30 % to a cheap call, \
            more with old and long filters. Reads by the vDSO do not pass it.",
        fix: "Nothing while the vDSO answers; else mend the clocksource first.",
        caveat: "",
        references: &["seccomp(2)", "moby/moby #37902"],
        bearing: PLAIN,
    },
    LabelRow {
        label: Label::InTimeNamespace,
        severity: Severity::Note,
        title: "this process lives in a time namespace",
        explanation: "MONOTONIC and BOOTTIME are shifted for this process. The vDSO goes on answering, at \
            no cost that could be measured.",
        fix: "Nothing to do.",
        caveat: "",
        references: &["time_namespaces(7)"],
        bearing: PLAIN,
    },
    LabelRow {
        label: Label::ClockUnsynchronised,
        severity: Severity::Note,
        title: "nobody keeps the system clock right",
        explanation: "The kernel's STA_UNSYNC bit is set: no daemon disciplines the clock, and \
            CLOCK_REALTIME drifts with the crystal. That does not change what a read costs.",
        fix: "Run chrony, systemd-timesyncd or ntpd.",
        caveat: "In a container the host does that.",
        references: &["adjtimex(2)", "kernel/time/ntp.c"],
        bearing: PLAIN,
    },
    LabelRow {
        label: Label::LeapSecondPending,
        severity: Severity::Note,
        title: "a leap second is announced",
        explanation: "The kernel was told to insert or delete a second at the end of the day (UTC). \
            CLOCK_REALTIME will step; MONOTONIC will not. The cost of a read does not change.",
        fix: "Nothing; use MONOTONIC for durations.",
        caveat: "",
        references: &["adjtimex(2)", "kernel/time/ntp.c"],
        bearing: PLAIN,
    },
];
