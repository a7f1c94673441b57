//! Lines of kernels from 2.6.18 to 7.1, and what they are understood as.

use super::super::event::{Kind, Mark, Role, UnstableReason};
use super::said;

fn kind(line: &str) -> Option<Kind> {
    said(line, None).kind
}

fn is_open(line: &str) -> bool {
    said(line, None).is_open
}

/// Each line is understood as said.
fn check(lines: &[(&str, Kind)]) {
    for (line, want) in lines {
        assert_eq!(kind(line).as_ref(), Some(want), "{line}");
    }
}

fn text(text: &str) -> String {
    text.to_owned()
}

#[test]
fn registrations() {
    let registered = |name: &str, mask, max_cycles, max_idle_ns| Kind::Registered {
        name: text(name),
        mask,
        max_cycles,
        max_idle_ns,
    };
    check(&[
        (
            "clocksource: tsc-early: mask: 0xffffffffffffffff max_cycles: 0x2f7a6248209, max_idle_ns: 440795359804 ns",
            registered("tsc-early", u64::MAX, 0x2f7_a624_8209, 440_795_359_804),
        ),
        // 4.0 and 4.1.
        (
            "clocksource acpi_pm: mask: 0xffffff max_cycles: 0xffffff, max_idle_ns: 2085701024 ns",
            registered("acpi_pm", 0xff_ffff, 0xff_ffff, 2_085_701_024),
        ),
        (
            "clocksource: arm,sp804: mask: 0xffffffff max_cycles: 0xffffffff, max_idle_ns: 15290083572 ns",
            registered("arm,sp804", 0xffff_ffff, 0xffff_ffff, 15_290_083_572),
        ),
        (
            "clocksource: timer@1c20c00: mask: 0xffffffff max_cycles: 0xffffffff, max_idle_ns: 79635851949 ns",
            registered("timer@1c20c00", 0xffff_ffff, 0xffff_ffff, 79_635_851_949),
        ),
        (
            "clocksource tsc registered with invalid VDSO mode 7. Disabling VDSO support.",
            Kind::VdsoModeInvalid(text("tsc")),
        ),
        (
            "clocksource: xen: VDSO_CLOCKMODE_PVCLOCK not supported (tsc unstable)",
            Kind::PvclockUnstable,
        ),
    ]);
}

#[test]
fn switches_and_overrides() {
    let switched = |name: &str| Kind::Switched(text(name));
    let rejected = |is_deferred| Kind::Override { name: text("tsc"), is_deferred };
    check(&[
        ("Time: hpet clocksource has been installed.", switched("hpet")),
        ("Switching to clocksource tsc", switched("tsc")),
        (
            "Switched to clocksource hyperv_clocksource_tsc_page",
            switched("hyperv_clocksource_tsc_page"),
        ),
        ("clocksource: Switched to clocksource tsc-early", switched("tsc-early")),
        ("clocksource: Switched to clocksource arm,sp804", switched("arm,sp804")),
        ("time.c: Using 3.579545 MHz WALL PM GTOD PM timer.", switched("acpi_pm")),
        ("time.c: Using 14.318180 MHz WALL HPET GTOD HPET timer.", switched("hpet")),
        ("time.c: Using 1.193182 MHz WALL PIT GTOD PIT/TSC timer.", switched("tsc")),
        (
            "Override clocksource tsc is not HRT compatible. Cannot switch while in HRT/NOHZ mode",
            rejected(false),
        ),
        (
            "clocksource: Override clocksource tsc is unstable and not HRT compatible - cannot switch while in HRT/NOHZ mode",
            rejected(false),
        ),
        (
            "clocksource: Override clocksource tsc is not currently HRT compatible - deferring",
            rejected(true),
        ),
    ]);
}

