//! A parsed line of the kernel's log about clocks. Plain data.
//!
//! The formats are those of `kernel/time/clocksource.c`, `arch/x86/kernel/tsc.c`, `tsc_sync.c`,
//! `hpet.c`, `drivers/clocksource/*` from 2.6.18 to 7.1.

use std::collections::{HashMap, HashSet};
use std::mem::{Discriminant, discriminant};

use crate::evidence::Evidence;

/// A line of the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The line's place and text.
    pub evidence: Evidence,
    /// Its stamp, in seconds since the kernel's start; `None` without one. Not in order on SMP.
    pub at: Option<f64>,
    /// The line's meaning.
    pub kind: EventKind,
}

/// The log of the last boot, reduced to lines about clocks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Log {
    /// The file it was read from.
    pub file: String,
    /// Lines in the file.
    pub lines: u64,
    /// Lines of the last boot about clocks, in the order of the file.
    pub events: Vec<Event>,
    /// The log begins where the kernel began: at a `Linux version` line, or a stamp near 0.
    pub begins_at_boot: bool,
    /// A line without the kernel's stamp may have lost its beginning: others have a stamp, or one begins with a blank.
    pub may_lack_words: bool,
    /// The last line with a stamp, on any subject, and its stamp in seconds since the kernel's start.
    pub last: Option<(f64, Evidence)>,
    /// Number of boots in the file.
    pub boots: u64,
    /// Numbers of events left out because there were too many of their kind.
    pub left_out: HashMap<Discriminant<EventKind>, u64>,
    /// Bytes of the oldest lines that were not read because the file is too long.
    pub skipped_bytes: u64,
}

impl Log {
    /// Whether the absence of a line can prove anything: the log begins at the boot and no event was left out. This is
    /// necessary but not sufficient, because a fragment may begin at the boot and still lack lines.
    pub fn is_complete(&self) -> bool {
        self.begins_at_boot && self.left_out.is_empty()
    }

    /// The kernel's release by its last `Linux version` line.
    pub(crate) fn release(&self) -> Option<&str> {
        self.events.iter().rev().find_map(|event| match &event.kind {
            EventKind::LinuxVersion(release) => release.split_whitespace().next(),
            _ => None,
        })
    }

    /// Adds the counts of events that were left out of another log of the same boot.
    pub fn leave_out(&mut self, other: HashMap<Discriminant<EventKind>, u64>) {
        for (kind, count) in other {
            *self.left_out.entry(kind).or_default() += count;
        }
    }

    /// The number of lines of these kinds, with those that were left out.
    pub(crate) fn count(&self, is_it: impl Fn(&EventKind) -> bool) -> u64 {
        let seen = || self.events.iter().map(|event| &event.kind).filter(|kind| is_it(kind));
        let kinds: HashSet<_> = seen().map(discriminant).collect();
        let left_out = kinds.iter().filter_map(|kind| self.left_out.get(kind));
        seen().count() as u64 + left_out.sum::<u64>()
    }
}

/// The role of the counter in a watchdog line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The watchdog's reference (`wd_`).
    Reference,
    /// A second reference (`wd2_`), only in debugging kernels.
    SecondReference,
    /// The clocksource under test (`cs_`).
    Watched,
}

/// A counter at two checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    /// The clocksource.
    pub name: String,
    /// The interval in nanoseconds, if the kernel printed it.
    pub nsec: Option<i64>,
    /// The counter at this check.
    pub now: u64,
    /// The counter at the check before.
    pub last: u64,
    /// The counter's bit mask.
    pub mask: u64,
}

/// The watchdog's reason for marking a clocksource unstable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// `because the skew is too large`
    Skew,
    /// `due to frequency skew` (7.1)
    FrequencySkew,
    /// `due to inter CPU skew` (7.1)
    CpuSkew,
    /// The reason is cut off, or has other words.
    Unstated,
}

/// The kernel's reason for marking the TSC unstable: the reasons of `mark_tsc_unstable` in `arch/x86` from 2.6.18 to
/// 6.12.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnstableReason {
    /// `clocksource watchdog`
    Watchdog,
    /// `check_tsc_sync_source failed`: the CPUs' counters disagreed.
    SyncCheck,
    /// `running on Hyper-V`, which is not a fault.
    HyperV,
    /// Other words about Hyper-V: they show the platform, but not that there is no fault.
    HyperVOtherwise,
    /// `boot parameter`
    BootParameter,
    /// `notsc`, a boot parameter in older words.
    NoTsc,
    /// `TSCs unsynchronized`: the CPU does not guarantee synchronised TSCs, and the kernel did not test them.
    Unsynchronized,
    /// `TSC halts in idle`
    HaltsInIdle,
    /// `TSC halt in AMD C1E`
    HaltsInC1e,
    /// `TSC halts in idle for states deeper than C2`
    HaltsBelowC2,
    /// `KVM discovered backwards TSC`
    Backwards,
    /// `cpufreq changes`: the counter follows the CPU's frequency.
    CpuFrequency,
    /// The rate could not be calibrated.
    NotCalibrated,
    /// `could not calculate TSC khz`
    NotCalculated,
    /// Another reason, or cut before it begins.
    Other,
}

