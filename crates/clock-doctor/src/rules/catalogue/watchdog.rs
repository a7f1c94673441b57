//! Labels: the watchdog of clocksources.

use super::{Bearing, Fix, Label, LabelRow, Never, Order, PLAIN, Says, Severity, TRUST};

pub(super) static LABELS: &[LabelRow] = &[
    LabelRow {
        label: Label::TscWatchdogSkew,
        severity: Severity::Slow,
        title: "the watchdog gave the TSC up",
        explanation: "Every 0.5 s the kernel compares the TSC with the best other clocksource. If the two \
            disagree by too much (62.5 ms per check up to 5.10, 400 us in 6.1, 250 us from 6.3 \
            to 7.0, 500 ppm in 7.1), it marks the TSC unstable and never uses it again until the \
            next boot. A stalled machine, a wrapped or slow reference, or a guest that was \
            paused look the same to it as a TSC at a wrong rate. Unwatched are CPUs with \
            tsc_adjust on small systems from about 5.16 on; AMD's CPUs have no such register and \
            stay watched.",
        fix: "A reboot gives the TSC back. What keeps it depends on what the numbers in the log \
            show; where they show nothing wrong with the TSC, tsc=nowatchdog keeps it and still \
            compares the CPUs at boot.",
        caveat: "The kernel's own hint `Use 'tsc=unstable'` only silences the message and makes the \
            slow clock permanent.",
        references: &[
            "kernel/time/clocksource.c (2.6.36 to 7.1)",
            "arch/x86/kernel/tsc.c (check_system_tsc_reliable; 6.1, 6.12)",
        ],
        bearing: Bearing {
            weight: 20,
            follows: &[
                Label::TscRateWrong,
                Label::WatchdogBadReference,
                Label::WatchdogCounterWrapped,
                Label::VmPaused,
                Label::TscWatchdogShortInterval,
                Label::TscWatchdogReaddelay,
                Label::TscWatchdogGlitch,
                Label::WatchdogReadsTorn,
                Label::TscWentBackwards,
                Label::TscJumped,
                Label::TscReliableIgnored,
                Label::VmwareGuestSupportMissing,
                Label::TscWatchdogLongInterval,
            ],
            says: &[Says::EffectOnly, Says::WhyTscIsGone, Says::TscIsGoneUntilBoot],
            ..PLAIN
        },
    },
    LabelRow {
        label: Label::TscWatchdogReaddelay,
        severity: Severity::Slow,
        title: "the watchdog's reference took too long to read",
        explanation: "From 5.13 on the watchdog reads the reference before and after the TSC. Here the two \
            reads of the reference lay too far apart, several times in a row, as under nested \
            virtualisation or heavy memory load. Up to 6.1 that alone could mark the TSC \
            unstable. It says nothing about the TSC.",
        fix: "A newer kernel, which skips such a check instead, or tsc=nowatchdog.",
        caveat: "",
        references: &["kernel/time/clocksource.c (6.1, 6.12)", "Mellanox/mkt #74"],
        bearing: Bearing {
            follows: &[Label::NestedOrOverloaded],
            clause: "the reference was slow to read, which says nothing of the TSC",
            says: &[Says::TscIsAcquitted, Says::WhyTscIsGone],
            ..PLAIN
        },
    },
    LabelRow {
        label: Label::TscWatchdogGlitch,
        severity: Severity::Slow,
        title: "one sample in which the TSC seemed to stand still",
        explanation: "In one comparison the TSC had not moved while the reference counted a whole \
            interval. A counter that ran before and after cannot do that: the sample is bad, not \
            the clock. Later kernels read the reference twice and would have repeated it, and \
            yet one such sample is enough to lose the TSC until reboot.",
        fix: "Reboot, and boot with tsc=nowatchdog if it comes back.",
        caveat: "",
        references: &["kernel/time/clocksource.c (6.1, 6.12)"],
        bearing: Bearing {
            clause: "one bad sample cost the TSC",
            says: &[Says::TscIsAcquitted],
            ..PLAIN
        },
    },
    LabelRow {
        label: Label::TscWatchdogLongInterval,
        severity: Severity::Slow,
        title: "the watchdog itself came late",
        explanation: "The check runs by a timer, every 0.5 s. This one came seconds late, as when \
            interrupts were off or a virtual CPU was not run, and the difference was judged by \
            the limit for 0.5 s. From 6.3 on (and in stable 6.1) the kernel skips intervals over \
            twice the due one.",
        fix: "Find what stalls the machine, or use a newer kernel; tsc=nowatchdog keeps the TSC.",
        caveat: "The longer the interval, the better a rate can be judged: see what the difference is \
            in ppm.",
        references: &["kernel/time/clocksource.c (5.10, 6.12)"],
        bearing: Bearing { says: &[Says::RateIsDoubtful], ..PLAIN },
    },
    LabelRow {
        label: Label::TscWatchdogShortInterval,
        severity: Severity::Slow,
        title: "two checks so close that noise looks like skew",
        explanation: "The watchdog of 7.1 judges by ppm. When two checks run microseconds apart, as after \
            a virtual machine was stopped and went on, the 100 to 200 ns by which any two reads \
            vary are thousands of ppm. The TSC is not at fault.",
        fix: "Reboot the guest to get the TSC back; tsc=nowatchdog keeps it. kvm-clock is a good \
            clock until then.",
        caveat: "",
        references: &[
            "kernel/time/clocksource.c (7.1)",
            "martins3/martins3.github.io, notes on clocksource",
        ],
        bearing: Bearing {
            clause: "noise between two close checks looked like skew",
            says: &[Says::TscIsAcquitted],
            ..PLAIN
        },
    },
    LabelRow {
        label: Label::TscWentBackwards,
        severity: Severity::Wrong,
        title: "the counter was set back",
        explanation: "The TSC was lower than at the check before, or so high that it can only have been \
            written. That happens when a machine is suspended and resumed, a guest is restored \
            or migrated to a host with another count, or firmware writes the counter. Programs \
            that read the TSC themselves saw time go back.",
        fix: "In a guest: keep the paravirtual clock, which carries an offset for it, and suspend \
            guests with their host. On hardware: update the firmware.",
        caveat: "No clocksource=tsc and no tsc=reliable: the next suspend would set the time back.",
        references: &["kernel/time/clocksource.c (4.4 to 6.12)", "QubesOS/qubes-issues #7404"],
        bearing: Bearing {
            forbids: TRUST,
            never: Some(Never {
                place: 8,
                order: Order::Do(
                    "boot with clocksource=tsc or tsc=reliable: the counter was set back once, and time \
         would go back with it.",
                ),
            }),
            follows: &[Label::AfterResume],
            says: &[Says::TscIsWrong],
            ..PLAIN
        },
    },
    LabelRow {
        label: Label::TscJumped,
        severity: Severity::Wrong,
        title: "the counter jumped, or its reference stood still",
        explanation: "Between two checks the TSC counted more than any CPU can. Either something wrote it \
            (firmware, a resume, a hypervisor), or the reference stood still, as an HPET does in \
            deep package sleep.",
        fix: "Measure with `clockscope wrongness --time 60`, look for a suspend in the log, and \
            see which reference it was.",
        caveat: "Do not force the TSC before it is clear which of the two moved.",
        references: &["kernel/time/clocksource.c (4.4 to 6.12)"],
        bearing: Bearing {
            also_forbids: &[Fix::TscReliable],
            never: Some(Never {
                place: 12,
                order: Order::Add(
                    "tsc=reliable before it is clear whether the counter jumped or its reference \
         stood still.",
                ),
            }),
            says: &[Says::TscIsWrong],
            ..PLAIN
        },
    },
    LabelRow {
        label: Label::WatchdogNoise,
        severity: Severity::Note,
        title: "watchdog messages without consequence",
        explanation: "The watchdog found the reference slow to read, skipped the check or repeated it, and \
            went on. The TSC stays in use. Such lines show up under load, in guests and on large \
            machines.",
        fix: "Nothing to do; tsc=nowatchdog would silence them.",
        caveat: "",
        references: &["kernel/time/clocksource.c (6.1, 6.12, 7.1)", "lede-project #9028"],
        bearing: PLAIN,
    },
    LabelRow {
        label: Label::WatchdogBadReference,
        severity: Severity::Slow,
        title: "the watchdog judged the TSC by a bad reference",
        explanation: "The watchdog takes the best clocksource that is not under test, however bad that is: \
            jiffies lose ticks, an HPET can stop in deep package sleep, xen's clock is off under \
            nesting, sgi_rtc drifts. When such a reference disagrees with the TSC, the TSC \
            loses. From 7.1 on tick-based sources are no longer taken.",
        fix: "Turn a better reference on in the firmware (HPET, ACPI timer), and keep the TSC with \
            tsc=nowatchdog once its rate has been measured.",
        caveat: "A bad reference can be right by luck: where CPUID states a wrong rate, jiffies were \
            the better clock. Look at the drift against the network's time first.",
        references: &[
            "kernel/time/clocksource.c (6.12, 7.1)",
            "projectacrn/acrn-kernel #257",
            "lkml 20221202222402",
        ],
        bearing: Bearing { weight: 70, says: &[Says::RateIsDoubtful], ..PLAIN },
    },
    LabelRow {
        label: Label::WatchdogCounterWrapped,
        severity: Severity::Slow,
        title: "the reference wrapped while the machine stood still",
        explanation: "acpi_pm counts 24 bits at 3.579545 MHz and starts again every 4.69 s. If the machine \
            or guest stands still for longer, the reference has lost whole turns, and the TSC \
            seems to be ahead by a multiple of 4.69 s. The TSC counted right.",
        fix: "Find what stops the machine for seconds (overcommitted CPUs, firmware, a driver). \
            tsc=nowatchdog keeps the TSC; a guest is better off with kvm-clock.",
        caveat: "Where an HPET exists it is the better reference: it wraps after minutes.",
        references: &["drivers/clocksource/acpi_pm.c (6.12)", "kernel/time/clocksource.c (6.12)"],
        bearing: Bearing {
            weight: 70,
            follows: &[Label::NestedOrOverloaded],
            clause: "the reference wrapped, the TSC counted right",
            says: &[Says::TscIsAcquitted],
            ..PLAIN
        },
    },
    LabelRow {
        label: Label::WatchdogReadsTorn,
        severity: Severity::Slow,
        title: "the machine stalled between two reads of one comparison",
        explanation: "Up to 5.12 the watchdog reads the TSC and then the reference once, without a \
            repetition. If the CPU is taken away between the two, by firmware (SMI) or a \
            hypervisor, the time in between counts as skew. The numbers here fit that and no \
            rate of a TSC.",
        fix: "Find what stalls the machine; a newer kernel repeats such reads; tsc=nowatchdog \
            keeps the TSC.",
        caveat: "",
        references: &["kernel/time/clocksource.c (5.10)"],
        bearing: Bearing {
            follows: &[Label::NestedOrOverloaded],
            clause: "a stall between two reads looked like skew",
            says: &[Says::TscIsAcquitted],
            ..PLAIN
        },
    },
    LabelRow {
        label: Label::WatchdogFalsePositiveLikely,
        severity: Severity::Slow,
        title: "the TSC is probably fine",
        explanation: "What the watchdog's own numbers say of the TSC's rate lies within what crystals \
            differ by (100 ppm), or fits a known way to fool it. It gave a good clock up.",
        fix: "A reboot gives the TSC back. To keep it: tsc=nowatchdog (kernel 5.2 or RHEL 8 on), \
            which leaves the comparison of the CPUs at boot in place; on older kernels \
            tsc=reliable, after a measurement.",
        caveat: "On AMD machines measure again after firmware updates.",
        references: &[
            "kernel/time/clocksource.c (6.12)",
            "Documentation/admin-guide/kernel-parameters.txt (6.12)",
        ],
        bearing: Bearing {
            weight: 20,
            follows: &[Label::TscWatchdogSkew],
            clause: "the watchdog's own numbers show a good TSC",
            says: &[Says::TscIsAcquitted],
            ..PLAIN
        },
    },
    LabelRow {
        label: Label::PerCpuSyncSuspicious,
        severity: Severity::Wrong,
        title: "the kernel found CPUs ahead of or behind each other",
        explanation: "After it marked the TSC, the kernel (5.13 to 7.0) read it on other CPUs and found \
            some outside the bracket of its own reads. If that is real, a thread that moves sees \
            time step.",
        fix: "Measure all pairs of CPUs with `clockscope wrongness`, and update the firmware.",
        caveat: "No tsc=reliable and no tsc=nowatchdog. Nested virtualisation gives such lines \
            falsely.",
        references: &["kernel/time/clocksource.c (clocksource_verify_percpu; 6.1, 6.12)"],
        bearing: Bearing {
            forbids: TRUST,
            never: Some(Never {
                place: 5,
                order: Order::Add(
                    "tsc=reliable or tsc=nowatchdog before all CPUs have been measured: the kernel \
         saw some of them apart.",
                ),
            }),
            says: &[Says::TscIsWrong],
            ..PLAIN
        },
    },
    LabelRow {
        label: Label::NeedsRateMeasurement,
        severity: Severity::Slow,
        title: "one sample cannot tell a stall from a wrong rate",
        explanation: "The difference is larger than crystals explain and under 5 ms. A stall of a \
            millisecond and a rate that is off by 0.1 % look the same in a single check: of two \
            recorded cases like this, 1184 us was a stall and 876 us a wrong rate.",
        fix: "Measure for a minute: `clockscope wrongness --time 60`, and look at the drift that \
            chrony or ntpd recorded (normal is under 100 ppm).",
        caveat: "Do not turn the watchdog off before that.",
        references: &["kernel/time/clocksource.c (6.12)"],
        bearing: Bearing {
            follows: &[Label::TscWatchdogSkew],
            clause: "the watchdog's sample cannot tell a stall from a wrong rate",
            says: &[Says::RateIsDoubtful, Says::RateIsOpen, Says::NoCauseOfSlowness],
            ..PLAIN
        },
    },
    LabelRow {
        label: Label::TscRateWrong,
        severity: Severity::Wrong,
        title: "the TSC runs at another rate than the kernel takes it to",
        explanation: "The kernel may take the TSC's rate from CPUID, an MSR or the hypervisor without \
            measuring it. Here that rate differs from what a timer or the network's time shows, \
            by more than the 500 ppm that a time daemon can correct. Reads are fast, and the \
            time is wrong: at 4 % the clock is off by an hour a day.",
        fix: "Update the firmware. Until then tell the kernel the rate (`tsc_early_khz=N`); where it \
            is not known, `tsc=recalibrate` (kernel 6.3 on) makes the kernel measure and print it.",
        caveat: "Do not add tsc=reliable or tsc=nowatchdog: the watchdog is right.",
        references: &[
            "arch/x86/kernel/tsc.c (6.12)",
            "lkml 20221202222402",
            "Documentation/admin-guide/kernel-parameters.txt (6.12)",
        ],
        bearing: Bearing {
            // A rate that CPUID states falsely passes every comparison of CPUs, and no parameter
            // that makes the kernel trust the TSC mends it.
            forbids: TRUST,
            never: Some(Never {
                place: 2,
                order: Order::Add(
                    "tsc=reliable or tsc=nowatchdog: the TSC's rate is taken wrongly, and they would \
         keep whatever could notice from noticing.",
                ),
            }),
            weight: 90,
            clause: "the kernel takes the TSC to run at another rate than it does",
            says: &[Says::TscIsWrong],
            ..PLAIN
        },
    },
    LabelRow {
        label: Label::VmPaused,
        severity: Severity::Slow,
        title: "the guest was stopped and went on",
        explanation: "A stop of the virtual machine (stop and cont, SIGSTOP, a debugger, a snapshot) sets \
            kvm-clock back by the time it stood, while the TSC ran on. The watchdog of 7.1 \
            compares the two and takes the difference for skew.",
        fix: "Reboot the guest to get the TSC back; boot with tsc=nowatchdog if guests are paused \
            as a rule. kvm-clock is a good clock as well.",
        caveat: "",
        references: &[
            "kernel/time/clocksource.c (7.1)",
            "martins3/martins3.github.io, notes on clocksource",
        ],
        bearing: Bearing {
            clause: "the guest was stopped, which looked like skew",
            says: &[Says::TscIsAcquitted],
            ..PLAIN
        },
    },
];
