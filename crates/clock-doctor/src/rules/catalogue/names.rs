//! The named values of the catalogue, the rules and the report.

use serde::{Deserialize, Serialize};

/// Defines an enum with a printed name for each value.
macro_rules! named {
    ($(#[$doc:meta])* pub enum $all:ident { $($(#[$one_doc:meta])* $one:ident = $name:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $all {
            $($(#[$one_doc])* #[doc = concat!("Prints as `", $name, "`.")] $one,)+
        }

        impl $all {
            /// All values, in the order of `pages.md`.
            pub const ALL: [$all; [$($name),+].len()] = [$($all::$one),+];

            /// The printed name.
            pub const fn name(self) -> &'static str {
                match self {
                    $($all::$one => $name,)+
                }
            }

            /// The value with this name.
            pub fn named(name: &str) -> Option<$all> {
                $all::ALL.into_iter().find(|one| one.name() == name)
            }
        }

        impl std::fmt::Display for $all {
            fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

named! {
    /// How bad a finding is, best first.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Severity {
        /// Normal: explains something that looks like a fault but is none.
        Ok = "ok",
        /// Worth knowing; costs nothing by itself.
        Note = "note",
        /// Costs time, or may.
        Slow = "slow",
        /// Wrong time is possible.
        Wrong = "wrong",
    }
}

named! {
    /// How this machine's clock is read.
    #[derive(Default, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum State {
        /// Through the vDSO, or as cheaply.
        Fast = "fast",
        /// By a system call, a slow device, or both.
        Slow = "slow",
        /// Through the vDSO, but only if the kernel and the hypervisor agree on a paravirtual clock's page.
        SlowUnlessPvclockVdso = "slow-unless-pvclock-vdso",
        /// The facts do not suffice to decide.
        #[default]
        Unknown = "unknown",
    }
}

named! {
    /// Statements of a label that rules and advice test for.
    pub enum Says {
        /// The TSC's time is wrong, or is likely to be.
        TscIsWrong = "tsc-is-wrong",
        /// The TSC's time may be wrong until the CPUs have been compared.
        OffsetsAreOpen = "offsets-are-open",
        /// The TSC's time may be wrong unless its rate is measured.
        RateIsOpen = "rate-is-open",
        /// The watchdog's reference shows a rate that nothing else confirms.
        RateIsDoubtful = "rate-is-doubtful",
        /// The watchdog's own numbers speak for the TSC.
        TscIsAcquitted = "tsc-is-acquitted",
        /// The kernel compared the CPUs' counters, which tsc=nowatchdog leaves in place.
        CpusWereCompared = "cpus-were-compared",
        /// The reason why the kernel gave the TSC up.
        WhyTscIsGone = "why-tsc-is-gone",
        /// Writing tsc to `current_clocksource` changes nothing until the next boot.
        TscIsGoneUntilBoot = "tsc-is-gone-until-boot",
        /// States an event, not its cause.
        EffectOnly = "effect-only",
        /// Not a cause of slowness, however slow the clock is.
        NoCauseOfSlowness = "no-cause-of-slowness",
        /// There is no vDSO, or none that clockscope could replace.
        NoVdso = "no-vdso",
        /// Only a measurement on the machine shows whether the vDSO reads the clock.
        VdsoIsOpen = "vdso-is-open",
        /// The kernel's log would answer more questions.
        LogIsWanted = "log-is-wanted",
        /// The kernel compares the CPUs' counters, and may refuse the TSC after that.
        ComparisonRefuses = "comparison-refuses",
        /// A choice of a clocksource that could be another one.
        IsChoice = "is-choice",
    }
}

named! {
    /// A condition found on a machine, as a word.
    pub enum Label {
        TscWarp = "tsc-warp",
        TscWarpSmall = "tsc-warp-small",
        TscWarpFirmware = "tsc-warp-firmware",
        TscWarpHotplug = "tsc-warp-hotplug",
        TscWarpRuntime = "tsc-warp-runtime",
        TscUnsynchronized = "tsc-unsynchronized",
        TscHaltsInIdle = "tsc-halts-in-idle",
        TscRefused = "tsc-refused",
        TscAbsent = "tsc-absent",
        TscEarly = "tsc-early",
        HypervTscUnstableBenign = "hyperv-tsc-unstable-benign",
        MissingNonstopTsc = "missing-nonstop_tsc",
        KvmHostTscBackwards = "kvm-host-tsc-backwards",
        TscWatchdogSkew = "tsc-watchdog-skew",
        TscWatchdogReaddelay = "tsc-watchdog-readdelay",
        TscWatchdogGlitch = "tsc-watchdog-glitch",
        TscWatchdogLongInterval = "tsc-watchdog-long-interval",
        TscWatchdogShortInterval = "tsc-watchdog-short-interval",
        TscWentBackwards = "tsc-went-backwards",
        TscJumped = "tsc-jumped",
        WatchdogNoise = "watchdog-noise",
        WatchdogBadReference = "watchdog-bad-reference",
        WatchdogCounterWrapped = "watchdog-counter-wrapped",
        WatchdogReadsTorn = "watchdog-reads-torn",
        WatchdogFalsePositiveLikely = "watchdog-false-positive-likely",
        PerCpuSyncSuspicious = "per-cpu-sync-suspicious",
        NeedsRateMeasurement = "needs-rate-measurement",
        TscRateWrong = "tsc-rate-wrong",
        VmPaused = "vm-paused",
        TscAvailableNotSelected = "tsc-available-not-selected",
        BetterSourceAvailable = "better-source-available",
        OverrideRejected = "override-rejected",
        ParamClocksource = "param-clocksource",
        ParamClocksourceUnavailable = "param-clocksource-unavailable",
        ParamTscReliable = "param-tsc-reliable",
        ParamTscUnstable = "param-tsc-unstable",
        ParamNoHpet = "param-no-hpet",
        ParamNoParavirtualClock = "param-no-paravirtual-clock",
        ParamVdso = "param-vdso",
        ParamVsyscall = "param-vsyscall",
        TscReliableIgnored = "tsc-reliable-ignored",
        RateRiskTicks = "rate-risk-ticks",
        TimeStepped = "time-stepped",
        LogContradictsSysfs = "log-contradicts-sysfs",
        CauseNeedsDmesg = "cause-needs-dmesg",
        LogIncomplete = "log-incomplete",
        TscTrustedByHypervisor = "tsc-trusted-by-hypervisor",
        GuestLacksInvtsc = "guest-lacks-invtsc",
        KvmClockPresent = "kvm-clock-present",
        KvmClockNoVdsoSuspected = "kvm-clock-no-vdso-suspected",
        NestedOrOverloaded = "nested-or-overloaded",
        AfterResume = "after-resume",
        MigrationRisk = "migration-risk",
        VmwareGuestSupportMissing = "vmware-guest-support-missing",
        OldKernel = "old-kernel",
        VdsoSupportDependsOnKernel = "vdso-support-depends-on-kernel",
        SnapshotRestoreRisk = "snapshot-restore-risk",
        EmulatedKernel = "emulated-kernel",
        ArmErratumVdsoOff = "arm-erratum-vdso-off",
        ArmErratumCompatOnly = "arm-erratum-compat-only",
        ArmCntvctTrapped = "arm-cntvct-trapped",
        Arm32VdsoOff = "arm32-vdso-off",
        FirmwareTscAdjust = "firmware-tsc-adjust",
        FirmwareP0Warning = "firmware-p0-warning",
        HpetNotEnabledInBios = "hpet-not-enabled-in-bios",
        HpetUnreliable = "hpet-unreliable",
        AcpiPmBug = "acpi_pm-bug",
        VdsoFallsBack = "vdso-falls-back",
        VdsoOff = "vdso-off",
        Vsyscall64Off = "vsyscall64-off",
        SlowReadMeasured = "slow-read-measured",
        TscOffsetMeasured = "tsc-offset-measured",
        TscDeniedToProcess = "tsc-denied-to-process",
        SyscallsTraced = "syscalls-traced",
        TracedByPtrace = "traced-by-ptrace",
        SeccompFilter = "seccomp-filter",
        FallbackRefused = "fallback-refused",
        InTimeNamespace = "in-time-namespace",
        TimeBehindHost = "time-behind-host",
        ReferenceDisagrees = "reference-disagrees",
        TimeNotSynchronised = "time-not-synchronised",
        LeapSecondPending = "leap-second-pending",
        HpetPc10Benign = "hpet-pc10-benign",
        EarlySwitchBenign = "early-switch-benign",
        CalibrationNoteBenign = "calibration-note-benign",
        StateFast = "state:fast",
        StateSlow = "state:slow",
        StateSlowUnlessPvclockVdso = "state:slow-unless-pvclock-vdso",
        StateUnknown = "state:unknown",
    }
}

named! {
    /// An action that can be advised, as a word; in the list of labels it has the prefix `fix:`.
    pub enum Fix {
        SwitchToTsc = "switch-to-tsc",
        ClocksourceTsc = "clocksource=tsc",
        SwitchToHpet = "switch-to-hpet",
        SwitchToKvmClock = "switch-to-kvm-clock",
        SwitchSource = "switch-source",
        TscNowatchdog = "tsc=nowatchdog",
        TscReliable = "tsc=reliable",
        TscRecalibrate = "tsc=recalibrate",
        TscEarlyKhz = "tsc_early_khz",
        RemoveParameter = "remove-parameter",
        NewerKernel = "newer-kernel",
        Reboot = "reboot",
        ColdBoot = "cold-boot",
        BiosUpdate = "bios-update",
        PreBootSynchroniser = "pre-boot-synchroniser",
        EnableHpet = "enable-hpet",
        HpetDisable = "hpet=disable",
        MaxCstate = "max_cstate",
        ParavirtproviderKvm = "paravirtprovider-kvm",
        NoKvmclock = "no-kvmclock",
        FewerVcpus = "fewer-vcpus",
        Invtsc = "invtsc",
        KvmClock = "kvm-clock",
        PinVcpus = "pin-vcpus",
        GuestSupport = "guest-support",
        HostTsc = "host-tsc",
        SuspendGuests = "suspend-guests",
        SetClockAfterRestore = "set-clock-after-restore",
        WslShutdown = "wsl-shutdown",
        Use64Bit = "64-bit",
        Vsyscall64 = "vsyscall64=1",
        Synchronise = "synchronise",
        StopTracing = "stop-tracing",
        FindStall = "find-stall",
        ReadLog = "read-log",
        Measure = "measure",
        Coarse = "coarse",
        Keep = "keep",
    }
}
