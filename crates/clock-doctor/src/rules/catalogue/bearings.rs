//! What follows from a label: for the other findings, for the advice, for the guards.

use super::Fix::*;
use super::{Fix, Label};
use Label::*;
use Order::{Add, Do};
use Says::*;

/// What a label means to the other findings and to the advice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bearing {
    /// Rather a cause (high) or a consequence (low).
    pub(crate) weight: u8,
    /// What it follows from if its rule does not say: the first of these that was found.
    pub(crate) follows: &'static [Label],
    /// Why something is done, as a clause, where the title is none or could be said better.
    pub(crate) clause: &'static str,
    /// What must never be advised after it, and is told so.
    pub(crate) forbids: &'static [Fix],
    /// What must not be advised either, though only some of its rules tell so.
    pub(crate) also_forbids: &'static [Fix],
    /// Why the TSC must not be forced after it. Of several that were found, the least number counts.
    pub(crate) never: Option<(u8, Order)>,
    /// From which kernel on its cause is gone, and what that kernel does, as a clause. Of several
    /// that were found, the least number counts.
    pub(crate) mended: Option<(u8, (u32, u32), &'static str)>,
    /// What is decided by it.
    pub(crate) says: &'static [Says],
    /// What is the case wherever it is: other findings, and how the clock is read if nothing else tells.
    pub(crate) implies: &'static [Label],
}

/// The bearing of a label that decides nothing.
const PLAIN: Bearing = Bearing {
    weight: 50,
    follows: &[],
    clause: "",
    forbids: &[],
    also_forbids: &[],
    never: None,
    mended: None,
    says: &[],
    implies: &[],
};

/// Everything that makes the kernel trust the TSC, or use it.
pub(crate) const TRUST: &[Fix] =
    &[Fix::TscReliable, Fix::TscNowatchdog, Fix::ClocksourceTsc, Fix::SwitchToTsc];

/// An order that reads on after `Never:`, and ends with the reason.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order {
    /// Goes on after `add`, or `keep` where tsc=reliable is set.
    Add(&'static str),
    /// Whole as it stands.
    Do(&'static str),
}

/// What a label says that something else is decided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Says {
    /// The TSC's time is wrong, or is likely to be.
    TscIsWrong,
    /// The TSC's time may be wrong until the CPUs have been compared.
    OffsetsAreOpen,
    /// The TSC's time may be wrong until its rate has been measured.
    RateIsOpen,
    /// A rate that the watchdog's reference shows is not to be believed as it stands.
    RateIsDoubtful,
    /// The watchdog's own numbers speak for the TSC.
    TscIsAcquitted,
    /// The kernel compared the CPUs' counters, which tsc=nowatchdog leaves in place.
    CpusWereCompared,
    /// Why the kernel gave the TSC up.
    WhyTscIsGone,
    /// Writing tsc to `current_clocksource` changes nothing until the next boot.
    TscIsGoneUntilBoot,
    /// That something happened rather than why.
    EffectOnly,
    /// No cause of slowness, however slow it is.
    NoCauseOfSlowness,
    /// There is no vDSO, or none that clockscope could stand in for.
    NoVdso,
    /// Only a measurement on the machine shows whether the vDSO reads the clock.
    VdsoIsOpen,
    /// The kernel's log would tell more.
    LogIsWanted,
}

impl Label {
    /// What is decided by it.
    pub(crate) fn bearing(self) -> &'static Bearing {
        BEARINGS.iter().find(|(label, _)| *label == self).map_or(&PLAIN, |(_, bearing)| bearing)
    }
}

/// Defines the bearings of labels; what is left out is [`PLAIN`].
macro_rules! bearings {
    ($($label:ident { $($field:ident: $value:expr,)+ })+) => {
        static BEARINGS: &[(Label, Bearing)] =
            &[$((Label::$label, Bearing { $($field: $value,)+ ..PLAIN })),+];
    };
}

