//! Labels: the TSC was refused.

use super::{Bearing, Fix, Label, LabelRow, Never, Order, PLAIN, Says, Severity, TRUST};

pub(super) static LABELS: &[LabelRow] = &[
    LabelRow {
        label: Label::TscWarp,
        severity: Severity::Slow,
        title: "the CPUs' counters disagreed when they were compared",
        explanation: "When a CPU comes up, the kernel lets it and one that already runs read their TSCs in \
            turn under a lock. If a later read is smaller than an earlier one, time would step \
            back for a thread that moves between the two, so the kernel refuses the TSC until \
            the next boot. The step that it prints is the largest in a short test: a lower bound \
            on the offset. With the register TSC_ADJUST, which Intel's CPUs have and AMD's have \
            not, it gets three tries and corrections; without it one. What is left is hpet or \
            acpi_pm, where each read is a system call and a slow device read, or a paravirtual \
            clock.",
        fix: "In a virtual machine: let the hypervisor keep the counters together or offer its own \
            clock, or give the guest fewer CPUs. On hardware: update the firmware and keep hpet. \
            tsc=reliable skips the comparison; it is only safe after `clockscope wrongness` \
            measured the CPUs' offset as smaller than a read of the clock.",
        caveat: "Kernels before about 3.3 make this comparison in spite of tsc=reliable.",
        references: &["arch/x86/kernel/tsc_sync.c (2.6.36, 3.6, 6.12)"],
        bearing: Bearing {
            weight: 20,
            follows: &[Label::TscWarpFirmware, Label::TscWarpHotplug, Label::TscWarpSmall],
            says: &[
                Says::OffsetsAreOpen,
                Says::CpusWereCompared,
                Says::EffectOnly,
                Says::WhyTscIsGone,
                Says::TscIsGoneUntilBoot,
            ],
            ..PLAIN
        },
    },
    LabelRow {
        label: Label::TscWarpSmall,
        severity: Severity::Slow,
        title: "the disagreement is about as small as the comparison itself",
        explanation: "The warp is less than 2000 cycles, about what it takes to hand the lock from one CPU \
            to the other. In a guest that points to a hypervisor that rounds the offset of a \
            virtual CPU's counter, or to a virtual CPU that was not run, rather than to counters \
            that are apart.",
        fix: "Measure the offset with `clockscope wrongness`; if it is below the cost of a read on \
            all pairs of CPUs, tsc=reliable is defensible (kernel 3.3 or later). The hypervisor \
            is the right place to mend it.",
        caveat: "On hardware, without a hypervisor, even a small warp is suspicious.",
        references: &["oxidecomputer/propolis #427", "arch/x86/kernel/tsc_sync.c (6.12)"],
        bearing: Bearing {
            clause: "the warp is no larger than the comparison itself",
            says: &[Says::OffsetsAreOpen, Says::CpusWereCompared],
            ..PLAIN
        },
    },
    LabelRow {
        label: Label::TscWarpFirmware,
        severity: Severity::Wrong,
        title: "the firmware left the CPUs' counters far apart",
        explanation: "A warp of 1e8 cycles or more without a hypervisor means that the firmware started \
            the cores' counters at different values, or set some of them back. AMD's CPUs have \
            no TSC_ADJUST, so the kernel cannot repair it and falls back to hpet or acpi_pm: \
            correct, and tens of times dearer than the TSC. CPU flags do not show it: machines \
            with constant_tsc and nonstop_tsc have had cores 0.4 to 9 billion cycles apart. \
            Programs that read the TSC themselves (games, Wine, JIT compilers) see time jump \
            when they move between cores, whatever the kernel uses.",
        fix: "Update the firmware; a tool that writes the counters before the kernel boots also \
            helps. Until then keep hpet.",
        caveat: "Never force the TSC here: not tsc=reliable, not tsc=nowatchdog, not clocksource=tsc. \
            Time would jump between cores by seconds.",
        references: &[
            "RPCS3/rpcs3 #16382",
            "ValveSoftware/Proton #4125",
            "Zanasin/tscsync",
            "bugzilla.kernel.org 202525, 216146",
        ],
        bearing: Bearing {
            forbids: TRUST,
            never: Some(Never {
                place: 1,
                order: Order::Do(
                    "force the TSC (tsc=reliable, tsc=nowatchdog, clocksource=tsc): the cores' counters \
         are far apart, and time would jump whenever a program moves.",
                ),
            }),
            weight: 90,
            says: &[Says::TscIsWrong, Says::CpusWereCompared],
            ..PLAIN
        },
    },
    LabelRow {
        label: Label::TscWarpHotplug,
        severity: Severity::Slow,
        title: "a CPU that was added later counts from another start",
        explanation: "A virtual CPU that is added to a running guest starts its counter at another value \
            than the CPUs that have been counting since the boot. The kernel compares them when \
            it comes up, finds the warp and refuses the TSC from then on. Where kvm-clock is the \
            clocksource, the vDSO may no longer be able to read that either.",
        fix: "Shut the guest down completely, set its number of CPUs while it is off, and start \
            it.",
        caveat: "Until then time is right, only slow.",
        references: &["arch/x86/kernel/tsc_sync.c (6.12)"],
        bearing: Bearing {
            weight: 70,
            clause: "the added CPU counts from another start",
            says: &[Says::TscIsWrong, Says::CpusWereCompared],
            ..PLAIN
        },
    },
    LabelRow {
        label: Label::TscWarpRuntime,
        severity: Severity::Wrong,
        title: "the CPUs' counters disagreed while the machine ran",
        explanation: "From 7.1 on, the watchdog also compares the boot CPU's TSC with that of one other \
            CPU in each round. It found one behind the other by more than the read can explain. \
            That is a warp measured at run time: time could have stepped back before the kernel \
            gave the TSC up.",
        fix: "Measure all pairs of CPUs with `clockscope wrongness`, update the firmware, and keep \
            the slower clocksource.",
        caveat: "Never tsc=reliable or tsc=nowatchdog: they would turn off what found it.",
        references: &["kernel/time/clocksource.c (7.1)"],
        bearing: Bearing {
            forbids: TRUST,
            never: Some(Never {
                place: 4,
                order: Order::Add(
                    "tsc=reliable or tsc=nowatchdog: they turn off the very check that found the \
         CPUs' counters apart.",
                ),
            }),
            weight: 90,
            says: &[Says::TscIsWrong],
            ..PLAIN
        },
    },
    LabelRow {
        label: Label::TscUnsynchronized,
        severity: Severity::Slow,
        title: "the kernel refused the TSC without a test",
        explanation: "With more than one CPU, without the flag constant_tsc and without an Intel CPU, the \
            kernel takes the counters to be unsynchronised and does not test them. On hardware \
            that is an old CPU, of before constant_tsc. In a guest it is a CPU model that hides \
            the flags, such as QEMU's default one.",
        fix: "In a guest: give it a CPU model with an invariant TSC. On hardware it is a property \
            of the CPU: keep hpet.",
        caveat: "tsc=reliable does not help: there is nothing reliable to skip a test of.",
        references: &["arch/x86/kernel/tsc.c (unsynchronized_tsc; 2.6.36 to 6.12)"],
        bearing: Bearing {
            forbids: &[Fix::TscReliable, Fix::TscNowatchdog],
            also_forbids: &[Fix::ClocksourceTsc],
            never: Some(Never {
                place: 11,
                order: Order::Add(
                    "tsc=reliable: the CPU promises neither a constant rate nor synchronised \
         counters.",
                ),
            }),
            weight: 90,
            follows: &[Label::GuestLacksInvtsc],
            clause: "the CPU does not promise synchronised counters",
            says: &[Says::TscIsWrong, Says::WhyTscIsGone, Says::TscIsGoneUntilBoot],
        },
    },
    LabelRow {
        label: Label::TscHaltsInIdle,
        severity: Severity::Slow,
        title: "the counter stops while a CPU sleeps",
        explanation: "The CPU lacks nonstop_tsc, and its counter stands still in the deep sleep states \
            that the kernel uses. After each sleep it would be behind, so the idle driver \
            refuses it.",
        fix: "A property of the CPU: keep hpet. To keep the CPUs out of deep sleep \
            (`intel_idle.max_cstate=0 processor.max_cstate=1`) would keep the TSC, at the price \
            of power and heat.",
        caveat: "Never tsc=reliable: the clock would lose the time that the CPUs sleep.",
        references: &[
            "drivers/acpi/processor_idle.c, drivers/idle/intel_idle.c",
            "arch/x86/kernel/tsc.c (6.12)",
        ],
        bearing: Bearing {
            forbids: TRUST,
            never: Some(Never {
                place: 6,
                order: Order::Add(
                    "tsc=reliable: the clock would lose the time that the CPUs sleep.",
                ),
            }),
            weight: 90,
            clause: "the counter stops in deep sleep",
            says: &[Says::TscIsWrong, Says::WhyTscIsGone, Says::TscIsGoneUntilBoot],
            ..PLAIN
        },
    },
    LabelRow {
        label: Label::TscRefused,
        severity: Severity::Slow,
        title: "the kernel refused the TSC for another reason",
        explanation: "Besides comparison and watchdog there are rules by which the kernel gives the TSC up \
            unseen: frequency scaling without constant_tsc, a calibration that failed, old AMD \
            CPUs that stop it in C1E, some platforms, or a parameter. The line that it printed \
            names the reason.",
        fix: "As for the reason in the line. Without a measurement there is nothing to override.",
        caveat: "Do not force the TSC before the reason is known.",
        references: &["arch/x86/kernel/tsc.c (mark_tsc_unstable; 2.6.36 to 6.12)"],
        bearing: Bearing {
            says: &[Says::TscIsWrong, Says::WhyTscIsGone, Says::TscIsGoneUntilBoot],
            ..PLAIN
        },
    },
    LabelRow {
        label: Label::TscAbsent,
        severity: Severity::Slow,
        title: "tsc is missing from the available clocksources",
        explanation: "A clocksource that is marked unstable is not valid for high-resolution timers, and \
            available_clocksource leaves such sources out. So an x86 machine that does not list \
            tsc has refused it at some time since its boot. There is no way back at run time.",
        fix: "Find the reason in the kernel's log of this boot; the fix depends on it.",
        caveat: "Writing tsc to current_clocksource reports success and changes nothing. On Hyper-V \
            without an invariant TSC it is normal.",
        references: &["kernel/time/clocksource.c (available_clocksource_show; 4.4 to 6.12)"],
        bearing: Bearing {
            weight: 20,
            follows: &[
                Label::TscUnsynchronized,
                Label::TscHaltsInIdle,
                Label::ParamTscUnstable,
                Label::TscRefused,
                Label::TscWarp,
                Label::TscWatchdogSkew,
            ],
            clause: "the kernel refused the TSC at some time since the boot",
            says: &[
                Says::NoCauseOfSlowness,
                Says::EffectOnly,
                Says::LogIsWanted,
                Says::TscIsGoneUntilBoot,
            ],
            ..PLAIN
        },
    },
    LabelRow {
        label: Label::TscEarly,
        severity: Severity::Note,
        title: "it was the early TSC clocksource that was given up",
        explanation: "tsc-early stands in for the first seconds of a boot, until the TSC's rate has been \
            refined against hpet or acpi_pm (RHEL 8's 4.18 and 4.19 have it, 4.14 has not). Its \
            rate comes from a short calibration, CPUID or the hypervisor. Given up that early, \
            either that rate is wrong or the reference lost time: early references are often \
            jiffies, which lose ticks. The TSC itself is refused with it.",
        fix: "Measure the TSC's rate with `clockscope wrongness --time 60` before anything is \
            forced.",
        caveat: "The first kernels with it ignored tsc=reliable for it.",
        references: &["arch/x86/kernel/tsc.c (4.19, 5.10, 6.12)", "lkml 20221202222402"],
        bearing: Bearing {
            also_forbids: &[Fix::TscReliable],
            never: Some(Never {
                place: 13,
                order: Order::Add(
                    "tsc=reliable before the TSC's rate has been measured: a wrong early rate looks \
         just like this, and would make the time wrong.",
                ),
            }),
            follows: &[Label::TscWatchdogSkew],
            says: &[Says::EffectOnly],
            ..PLAIN
        },
    },
    LabelRow {
        label: Label::HypervTscUnstableBenign,
        severity: Severity::Ok,
        title: "the plain TSC is set aside on purpose on Hyper-V",
        explanation: "Where the host does not offer an invariant TSC, the guest marks its TSC unstable by \
            rule and reads the TSC through Hyper-V's reference page instead, which carries scale \
            and offset and survives migration. The vDSO reads that page from kernel 4.12 on, in \
            about 50 ns.",
        fix: "Nothing to do while hyperv_clocksource_tsc_page is the current clocksource.",
        caveat: "If hyperv_clocksource_msr is current, each read is a hypercall: that is not \
            harmless.",
        references: &[
            "drivers/clocksource/hyperv_timer.c (5.10, 6.1, 6.12)",
            "SAP/arp142-hana #118",
        ],
        bearing: PLAIN,
    },
    LabelRow {
        label: Label::MissingNonstopTsc,
        severity: Severity::Note,
        title: "the CPU does not state that its counter never stops",
        explanation: "constant_tsc says that the counter's rate does not follow the CPU's frequency, \
            nonstop_tsc that it runs on in deep sleep; both together make it invariant. With \
            only the first, this is either a CPU of before 2008 or a guest that is not given the \
            flag.",
        fix: "In a guest: ask for an invariant TSC (invtsc).",
        caveat: "A copied flags line may be cut: absence in it proves nothing.",
        references: &["arch/x86/kernel/cpu (4.4 to 6.12)"],
        bearing: Bearing { weight: 10, says: &[Says::NoCauseOfSlowness], ..PLAIN },
    },
    LabelRow {
        label: Label::KvmHostTscBackwards,
        severity: Severity::Wrong,
        title: "a KVM host saw its own counter go backwards",
        explanation: "A host that runs KVM guests found its TSC lower than before, as after a suspend, and \
            marked it unstable. Its guests lose the stable bit of kvm-clock with that, so that \
            their vDSOs make system calls for every read.",
        fix: "Reboot the host; do not suspend it while guests run.",
        caveat: "Do not force the TSC on this host.",
        references: &["arch/x86/kvm/x86.c", "martins3/martins3.github.io, notes on clocksource"],
        bearing: Bearing {
            forbids: TRUST,
            never: Some(Never {
                place: 10,
                order: Order::Do("force the TSC on this host: it was seen to go back."),
            }),
            says: &[Says::TscIsWrong],
            ..PLAIN
        },
    },
];