/// The reasons as the kernel prints them, the longer one of two with the same beginning first, with the words that
/// tell each.
const REASONS: [(&str, &str, UnstableReason); 15] = [
    ("clocksource watchdog", "clocksource watchdog", UnstableReason::Watchdog),
    ("check_tsc_sync_source failed", "check_tsc_sync_source", UnstableReason::SyncCheck),
    ("running on Hyper-V", "running on Hyper-V", UnstableReason::HyperV),
    ("boot parameter notsc", "boot parameter notsc", UnstableReason::NoTsc),
    ("boot parameter", "boot parameter", UnstableReason::BootParameter),
    ("TSCs unsynchronized", "TSCs unsynchronized", UnstableReason::Unsynchronized),
    ("TSC halt in AMD C1E", "C1E", UnstableReason::HaltsInC1e),
    ("TSC halts in idle states deeper than C2", "deeper than C2", UnstableReason::HaltsBelowC2),
    ("TSC halts in idle", "TSC halt", UnstableReason::HaltsInIdle),
    ("KVM discovered backwards TSC", "backwards TSC", UnstableReason::Backwards),
    ("cpufreq changes", "cpufreq", UnstableReason::CpuFrequency),
    ("could not calibrate TSC", "calibrate", UnstableReason::NotCalibrated),
    ("could not calculate TSC khz", "calculate TSC", UnstableReason::NotCalculated),
    ("Hyper-V", "Hyper-V", UnstableReason::HyperVOtherwise),
    ("UV BIOS", "UV BIOS", UnstableReason::Other),
];
/// Minimum length of a cut reason that still tells which one it is.
const TELLING: usize = 6;

impl UnstableReason {
    /// The reason for this text, which the log may have cut short, and whether the text is complete: the beginning of a
    /// known reason is not, and tells it only from 6 characters on.
    pub fn of(text: &str) -> (UnstableReason, bool) {
        let text = text.trim().trim_start_matches([':', ' ']).trim_end_matches(['.', '=']).trim();
        if text == "notsc" {
            return (UnstableReason::NoTsc, true);
        }
        if let Some((.., reason)) = REASONS.iter().find(|(_, words, _)| text.contains(words)) {
            return (*reason, true);
        }
        match REASONS.iter().rev().find(|(known, ..)| known.starts_with(text)) {
            Some((.., reason)) if text.len() >= TELLING => (*reason, false),
            Some(_) => (UnstableReason::Other, false),
            None => (UnstableReason::Other, true),
        }
    }

    /// Whether the text may go on in another line: it is the beginning of a reason, or a mail's encoding has cut it.
    pub(crate) fn may_go_on(text: &str) -> bool {
        let text = text.trim().trim_start_matches([':', ' ']);
        let is_begun = |(known, ..): &(&str, _, _)| known.starts_with(text);
        let is_known = REASONS.iter().any(|(known, ..)| *known == text);
        text.ends_with('=') || !is_known && REASONS.iter().any(is_begun)
    }
}