#[test]
fn marks() {
    let marked = |name: &str, why| Kind::Marked { name: text(name), why };
    check(&[
        (
            "timekeeping watchdog: Marking clocksource 'tsc' as unstable, because the skew is too large:",
            marked("tsc", Mark::Skew),
        ),
        (
            "clocksource: timekeeping watchdog: Marking clocksource 'tsc' as unstable because the skew is too large:",
            marked("tsc", Mark::Skew),
        ),
        (
            "clocksource: timekeeping watchdog on CPU118: Marking clocksource 'tsc-early' as unstable because the skew is too large:",
            marked("tsc-early", Mark::Skew),
        ),
        (
            "clocksource: Marking clocksource tsc unstable due to frequency skew",
            marked("tsc", Mark::FrequencySkew),
        ),
        (
            "clocksource: Marking clocksource tsc unstable due to inter CPU skew",
            marked("tsc", Mark::CpuSkew),
        ),
        (
            "clocksource: timekeeping watchdog on CPU2: Marking clocksource 'tsc' as unsta>",
            marked("tsc", Mark::Unstated),
        ),
        (
            "Clocksource tsc unstable (delta = -4679290018 ns)",
            Kind::OldDelta { name: text("tsc"), delta_ns: -4_679_290_018 },
        ),
    ]);
}

#[test]
fn readings() {
    let reading = |role, name: &str, nsec, (now, last, mask)| Kind::Reading {
        role,
        name: text(name),
        nsec,
        now,
        last,
        mask,
    };
    let hpet = (0x6589_2719, 0x64c5_d684, 0xffff_ffff);
    check(&[
        (
            "clocksource:                       'acpi_pm' wd_now: f4b7d wd_last: 6c50c5 mask: ffffff",
            reading(Role::Reference, "acpi_pm", None, (0xf4b7d, 0x6c_50c5, 0xff_ffff)),
        ),
        (
            "clocksource: 'hpet' wd2_nsec: 512005960 wd2_now: 65892719 wd2_last: 64c5d684 mask: ffffffff",
            reading(Role::SecondReference, "hpet", Some(512_005_960), hpet),
        ),
        // No prefix, tabs turned into blanks, another spacing.
        (
            "'tsc' cs_nsec: 503646106 cs_now:  74ca94f19b5  cs_last: 74c466e112f mask: ffffffffffffffff",
            reading(
                Role::Watched,
                "tsc",
                Some(503_646_106),
                (0x74c_a94f_19b5, 0x74c_466e_112f, u64::MAX),
            ),
        ),
        (
            "clocksource:                       'tsc' cs_nsec: -12 cs_now: 1 cs_last: 2 mask: ffffffffffffffff",
            reading(Role::Watched, "tsc", Some(-12), (1, 2, u64::MAX)),
        ),
        // Without its mask, or with a part of it.
        (
            "clocksource: 'hpet' wd_now: 65892719 wd_last: 64c5d684 ma>",
            reading(Role::Reference, "hpet", None, hpet),
        ),
        (
            "clocksource: 'hpet' wd_now: 65892719 wd_last: 64c5d684 mask: fff",
            reading(Role::Reference, "hpet", None, hpet),
        ),
        (
            "clocksource: Clocksource 'tsc' skewed -485515617 ns (-485 ms) over watchdog 'acpi_pm' interval of 485515617 ns (485 ms)",
            Kind::Skewed {
                name: text("tsc"),
                skew_ns: -485_515_617,
                reference: text("acpi_pm"),
                interval_ns: 485_515_617,
            },
        ),
        (
            "clocksource: Watchdog hpet interval: 500123456ns",
            Kind::ReferenceInterval { name: text("hpet"), nsec: 500_123_456 },
        ),
        (
            "clocksource: Clocksource tsc interval: 500123 ns",
            Kind::WatchedInterval { name: text("tsc"), nsec: 500_123 },
        ),
        (
            "clocksource: CPU1 123456789 < CPU2 123456999 (cycles)",
            Kind::CpuCycles { first: 123_456_789, second: 123_456_999 },
        ),
        ("CPU1 17 < CPU12 23 (cycles)", Kind::CpuCycles { first: 17, second: 23 }),
    ]);
}