bearings! {
    TscWarp {
        weight: 20,
        follows: &[TscWarpFirmware, TscWarpHotplug, TscWarpSmall],
        says: &[OffsetsAreOpen, CpusWereCompared, EffectOnly, WhyTscIsGone, TscIsGoneUntilBoot],
        mended: Some((
            6, (3, 3),
            "it skips the comparison with tsc=reliable, which this one does not",
        )),
    }
    FallbackRefused {
        weight: 5,
        says: &[NoCauseOfSlowness],
        clause: "a filter refuses reads of the clock by system call",
    }
    TscWarpSmall {
        implies: &[TscWarp],
        says: &[OffsetsAreOpen, CpusWereCompared],
        clause: "the warp is no larger than the comparison itself",
    }
    TscWarpFirmware {
        implies: &[TscWarp],
        weight: 90,
        says: &[TscIsWrong, CpusWereCompared],
        forbids: TRUST,
        never: Some((1, Do(
            "force the TSC (tsc=reliable, tsc=nowatchdog, clocksource=tsc): the cores' counters \
            are far apart, and time would jump whenever a program moves."
        ))),
    }
    TscWarpHotplug {
        weight: 70,
        says: &[TscIsWrong, CpusWereCompared],
        clause: "the added CPU counts from another start",
    }
    TscWarpRuntime {
        weight: 90,
        says: &[TscIsWrong],
        forbids: TRUST,
        never: Some((4, Add(
            "tsc=reliable or tsc=nowatchdog: they turn off the very check that found the CPUs' \
            counters apart."
        ))),
    }
    TscUnsynchronized {
        weight: 90,
        follows: &[GuestLacksInvtsc],
        says: &[TscIsWrong, WhyTscIsGone, TscIsGoneUntilBoot],
        clause: "the CPU does not promise synchronised counters",
        forbids: &[TscReliable, TscNowatchdog],
        also_forbids: &[ClocksourceTsc],
        never: Some((11, Add(
            "tsc=reliable: the CPU promises neither a constant rate nor synchronised counters."
        ))),
    }
    TscHaltsInIdle {
        weight: 90,
        says: &[TscIsWrong, WhyTscIsGone, TscIsGoneUntilBoot],
        clause: "the counter stops in deep sleep",
        forbids: TRUST,
        never: Some((6, Add("tsc=reliable: the clock would lose the time that the CPUs sleep."))),
    }
    TscRefused { says: &[TscIsWrong, WhyTscIsGone, TscIsGoneUntilBoot], }
    TscAbsent {
        weight: 20,
        // Why tsc is gone, the most telling first.
        follows: &[
            TscWarpFirmware, TscWarpHotplug, TscWarp, TscUnsynchronized, TscHaltsInIdle,
            TscWarpRuntime, TscRefused, TscWatchdogReaddelay, TscWatchdogSkew, ParamTscUnstable,
            KvmHostTscBackwards,
        ],
        says: &[NoCauseOfSlowness, EffectOnly, LogIsWanted, TscIsGoneUntilBoot],
        clause: "the kernel refused the TSC at some time since the boot",
    }
    TscEarly {
        follows: &[TscWatchdogSkew],
        says: &[EffectOnly],
        also_forbids: &[TscReliable],
        never: Some((13, Add(
            "tsc=reliable before the TSC's rate has been measured: a wrong early rate looks just \
            like this, and would make the time wrong."
        ))),
    }
    MissingNonstopTsc {
        weight: 10,
        says: &[NoCauseOfSlowness],
    }
    KvmHostTscBackwards {
        says: &[TscIsWrong],
        forbids: TRUST,
        never: Some((10, Do("force the TSC on this host: it was seen to go back."))),
    }
    TscWatchdogSkew {
        weight: 20,
        follows: &[
            TscRateWrong, WatchdogBadReference, WatchdogCounterWrapped, VmPaused,
            TscWatchdogShortInterval, TscWatchdogReaddelay, TscWatchdogGlitch, WatchdogReadsTorn,
            TscWentBackwards, TscJumped, TscReliableIgnored, VmwareGuestSupportMissing,
            TscWatchdogLongInterval,
        ],
        says: &[EffectOnly, WhyTscIsGone, TscIsGoneUntilBoot],
    }
    TscWatchdogReaddelay {
        follows: &[NestedOrOverloaded],
        says: &[TscIsAcquitted, WhyTscIsGone],
        clause: "the reference was slow to read, which says nothing of the TSC",
        mended: Some((3, (6, 3), "it skips a check when the reference is slow")),
    }
    TscWatchdogGlitch {
        says: &[TscIsAcquitted],
        clause: "one bad sample cost the TSC",
    }
    TscWatchdogLongInterval {
        says: &[RateIsDoubtful],
        mended: Some((2, (6, 3), "it skips checks that come late")),
    }
    TscWatchdogShortInterval {
        implies: &[WatchdogFalsePositiveLikely],
        says: &[TscIsAcquitted],
        clause: "noise between two close checks looked like skew",
    }
    TscWentBackwards {
        follows: &[AfterResume],
        says: &[TscIsWrong],
        forbids: TRUST,
        never: Some((8, Do(
            "boot with clocksource=tsc or tsc=reliable: the counter was set back once, and time \
            would go back with it."
        ))),
    }
    TscJumped {
        says: &[TscIsWrong],
        also_forbids: &[TscReliable],
        never: Some((12, Add(
            "tsc=reliable before it is clear whether the counter jumped or its reference stood \
            still."
        ))),
    }
    WatchdogBadReference {
        weight: 70,
        says: &[RateIsDoubtful],
        mended: Some((5, (7, 1), "it takes no tick-based source as reference")),
    }
    WatchdogCounterWrapped {
        weight: 70,
        follows: &[NestedOrOverloaded],
        says: &[TscIsAcquitted],
        clause: "the reference wrapped, the TSC counted right",
    }
    WatchdogReadsTorn {
        follows: &[NestedOrOverloaded],
        says: &[TscIsAcquitted],
        clause: "a stall between two reads looked like skew",
        mended: Some((4, (5, 13), "it reads the reference twice and repeats torn reads")),
    }
    WatchdogFalsePositiveLikely {
        weight: 20,
        follows: &[TscWatchdogSkew],
        says: &[TscIsAcquitted],
        clause: "the watchdog's own numbers show a good TSC",
    }
    PerCpuSyncSuspicious {
        says: &[TscIsWrong],
        forbids: TRUST,
        never: Some((5, Add(
            "tsc=reliable or tsc=nowatchdog before all CPUs have been measured: the kernel saw \
            some of them apart."
        ))),
    }
    NeedsRateMeasurement {
        follows: &[TscWatchdogSkew],
        says: &[RateIsDoubtful, RateIsOpen, NoCauseOfSlowness],
        clause: "the watchdog's sample cannot tell a stall from a wrong rate",
    }
    TscRateWrong {
        weight: 90,
        says: &[TscIsWrong],
        clause: "the kernel takes the TSC to run at another rate than it does",
        // A rate that CPUID states falsely passes every comparison of CPUs, and no parameter
        // that makes the kernel trust the TSC mends it.
        forbids: TRUST,
        never: Some((2, Add(
            "tsc=reliable or tsc=nowatchdog: the TSC's rate is taken wrongly, and they would keep \
            whatever could notice from noticing."
        ))),
    }
    VmPaused {
        says: &[TscIsAcquitted],
        clause: "the guest was stopped, which looked like skew",
    }
    TscAvailableNotSelected { weight: 70, }
    ParamClocksourceUnavailable { weight: 70, }
    ParamTscUnstable {
        weight: 90,
        says: &[WhyTscIsGone],
    }
    ParamVdso {
        weight: 90,
        says: &[NoVdso],
    }
    TscReliableIgnored { mended: Some((1, (5, 10), "it heeds tsc=reliable for tsc-early too")), }
    RateRiskTicks {
        clause: "time is counted in ticks",
        implies: &[StateSlow],
    }
    CauseNeedsDmesg {
        weight: 10,
        follows: &[TscAbsent, TscAvailableNotSelected],
        says: &[EffectOnly, LogIsWanted],
    }
    LogIncomplete {
        weight: 10,
        says: &[LogIsWanted],
    }
    GuestLacksInvtsc { weight: 70, }
    KvmClockPresent { says: &[EffectOnly], }
    KvmClockNoVdsoSuspected {
        follows: &[KvmHostTscBackwards, TscWarp, TscAbsent],
        says: &[VdsoIsOpen],
        clause: "the vDSO may not be able to read kvm-clock",
    }
    NestedOrOverloaded { clause: "virtual CPUs that were not run looked like skew", }
    AfterResume {
        says: &[TscIsWrong],
        clause: "a suspend or restore changed the counters",
        also_forbids: &[TscReliable, TscNowatchdog, ClocksourceTsc],
        never: Some((7, Do(
            "boot with clocksource=tsc or tsc=reliable: the next suspend would change the \
            counters again, with nothing left to notice."
        ))),
    }
    MigrationRisk {
        says: &[TscIsWrong],
        clause: "tsc=reliable would hide a changed rate after a migration",
        also_forbids: &[TscReliable, ClocksourceTsc],
        never: Some((9, Do(
            "keep tsc=reliable on a guest that migrates live: on a host with another TSC rate its \
            clock runs wrong, and nothing notices."
        ))),
    }
    VmwareGuestSupportMissing { weight: 70, }
    OldKernel {
        weight: 10,
        clause: "this kernel is old",
        mended: Some((7, (5, 10), "it has today's rules")),
    }
    VdsoSupportDependsOnKernel { says: &[VdsoIsOpen], }
    EmulatedKernel { says: &[NoVdso], }
    ArmErratumVdsoOff {
        weight: 70,
        implies: &[StateSlow],
    }
    ArmCntvctTrapped { follows: &[ArmErratumVdsoOff], }
    Arm32VdsoOff {
        says: &[NoVdso],
        implies: &[StateSlow],
    }
    HpetUnreliable { also_forbids: &[EnableHpet, SwitchToHpet], }
    VdsoFallsBack {
        implies: &[StateSlow],
        weight: 10,
        follows: &[
            KvmClockNoVdsoSuspected, VdsoSupportDependsOnKernel, ArmErratumVdsoOff, Arm32VdsoOff,
            TscAvailableNotSelected, BetterSourceAvailable, TscWarp, TscWatchdogSkew, TscAbsent,
        ],
        says: &[NoCauseOfSlowness],
    }
    VdsoOff {
        says: &[NoVdso],
        implies: &[StateSlow],
    }
    Vsyscall64Off {
        says: &[NoVdso],
        implies: &[StateSlow],
    }
    TscOffsetMeasured {
        weight: 90,
        says: &[TscIsWrong],
        also_forbids: TRUST,
        never: Some((3, Do(
            "force the TSC (tsc=reliable, tsc=nowatchdog, clocksource=tsc): the CPUs' counters \
            are apart now."
        ))),
    }
    TscDeniedToProcess { says: &[TscIsWrong], }
    SyscallsTraced { clause: "each system call is traced", }
    HpetPc10Benign { forbids: &[EnableHpet, SwitchToHpet], }
}