/// The meaning of a line. Names are as in the log, durations in nanoseconds; `name` is that of a clocksource.
#[allow(missing_docs, reason = "a variant's line describes its fields")]
#[derive(Clone, Debug, PartialEq)]
pub enum EventKind {
    /// `Linux version RELEASE ...`: the boot begins.
    LinuxVersion(String),
    /// `Command line:` or `Kernel command line:`
    CommandLine(String),
    /// `DMI: ...`, or `Hardware name:` of a trace.
    Dmi(String),
    /// `DMI not present or invalid.`
    DmiAbsent,
    /// `Machine model: ...` of a device tree.
    MachineModel(String),
    /// `Hypervisor detected: NAME`, `Booting paravirtualized kernel on NAME`, and systemd's `Detected virtualization NAME.`
    Hypervisor(String),
    /// `kvm-clock: ...`
    KvmClock,
    /// `Hyper-V: Invariant TSC is unavailable`
    HyperVNoInvariantTsc,
    /// A line printed by one platform's code only: that platform, as in its label.
    OfPlatform(&'static str),
    /// `CPU MTRRs all blank - virtualized system.`, `SEV: Status: SEV`: a virtual machine of any hypervisor.
    VirtualMachine,
    /// `tdx: Guest detected`, `SEV: Status: SEV SEV-ES SEV-SNP SecureTSC`: a guest whose TSC its host cannot change, by
    /// the usual name of the technique.
    Confidential(&'static str),
    /// `CPU0: NAME (family: 0xf, ...)`, `smpboot: CPU0: ...`, `CPU: NAME stepping 02`: the name includes the vendor;
    /// kernels before 3.3 do not print the family.
    CpuModel { name: String, family: Option<u64> },
    /// `CPUn: Booted secondary processor`, `Booting Linux on physical CPU`: ARM.
    ArmBoot,
    /// `Detected N MHz processor` The rate is in MHz.
    DetectedProcessor(f64),
    /// `Detected N MHz TSC` The rate is in MHz.
    DetectedTsc(f64),
    /// `Refined TSC clocksource calibration: N MHz` The rate is in MHz.
    Refined(f64),
    /// `Fast TSC calibration failed` and the like: normal in VMs.
    CalibrationNote,
    /// `TSC freq read from hypervisor : N MHz` The rate is in MHz.
    RateFromHypervisor(f64),
    /// `Failed to get TSC freq from the hypervisor`
    NoRateFromHypervisor,
    /// `Skipped synchronization checks as TSC is reliable`
    SyncSkipped,
    /// `clocksource: NAME: mask: 0x.. max_cycles: 0x.., max_idle_ns: N ns`: most cycles between two readings, and the
    /// longest idle time.
    Registered { name: String, max_cycles: u64, max_idle_ns: u64 },
    /// `Switched to clocksource NAME`, `Switching to ...`, `Time: NAME clocksource has been installed.`
    Switched(String),
    /// `TSC synchronization [CPU#0 -> CPU#1]:`, which the kernel prints if it failed: `true`. `checking TSC
    /// synchronization` of 2.6 says nothing.
    SyncCheck(bool),
    /// `Measured N cycles TSC warp between CPUs` In ticks of the TSC.
    Warp(u64),
    /// `TSC warped randomly between CPUs`
    WarpRandom,
    /// `TSC ADJUST compensate: CPUn observed N warp. Adjust: N` In ticks of the TSC.
    AdjustCompensated(i64),
    /// `[Firmware Bug]: TSC ADJUST differs ...`, `TSC ADJUST: CPUn: N (NOT) force(d) to 0` `true`: it is `Restoring` a value that changed at run time, after a resume.
    AdjustDiffers(bool),
    /// `Marking TSC unstable due to REASON`: the reason by its words, whether its text is complete, and the text. A text
    /// that is cut short may continue differently, so it proves nothing about the machine.
    Unstable { reason: UnstableReason, is_whole: bool, text: String },
    /// `Marking clocksource NAME (as) unstable because/due to ...`
    Marked { name: String, why: Mark },
    /// `Clocksource NAME unstable (delta = N ns)`: 2.6 to 3.x. The difference from the reference.
    OldDelta { name: String, delta_ns: i64 },
    /// `'NAME' wd_nsec: N wd_now: X wd_last: X mask: X` and its like with `cs_`, `wd2_`.
    Reading(Role, Count),
    /// `Clocksource 'tsc' skewed N ns (N ms) over watchdog 'hpet' interval of N ns (N ms)`: the skew is negative if the
    /// clocksource was behind; the interval is that of the watchdog's reference.
    Skewed { name: String, skew_ns: i64, reference: String, interval_ns: i64 },
    /// `Watchdog NAME interval: Nns`, `Clocksource NAME interval: Nns` (7.1): the clocksource, and its interval in
    /// nanoseconds.
    Interval(Role, String, i64),
    /// `CPU1 N < CPU2 N (cycles)` (7.1): the lower count, and the higher.
    CpuCycles { first: u64, second: u64 },
    /// `read-back delay of Nns ...`: the clocksource that was judged, if the line names it (`marking tsc unstable`); the
    /// delay, `None` if it is cut off; the time between two reads of the reference alone, right after (6.2 and later);
    /// whether the line says that the clocksource is marked unstable because of the delay.
    ReadDelay { name: Option<String>, nsec: Option<u64>, alone: Option<u64>, marks: bool },
    /// No consequence: `clock-skew test skipped`, `retried N times`, `read timed out`
    WatchdogNoise,
    /// `Long readout interval, skipping watchdog check: cs_nsec: N wd_nsec: N`: no consequence either. The counts of
    /// both clocks in nanoseconds, the TSC's first; `None` if they are cut.
    LongReadout(Option<(i64, i64)>),
    /// `Clocksource tsc unstable (delta = N ns).  Enable clocksource failover by adding ...`: Red Hat's 2.6.32 keeps it.
    KeptDelta(i64),
    /// `'NAME' is current clocksource.`, `'NAME' (not 'OTHER') is current clocksource.`, `No current clocksource.`: its
    /// name, and whether the line contains `(not 'OTHER')`.
    Current { name: Option<String>, is_other: bool },
    /// `CPUs LIST ahead of CPU N`, `CPUs LIST behind CPU N`: the list as printed, and whether it is ahead.
    CpusApart { cpus: String, is_ahead: bool },
    /// `Override clocksource NAME is ... HRT compatible`: whether the kernel will try again (`deferring`).
    Override { name: String, is_deferred: bool },
    /// `TSC freq calibrated by CPUID/MSR differs from what is calibrated by HW timer`
    RateDiffers,
    /// `Previous calibrated TSC freq: N MHz` The rate is in MHz.
    PreviousRate(f64),
    /// `TSC freq recalibrated by [HPET]: N MHz` The rate is in MHz.
    Recalibrated(f64),
    /// `TSC doesn't count with P0 frequency!`
    FirmwareP0,
    /// `HPET not enabled in BIOS`
    HpetNotEnabled,
    /// `HPET dysfunctional in PC10. Force disabled.`
    HpetPc10,
    /// `Counter not counting. HPET disabled`, `Will disable the HPET for this platform because it's not reliable`
    HpetDisabled,
    /// `PM-Timer running at invalid rate`, `PM-Timer had no reasonable result`, `The chipset may have PM-Timer Bug`
    PmTimerBad,
    /// `registered with invalid VDSO mode N. Disabling VDSO support.`
    VdsoModeInvalid(String),
    /// `VDSO_CLOCKMODE_PVCLOCK not supported (tsc unstable)`
    PvclockUnstable,
    /// `CPUn has been hot-added`
    HotAdded,
    /// `kvm: SMP vm created on host with unstable TSC`: a host of KVM guests whose TSC is given up
    /// (`arch/x86/kvm/x86.c`, Linux 4.10 to 6.12).
    HostUnstable,
    /// A service set the time, or noticed that it was set: the words that tell it, and by how many seconds, if the line
    /// says so.
    Stepped(&'static str, Option<f64>),
    /// The release in a trace: `CPU: 1 PID: 2 Comm: NAME Not tainted 6.5.0-rc4 #1`.
    Release(String),
    /// `arch_timer: Enabling local workaround for NAME`
    ArmWorkaround(String),
    /// `arch_timer: CPUn: Trapping CNTVCT access`
    ArmTrapping,
    /// `sched_clock: Marking unstable`
    SchedClockUnstable,
    /// `TSC found unstable after boot, most likely due to broken BIOS. Use 'tsc=unstable'.`
    BrokenBiosAdvice,
    /// `random: crng reseeded due to virtual machine fork`: vmgenid has changed (5.18 and later).
    Restored,
    /// `PM: suspend entry`, `PM: suspend exit`, `ACPI: PM: Low-level resume complete`, hibernation. `true` on waking.
    Suspended(bool),
}

impl EventKind {
    /// `Marking TSC unstable due to TEXT`
    pub fn unstable(text: impl Into<String>) -> EventKind {
        let text = text.into();
        let (reason, is_whole) = UnstableReason::of(&text);
        EventKind::Unstable { reason, is_whole, text }
    }

    /// Whether the TSC was given up with words about Hyper-V.
    pub(crate) fn is_about_hyperv(&self) -> bool {
        use UnstableReason::{HyperV, HyperVOtherwise};
        matches!(self, EventKind::Unstable { reason: HyperV | HyperVOtherwise, is_whole: true, .. })
    }

    /// Whether the CPUs' counters disagreed.
    pub(crate) fn is_warp(&self) -> bool {
        matches!(self, EventKind::Warp(_) | EventKind::WarpRandom | EventKind::SyncCheck(true))
    }

    /// The clocksources that the event names.
    pub(crate) fn clocksources(&self) -> impl Iterator<Item = &str> {
        let (one, other) = match self {
            EventKind::Registered { name, .. }
            | EventKind::Switched(name)
            | EventKind::Marked { name, .. }
            | EventKind::OldDelta { name, .. }
            | EventKind::Reading(_, Count { name, .. })
            | EventKind::Interval(_, name, _)
            | EventKind::Current { name: Some(name), .. }
            | EventKind::ReadDelay { name: Some(name), .. }
            | EventKind::Override { name, .. }
            | EventKind::VdsoModeInvalid(name) => (Some(name), None),
            EventKind::Skewed { name, reference, .. } => (Some(name), Some(reference)),
            _ => (None, None),
        };
        one.into_iter().chain(other).map(String::as_str)
    }

    /// Whether the event gives the figures of a watchdog check.
    pub(crate) fn has_figures(&self) -> bool {
        use EventKind::*;
        let is_new = matches!(self, Reading(..) | Skewed { .. } | Interval(..) | CpuCycles { .. });
        is_new || matches!(self, OldDelta { .. } | ReadDelay { .. })
    }
}