#[test]
fn what_the_watchdog_says_of_other_clocksources_than_the_tsc() {
    let delay = Kind::ReadDelay { name: Some(text("wdtest-ktime")), nsec: 1_000_880, marks: true };
    check(&[
        (
            "clocksource: timekeeping watchdog on CPU0: wd-wdtest-ktime-wd excessive read-back delay of 1000880ns vs. limit of 125000ns, wd-wd read-back delay only 46ns, attempt 3, marking wdtest-ktime unstable",
            delay,
        ),
        (
            "clocksource_wdtest: --- Marking wdtest-ktime unstable due to clocksource watchdog.",
            Kind::Marked { name: text("wdtest-ktime"), why: Mark::Unstated },
        ),
        (
            "clocksource:         CPUs 0-2 ahead of CPU 3 for clocksource wdtest-ktime.",
            Kind::WatchdogNoise,
        ),
        (
            "Clocksource tsc unstable (delta = 6824818792 ns).  Enable clocksource failover by adding clocksource_failover kernel parameter.",
            Kind::WatchdogNoise,
        ),
    ]);
}

#[test]
fn what_the_watchdog_says_besides() {
    let current = |name: Option<&str>, is_other| Kind::Current { name: name.map(text), is_other };
    let delay = |nsec, marks| Kind::ReadDelay { name: None, nsec, marks };
    let named = |name: &str, nsec| Kind::ReadDelay { name: Some(text(name)), nsec, marks: true };
    let apart = |cpus: &str, is_ahead| Kind::CpusApart { cpus: text(cpus), is_ahead };
    check(&[
        (
            "clocksource:                       'tsc' is current clocksource.",
            current(Some("tsc"), false),
        ),
        ("clocksource: 'xen' (not 'tsc') is current clocksource.", current(Some("xen"), true)),
        ("clocksource:                       No current clocksource.", current(None, false)),
        (
            "clocksource: timekeeping watchdog on CPU3: hpet read-back delay of 221041ns, attempt 4, marking unstable",
            delay(221_041, true),
        ),
        (
            "clocksource: timekeeping watchdog on CPU0: wd-tsc-wd excessive read-back delay of 260000ns vs. limit of 125000ns, wd-wd read-back delay only 190000ns, attempt 3, marking tsc unstable",
            named("tsc", 260_000),
        ),
        (
            "clocksource: timekeeping watchdog on CPU0: acpi_pm wd-wd read-back delay of 190000ns",
            delay(190_000, false),
        ),
        (
            "clocksource: wd-tsc-wd read-back delay of 250000ns, clock-skew test skipped!",
            Kind::WatchdogNoise,
        ),
        (
            "clocksource: timekeeping watchdog on CPU7: hpet retried 2 times before success",
            Kind::WatchdogNoise,
        ),
        (
            "clocksource: Watchdog hpet read timed out. Readout sequence took: 51234ns",
            Kind::WatchdogNoise,
        ),
        ("clocksource: Watchdog remote CPU 3 read timed out", Kind::WatchdogNoise),
        (
            "clocksource: Long readout interval, skipping watchdog check: cs_nsec: 1 wd_nsec: 2",
            Kind::WatchdogNoise,
        ),
        (
            "clocksource: Checking clocksource tsc synchronization from CPU 610 to CPUs 0-609,611-767.",
            Kind::SyncChecking,
        ),
        ("clocksource: Checking clocksource tsc synchronization from CPU 5.", Kind::SyncChecking),
        (
            "clocksource:         CPUs 0,2-3 ahead of CPU 1 for clocksource tsc.",
            apart("0,2-3", true),
        ),
        ("clocksource:         CPUs 5 behind CPU 1 for clocksource tsc.", apart("5", false)),
        (
            "clocksource:         CPU 1 check durations 1234ns - 5678ns for clocksource tsc.",
            Kind::WatchdogNoise,
        ),
        ("clocksource: Not enough CPUs to check clocksource 'tsc'.", Kind::WatchdogNoise),
        ("sched_clock: Marking unstable (1, 2)<-(3, -4)", Kind::SchedClockUnstable),
        (
            "TSC found unstable after boot, most likely due to broken BIOS. Use 'tsc=unstable'.",
            Kind::BrokenBiosAdvice,
        ),
    ]);
}

#[test]
fn a_reason_is_known_by_its_words_also_cut_short() {
    for (words, reason) in [
        ("clocksource watchdog", UnstableReason::Watchdog),
        ("check_tsc_sync_source failed", UnstableReason::SyncCheck),
        ("running on Hyper-V", UnstableReason::HyperV),
        ("a page of Hyper-V", UnstableReason::HyperVOtherwise),
        ("boot parameter", UnstableReason::BootParameter),
        ("notsc", UnstableReason::NoTsc),
        ("TSCs unsynchronized", UnstableReason::Unsynchronized),
        ("TSC halts in idle", UnstableReason::HaltsInIdle),
        ("TSC halt in AMD C1E", UnstableReason::HaltsInC1e),
        ("TSC halts in idle for states deeper than C2.", UnstableReason::HaltsBelowC2),
        ("KVM discovered backwards TSC", UnstableReason::Backwards),
        ("cpufreq changes", UnstableReason::CpuFrequency),
        ("could not calculate TSC khz", UnstableReason::NotCalculated),
        ("clock", UnstableReason::Other),
        ("", UnstableReason::Other),
    ] {
        assert_eq!(UnstableReason::of(words), (reason, true), "{words}");
    }
    for (words, reason) in [
        (": clocksource watchd", UnstableReason::Watchdog),
        ("check_tsc_sync", UnstableReason::SyncCheck),
        ("running on", UnstableReason::HyperV),
        ("boot par", UnstableReason::BootParameter),
        ("TSCs unsync", UnstableReason::Unsynchronized),
    ] {
        assert_eq!(UnstableReason::of(words), (reason, false), "{words}");
    }
}

#[test]
fn the_tsc() {
    let unstable = |why: &str| Kind::unstable(why);
    check(&[
        ("Marking TSC unstable due to TSC halts in idle", unstable("TSC halts in idle")),
        ("tsc: Marking TSC unstable due to running on Hyper-V", unstable("running on Hyper-V")),
        (
            "tsc: Marking TSC unstable due to check_tsc_sync_source fai>",
            unstable("check_tsc_sync_source fai"),
        ),
        ("tsc: Marking TSC unstable>", unstable("")),
        ("TSC synchronization [CPU#0 -> CPU#1]:", Kind::SyncCheck),
        ("checking TSC synchronization [CPU#0 -> CPU#1]: passed.", Kind::SyncCheck),
        ("checking TSC synchronization across 2 CPUs: passed.", Kind::SyncCheck),
        (
            "checking TSC synchronization [CPU#0 -> CPU#1]: Measured 12 cycles TSC warp between CPUs, turning off TSC clock.",
            Kind::Warp { cycles: 12 },
        ),
        (
            "Measured 66930 cycles TSC warp between CPUs, turning off TSC clock.",
            Kind::Warp { cycles: 66_930 },
        ),
        ("x86: Measured 66930 cycles TSC warp between CPUs, tur>", Kind::Warp { cycles: 66_930 }),
        ("TSC warped randomly between CPUs", Kind::WarpRandom),
        (
            "TSC ADJUST compensate: CPU2 observed -1234 warp. Adjust: 1234",
            Kind::AdjustCompensated { warp: -1234 },
        ),
        (
            "[Firmware Bug]: TSC ADJUST differs: CPU3 0 --> -123456. Restoring",
            Kind::AdjustDiffers { restoring: true },
        ),
        (
            "[Firmware Bug]: TSC ADJUST differs within socket(s), fixing all errors",
            Kind::AdjustDiffers { restoring: false },
        ),
        (
            "[Firmware Bug]: TSC ADJUST: CPU0: -1234567 force to 0",
            Kind::AdjustDiffers { restoring: false },
        ),
        (
            "[Firmware Bug]: TSC ADJUST: CPU0: 1 NOT forced to 0",
            Kind::AdjustDiffers { restoring: false },
        ),
        ("Skipped synchronization checks as TSC is reliable.", Kind::SyncSkipped),
        ("tsc: Detected 1896.000 MHz TSC", Kind::DetectedTsc { mhz: 1896.0 }),
        ("Detected 2393.981 MHz processor.", Kind::DetectedProcessor { mhz: 2393.981 }),
        ("time.c: Detected 1808.905 MHz processor.", Kind::DetectedProcessor { mhz: 1808.905 }),
        ("tsc: Refined TSC clocksource calibration: 3293.811 MHz", Kind::Refined { mhz: 3293.811 }),
        ("Refined TSC clocksource calibration: 3712.392 MHz.", Kind::Refined { mhz: 3712.392 }),
        ("tsc: Fast TSC calibration failed", Kind::CalibrationNote),
        ("tsc: Unable to calibrate against PIT", Kind::CalibrationNote),
        ("tsc: using HPET reference calibration", Kind::CalibrationNote),
        ("TSC: using PMTIMER reference calibration", Kind::CalibrationNote),
        (
            "vmware: TSC freq read from hypervisor : 2394.000 MHz",
            Kind::RateFromHypervisor { mhz: 2394.0 },
        ),
        ("TSC freq read from hypervisor : 2394.000 MHz", Kind::RateFromHypervisor { mhz: 2394.0 }),
        ("Failed to get TSC freq from the hypervisor", Kind::NoRateFromHypervisor),
        (
            "tsc: Warning: TSC freq calibrated by CPUID/MSR differs from what is calibrated by HW timer, please check with vendor!!",
            Kind::RateDiffers,
        ),
        ("tsc: Previous calibrated TSC freq:\t 1896.000 MHz", Kind::PreviousRate { mhz: 1896.0 }),
        (
            "tsc: TSC freq recalibrated by [HPET]:\t 1974.999 MHz",
            Kind::Recalibrated { mhz: 1974.999 },
        ),
        ("[Firmware Bug]: TSC doesn't count with P0 frequency!", Kind::FirmwareP0),
        ("Clock: inserting leap second 23:59:60 UTC", Kind::LeapSecond),
    ]);
}

#[test]
fn references() {
    check(&[
        ("HPET not enabled in BIOS. You might try hpet=force boot option", Kind::HpetNotEnabled),
        ("hpet: HPET dysfunctional in PC10. Force disabled.", Kind::HpetPc10),
        ("Counter not counting. HPET disabled", Kind::HpetDisabled),
        ("Will disable the HPET for this platform because it's not reliable", Kind::HpetDisabled),
        ("PM-Timer running at invalid rate: 200% of normal - aborting.", Kind::PmTimerBad),
        ("PM-Timer had no reasonable result: 0xffffff - aborting.", Kind::PmTimerBad),
        ("* The chipset may have PM-Timer Bug. Due to workarounds for a bug,", Kind::PmTimerBug),
        ("* Found PM-Timer Bug on the chipset. Due to workarounds for a bug,", Kind::PmTimerBug),
    ]);
}

#[test]
fn machines() {
    let cpu = |name: &str, family| Kind::CpuModel { name: text(name), family };
    check(&[
        (
            "Linux version 3.2.0-4-amd64 (debian-kernel@lists.debian.org)",
            Kind::LinuxVersion(text("3.2.0-4-amd64 (debian-kernel@lists.debian.org)")),
        ),
        ("Command line: ro quiet tsc=reliable", Kind::CommandLine(text("ro quiet tsc=reliable"))),
        ("Kernel command line: ro  quiet", Kind::CommandLine(text("ro  quiet"))),
        ("DMI: QEMU Standard PC, BIOS 1.1", Kind::Dmi(text("QEMU Standard PC, BIOS 1.1"))),
        ("Hardware name: QEMU Standard PC", Kind::Dmi(text("QEMU Standard PC"))),
        ("DMI not present or invalid.", Kind::DmiAbsent),
        ("Machine model: Khadas vim4", Kind::MachineModel(text("Khadas vim4"))),
        ("OF: fdt: Machine model: Raspberry Pi 3", Kind::MachineModel(text("Raspberry Pi 3"))),
        (
            "Machine: BCM2708, model: Raspberry Pi Model B",
            Kind::MachineModel(text("Raspberry Pi Model B")),
        ),
        ("Hypervisor detected: KVM", Kind::Hypervisor(text("KVM"))),
        ("Booting paravirtualized kernel on Xen HVM", Kind::Paravirtualised(text("Xen HVM"))),
        ("kvm-clock: cpu 1, msr 45a201041, secondary cpu clock", Kind::KvmClock),
        ("Xen version 4.11.", Kind::XenVersion(text("4.11"))),
        ("Xen version: 4.8.5 (preserve-AD)", Kind::XenVersion(text("4.8.5 (preserve-AD)"))),
        ("systemd[1]: Detected virtualization 'kvm'.", Kind::SystemdVirtualisation(text("kvm"))),
        ("Hyper-V Host Build:20348-10.0-3-0.3020", Kind::HyperV),
        ("Hyper-V: Invariant TSC is unavailable", Kind::HyperVNoInvariantTsc),
        (
            "smpboot: CPU0: AMD EPYC 7763 64-Core Processor (fam: 19, model: 01, stepping: 01)",
            cpu("AMD EPYC 7763 64-Core Processor", Some(0x19)),
        ),
        (
            "CPU: AMD Athlon(tm) 64 X2 Dual Core Processor 3800+ stepping 01",
            cpu("AMD Athlon(tm) 64 X2 Dual Core Processor 3800+", None),
        ),
        (
            "CPU0: AMD Opteron(tm) Processor 850 (family: 0xf, model: 0x5, stepping: 0xa)",
            cpu("AMD Opteron(tm) Processor 850", Some(15)),
        ),
        (
            "CPU0: AMD Opteron(tm) Processor 850 (family: 0x1",
            cpu("AMD Opteron(tm) Processor 850", None),
        ),
        (
            "CPU: ARMv7 Processor [410fc075] revision 5 (ARMv7), cr=10c5387d",
            cpu("ARMv7 Processor", None),
        ),
        ("smp: Brought up 2 nodes, 64 CPUs", Kind::CpusUp(64)),
        ("Brought up 4 CPUs", Kind::CpusUp(4)),
        ("x86: Booted up 1 node, 8 CPUs", Kind::CpusUp(8)),
        ("smpboot: Total of 2 processors activated (7317.28 BogoMIPS)", Kind::CpusUp(2)),
        ("CPU4 has been hot-added", Kind::HotAdded),
        ("PM: suspend entry (deep)", Kind::Suspended { woke: false }),
        ("PM: suspend exit", Kind::Suspended { woke: true }),
        ("ACPI: PM: Low-level resume complete", Kind::Suspended { woke: true }),
        ("PM: hibernation: hibernation exit", Kind::Suspended { woke: true }),
        ("CPU1: Booted secondary processor 0x0000000100 [0x410fd034]", Kind::ArmBoot),
        ("Booting Linux on physical CPU 0x0000000000 [0x410fd092]", Kind::ArmBoot),
        (
            "arch_timer: Enabling local workaround for ARM erratum 858921",
            Kind::ArmWorkaround(text("ARM erratum 858921")),
        ),
        (
            "arch_timer: Enabling global workaround for Freescale erratum a005858",
            Kind::ArmWorkaround(text("Freescale erratum a005858")),
        ),
        ("arch_timer: CPU5: Trapping CNTVCT access", Kind::ArmTrapping),
    ]);
}

#[test]
fn a_cut_number_or_name_is_none() {
    for line in [
        "Measured 669>",
        "Measured 669",
        "clocksource: Switched to clocksource acpi_p>",
        "clocksource: timekeeping watchdog on CPU2: Marking clocksource 'ts>",
        "clocksource: Marking clocksource ts>",
        "clocksource: 'tsc' cs_now: 1ca324f62cac cs_last: 1ca0b7>",
        "clocksource: 'tsc' cs_now: 1ca324f62cac cs_last: 1ca0b7",
        "clocksource: 'tsc' cs_nsec: 503646>",
        "clocksource: 'acpi_pm' wd_now: f4b7d>",
        "clocksource: tsc: mask: 0xffffffffffffffff max_cycles: 0x2f7a62>",
        "clocksource: tsc: mask: 0xffffffffffffffff max_cycles: 0x2f7a62, max_idle_ns: 4407>",
        "tsc: Refined TSC clocksource calibration: 3293.>",
        "tsc: Detected 3293.79>",
        "clocksource: Clocksource 'tsc' skewed -4855>",
        "Clocksource tsc unstable (delta = -46792>",
        "clocksource: Watchdog hpet interval: 50012>",
        "clocksource: timekeeping watchdog on CPU3: hpet read-back delay of 2210>",
        "clocksource: Measured 99999999999999999999999 cycles TSC warp between CPUs",
    ] {
        assert_eq!(kind(line), None, "{line}");
    }
}

#[test]
fn other_lines_say_nothing_of_clocks() {
    for line in [
        "",
        "APIC calibration not consistent with PM-Timer: 205ms instead of 100ms",
        "tsc: Fast TSC calibration using PIT",
        "TSC deadline timer enabled",
        "sched_clock: Marking stable (720435190, 0)->(1346767100, -626331910)",
        "kvm_intel: Using Hyper-V Enlightened VMCS",
        "CPU: 3 PID: 1234 Comm: stress Not tainted 6.1.0 #1",
        "microcode: CPU0: patch_level=0xffffffff",
        "hpet0: 8 comparators, 64-bit 14.318180 MHz counter",
        "acpi PNP0103: hpet resources",
        "watchdog: BUG: soft lockup - CPU#3 stuck for 22s!",
        "systemd[1]: Using hardware watchdog 'iTCO_wdt'",
        "PM: RTC time: 07:03:06, date: 2024-09-11",
        "(XEN) Command line: dom0_mem=4096M",
        "(XEN) Xen version 4.11.4",
        "mce: CPU0: Thermal monitoring enabled (TM1)",
        "i2c i2c-0: sensor read timed out",
        "ntpd: poll interval: 64s",
        "systemd[1]: Watchdog interval: 30s",
        "gcc says: Linux version 5.10 is not that of a boot",
    ] {
        assert_eq!(kind(line), None, "{line}");
    }
}

#[test]
fn a_folded_line_is_open() {
    for line in [
        "clocksource: timekeeping watchdog on CPU3: Marking clocksource 'tsc-early'",
        "clocksource:                       'hpet' wd_nsec: 503923392 wd_now:",
        "clocksource:                       'hpet' wd_now: fffb73f8 wd_last: fffb7200",
        "clocksource: tsc: mask: 0xffffffffffffffff max_cycles: 0x2f7a6248209,",
        "clocksource: tsc: mask: 0xffffffffffffffff max_cycles: 0x2f7a6248209, max_idle_ns:",
        "clocksource: Clocksource 'tsc' skewed 4687076445 ns (4687 ms) over",
        "clocksource: Switched to clocksource",
        // It may go on as `tsc-early`.
        "clocksource: Switched to clocksource tsc",
        "tsc: Marking TSC unstable due to",
    ] {
        assert!(is_open(line), "{line}");
    }
    for line in [
        "clocksource: Marking clocksource tsc unstable due to frequency skew",
        "clocksource: timekeeping watchdog: Marking clocksource 'tsc' as unstable because the skew is too large:",
        "clocksource: 'hpet' wd_now: fffb73f8 wd_last: fffb7200 mask: ffffffff",
        "clocksource: 'hpet' wd_now: fffb73f8 wd_last: fffb7>",
        "clocksource: tsc: mask: 0xff max_cycles: 0x2f, max_idle_ns: 440795359804 ns",
        "clocksource: Clocksource 'tsc' skewed 1 ns (0 ms) over watchdog 'hpet' interval of 5 ns (0 ms)",
        "clocksource: Switched to clocksource hpet",
    ] {
        assert!(!is_open(line), "{line}");
    }
}
