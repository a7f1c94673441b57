//! Machines that nobody recorded for us, written from what is known of their kind: what must be
//! said of them, and what must not.

use std::collections::BTreeSet;

use crate::root::{self, Root};
use crate::rules;

const CURRENT: &str = "sys/devices/system/clocksource/clocksource0/current_clocksource";
const AVAILABLE: &str = "sys/devices/system/clocksource/clocksource0/available_clocksource";
const LOG: &str = "var/log/dmesg";
const RELEASE: &str = "proc/sys/kernel/osrelease";
const CMDLINE: &str = "proc/cmdline";

/// The labels of a machine that has these files.
fn labels(files: &[(&str, &str)]) -> BTreeSet<String> {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = directory.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let facts = root::facts(&Root::open(directory.path()).unwrap());
    rules::examine(&facts).labels().into_iter().collect()
}

/// Holds the labels of a machine against `wanted`: words that must be there, and with `!` in front
/// those that must not.
#[track_caller]
fn check(files: &[(&str, &str)], wanted: &str) {
    let labels = labels(files);
    for word in wanted.split_whitespace() {
        match word.strip_prefix('!') {
            Some(word) => assert!(!labels.contains(word), "{word} is wrong: {labels:?}"),
            None => assert!(labels.contains(word), "{word} is missing: {labels:?}"),
        }
    }
}

/// Labels that no healthy machine gets.
const NO_ALARM: &str = "!state:slow !tsc-warp !tsc-watchdog-skew !tsc-absent !cause-needs-dmesg \
    !override-rejected !guest-lacks-invtsc !migration-risk !log-incomplete !tsc-refused \
    !needs-rate-measurement !nested-or-overloaded !vdso-support-depends-on-kernel \
    !tsc-available-not-selected !better-source-available !kvm-clock-no-vdso-suspected";

#[track_caller]
fn check_healthy(files: &[(&str, &str)], wanted: &str) {
    check(files, &format!("{wanted} {NO_ALARM}"));
}

/// Flags of a CPU as long as a real list.
fn cpuinfo(more: &str) -> String {
    let usual = "fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat pse36 clflush mmx fxsr sse sse2 ht";
    format!("processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: {usual} {more}\n")
}

#[test]
fn virtualbox_with_the_kvm_provider_is_healthy_and_virtualbox() {
    let log = "[    0.000000] Linux version 5.10.0-20-amd64 (debian-kernel@lists.debian.org)\n\
        [    0.000000] DMI: innotek GmbH VirtualBox/VirtualBox, BIOS VirtualBox 12/01/2006\n\
        [    0.000000] Hypervisor detected: KVM\n\
        [    0.000000] kvm-clock: Using msrs 4b564d01 and 4b564d00\n\
        [    0.000002] clocksource: kvm-clock: mask: 0xffffffffffffffff max_cycles: 0x1cd42e4dffb, max_idle_ns: 881590591483 ns\n\
        [    0.300000] clocksource: Switched to clocksource kvm-clock\n";
    check_healthy(
        &[(LOG, log)],
        "state:fast source:kvm-clock platform:virtualbox kvm-clock-present !platform:kvm",
    );
}

#[test]
fn virtualbox_without_a_provider_loses_tsc_to_a_warp() {
    let log = "[    0.000000] Linux version 3.16.0-4-amd64 (debian-kernel@lists.debian.org)\n\
        [    0.000000] DMI: innotek GmbH VirtualBox/VirtualBox, BIOS VirtualBox 12/01/2006\n\
        [    0.100000] TSC synchronization [CPU#0 -> CPU#1]:\n\
        [    0.100000] Measured 66930 cycles TSC warp between CPUs, turning off TSC clock.\n\
        [    0.100000] tsc: Marking TSC unstable due to check_tsc_sync_source failed\n\
        [    1.012000] Switched to clocksource acpi_pm\n";
    check(
        &[(LOG, log)],
        "platform:virtualbox source:acpi_pm state:slow old-kernel !platform:bare-metal !cause-needs-dmesg",
    );
}

#[test]
fn a_kvm_guest_with_an_invariant_tsc_is_healthy_on_tsc() {
    let log = "[    0.000000] Linux version 6.1.0-18-amd64 (debian-kernel@lists.debian.org)\n\
        [    0.000000] DMI: QEMU Standard PC (i440FX + PIIX, 1996), BIOS 1.16.2 04/01/2014\n\
        [    0.000000] Hypervisor detected: KVM\n\
        [    0.000000] kvm-clock: Using msrs 4b564d01 and 4b564d00\n\
        [    0.000002] clocksource: kvm-clock: mask: 0xffffffffffffffff max_cycles: 0x1cd42e4dffb, max_idle_ns: 881590591483 ns\n\
        [    0.000004] tsc: Detected 2400.000 MHz processor\n\
        [    0.200000] clocksource: Switched to clocksource tsc-early\n\
        [    1.500000] clocksource: Switched to clocksource tsc\n";
    check_healthy(
        &[(LOG, log)],
        "state:fast source:tsc platform:kvm platform:qemu kvm-clock-present early-switch-benign",
    );
}

#[test]
fn a_kvm_guest_whose_tsc_is_missing_may_read_kvm_clock_by_system_call() {
    check(
        &[
            (RELEASE, "5.15.0-91-generic\n"),
            (CURRENT, "kvm-clock\n"),
            (AVAILABLE, "kvm-clock acpi_pm \n"),
        ],
        "state:unknown source:kvm-clock platform:kvm kvm-clock-no-vdso-suspected tsc-absent \
         cause-needs-dmesg !state:slow !state:fast",
    );
}

#[test]
fn a_kvm_guest_with_tsc_beside_kvm_clock_is_healthy() {
    check_healthy(
        &[
            (RELEASE, "5.15.0-91-generic\n"),
            (CURRENT, "kvm-clock\n"),
            (AVAILABLE, "kvm-clock tsc acpi_pm \n"),
        ],
        "state:fast source:kvm-clock kvm-clock-present",
    );
}

#[test]
fn kvm_clock_of_a_2_6_32_guest_is_a_system_call() {
    check(
        &[
            (RELEASE, "2.6.32-754.el6.x86_64\n"),
            (CURRENT, "kvm-clock\n"),
            (AVAILABLE, "kvm-clock tsc acpi_pm \n"),
        ],
        "state:slow source:kvm-clock old-kernel",
    );
}

#[test]
fn a_qemu_cpu_without_invariant_tsc_is_refused_unseen() {
    let log = "[    0.000000] Linux version 5.10.0 (root@build)\n\
        [    0.000000] DMI: QEMU Standard PC (Q35 + ICH9, 2009), BIOS 1.13.0 04/01/2014\n\
        [    0.010000] smpboot: CPU0: AMD QEMU Virtual CPU version 2.5+ (family: 0x6, model: 0x6, stepping: 0x3)\n\
        [    0.200000] tsc: Marking TSC unstable due to TSCs unsynchronized\n\
        [    0.400000] clocksource: Switched to clocksource hpet\n";
    check(
        &[(LOG, log)],
        "platform:qemu source:hpet state:slow guest-lacks-invtsc !platform:bare-metal !fix:tsc=reliable \
         !fix:tsc=nowatchdog !cause-needs-dmesg",
    );
}

#[test]
fn an_unsynchronized_tsc_does_not_take_kvm_clock_from_the_vdso() {
    let log = "[    0.000000] Hypervisor detected: KVM\n\
        [    0.000000] kvm-clock: Using msrs 4b564d01 and 4b564d00\n\
        [    0.200000] tsc: Marking TSC unstable due to TSCs unsynchronized\n\
        [    0.400000] clocksource: Switched to clocksource kvm-clock\n";
    check(
        &[(LOG, log)],
        "state:fast source:kvm-clock guest-lacks-invtsc !kvm-clock-no-vdso-suspected !state:slow",
    );
}

#[test]
fn hyper_v_by_register_is_slow_and_the_mark_is_not_why() {
    let log = "[    0.000000] Linux version 6.6.0 (root@build)\n\
        [    0.000000] Hypervisor detected: Microsoft Hyper-V\n\
        [    0.000000] Hyper-V: Host Build 10.0.20348.1-0-0\n\
        [    0.000000] tsc: Marking TSC unstable due to running on Hyper-V\n\
        [    0.500000] clocksource: Switched to clocksource hyperv_clocksource_msr\n";
    check(
        &[(LOG, log)],
        "platform:hyperv source:hyperv_clocksource_msr state:slow hyperv-tsc-unstable-benign !tsc-absent \
         !platform:azure",
    );
}

#[test]
fn the_register_on_hyper_v_stands_back_for_the_page() {
    check(
        &[
            (RELEASE, "5.15.0-1050-azure\n"),
            (CURRENT, "hyperv_clocksource_msr\n"),
            (AVAILABLE, "hyperv_clocksource_tsc_page hyperv_clocksource_msr acpi_pm \n"),
        ],
        "platform:hyperv platform:azure state:slow better-source-available !tsc-absent !cause-needs-dmesg",
    );
}

#[test]
fn an_azure_guest_of_rhel_8_reads_the_page_by_the_vdso() {
    check_healthy(
        &[
            (RELEASE, "4.18.0-513.el8.x86_64\n"),
            (CURRENT, "hyperv_clocksource_tsc_page\n"),
            (AVAILABLE, "hyperv_clocksource_tsc_page acpi_pm \n"),
            ("sys/class/dmi/id/sys_vendor", "Microsoft Corporation\n"),
            ("sys/class/dmi/id/product_name", "Virtual Machine\n"),
        ],
        "state:fast platform:hyperv",
    );
}

#[test]
fn xen_before_4_16_depends_on_the_vendor() {
    let log = "[    0.000000] Linux version 4.9.0-19-amd64 (debian-kernel@lists.debian.org)\n\
        [    0.000000] DMI: Xen HVM domU, BIOS 4.2.amazon 08/24/2006\n\
        [    0.000000] Hypervisor detected: Xen\n\
        [    0.700000] clocksource: xen: mask: 0xffffffffffffffff max_cycles: 0x1cd42e4dffb, max_idle_ns: 881590591483 ns\n\
        [    1.700000] clocksource: Switched to clocksource xen\n";
    check(
        &[(LOG, log), (CURRENT, "xen\n"), (AVAILABLE, "xen tsc hpet acpi_pm \n")],
        "source:xen state:slow-unless-pvclock-vdso platform:xen platform:aws vdso-support-depends-on-kernel \
         tsc-available-not-selected !tsc-absent !cause-needs-dmesg",
    );
}

#[test]
fn an_ec2_xen_guest_on_tsc_is_healthy() {
    check_healthy(
        &[
            (RELEASE, "4.14.336-253.554.amzn2.x86_64\n"),
            (CURRENT, "tsc\n"),
            (AVAILABLE, "xen tsc hpet acpi_pm \n"),
            ("sys/hypervisor/type", "xen\n"),
            (CMDLINE, "root=/dev/xvda1 clocksource=tsc tsc=reliable\n"),
        ],
        "state:fast source:tsc platform:xen platform:aws param-tsc-reliable param-clocksource",
    );
}

#[test]
fn a_xen_guest_that_sleeps_keeps_its_clock() {
    let log = "[    0.000000] Linux version 6.1.62-1.qubes.fc37.x86_64 (builder@build)\n\
        [    0.000000] Hypervisor detected: Xen PV\n\
        [    0.100000] clocksource: Switched to clocksource xen\n\
        [ 5000.000000] PM: suspend entry (s2idle)\n\
        [ 5001.000000] PM: suspend exit\n";
    check(
        &[(LOG, log), (AVAILABLE, "xen tsc \n")],
        "source:xen state:slow-unless-pvclock-vdso platform:xen !fix:switch-to-tsc !fix:clocksource=tsc",
    );
}

#[test]
fn nitro_on_tsc_is_healthy() {
    check_healthy(
        &[
            (RELEASE, "6.1.115-126.197.amzn2023.x86_64\n"),
            (CURRENT, "tsc\n"),
            (AVAILABLE, "tsc kvm-clock acpi_pm \n"),
            ("sys/class/dmi/id/sys_vendor", "Amazon EC2\n"),
            ("sys/class/dmi/id/product_name", "m6i.large\n"),
            (CMDLINE, "clocksource=tsc tsc=reliable\n"),
        ],
        "state:fast source:tsc platform:aws platform:kvm kvm-clock-present param-tsc-reliable",
    );
}

#[test]
fn graviton_is_healthy_on_the_architected_counter() {
    let log = "[    0.000000] Booting Linux on physical CPU 0x0000000000 [0x413fd0c1]\n\
        [    0.000000] Linux version 6.1.0-aws (buildd@bos) (aarch64-linux-gnu-gcc)\n\
        [    0.000000] DMI: Amazon EC2 m6g.large/, BIOS 1.0 11/1/2018\n\
        [    0.000000] arch_timer: Enabling global workaround for ARM erratum 1418040\n\
        [    0.000000] arch_timer: cp15 timer(s) running at 121.87MHz (virt).\n\
        [    0.000000] clocksource: arch_sys_counter: mask: 0x1ffffffffffffff max_cycles: 0x383625ea23, max_idle_ns: 881590406920 ns\n\
        [    0.200000] clocksource: Switched to clocksource arch_sys_counter\n";
    check_healthy(
        &[(LOG, log)],
        "state:fast source:arch_sys_counter platform:aws platform:arm64 arm-erratum-compat-only \
         !arm-erratum-vdso-off !platform:firecracker",
    );
}

#[test]
fn one_bad_cluster_takes_the_counter_from_all() {
    let log = "[    0.000000] Booting Linux on physical CPU 0x0000000000 [0x410fd082]\n\
        [    0.000000] arch_timer: Enabling global workaround for Freescale erratum a005858\n\
        [    0.000000] clocksource: arch_sys_counter: mask: 0xffffffffffffff max_cycles: 0x5c40939b5, max_idle_ns: 440795202646 ns\n";
    check(
        &[(LOG, log)],
        "state:slow source:arch_sys_counter arm-erratum-vdso-off !arm-cntvct-trapped !arm-erratum-compat-only",
    );
}

#[test]
fn a_32_bit_arm_without_the_armv7_timer_has_no_clocks_in_its_vdso() {
    let cpu = "processor\t: 0\nmodel name\t: ARMv7 Processor rev 4 (v7l)\nFeatures\t: half thumb fastmult vfp edsp neon\nCPU architecture: 7\n";
    let bad = "proc/device-tree/timer/arm,cpu-registers-not-fw-configured";
    check(
        &[("proc/cpuinfo", cpu), (CURRENT, "arch_sys_counter\n"), (bad, "")],
        "state:slow source:arch_sys_counter platform:arm32 arm32-vdso-off",
    );
    check(
        &[
            ("proc/cpuinfo", cpu),
            (CURRENT, "arch_sys_counter\n"),
            ("proc/device-tree/timer/compatible", "arm,armv7-timer\0"),
        ],
        "state:fast platform:arm32 !arm32-vdso-off !tsc-absent",
    );
}

#[test]
fn gce_is_healthy_on_either_clock() {
    for current in ["kvm-clock", "tsc"] {
        let files = [
            (RELEASE, "6.1.0-18-cloud-amd64\n"),
            (CURRENT, current),
            (AVAILABLE, "kvm-clock tsc acpi_pm \n"),
            ("sys/class/dmi/id/product_name", "Google Compute Engine\n"),
        ];
        check_healthy(&files, "state:fast platform:gce platform:kvm kvm-clock-present");
    }
}

#[test]
fn a_chromebook_is_no_cloud() {
    let log = "[    0.000000] Linux version 6.6.30 (chrome-bot@build)\n\
        [    0.000000] DMI: Google Eve/Eve, BIOS MrChromebox 01/01/2023\n\
        [    1.500000] clocksource: Switched to clocksource tsc\n";
    check_healthy(&[(LOG, log)], "state:fast !platform:gce !platform:kvm");
}

#[test]
fn wsl_2_has_to_be_measured_though_fast() {
    check(
        &[
            (
                "proc/version",
                "Linux version 5.15.153.1-microsoft-standard-WSL2 (root@941d701f84f1) (gcc) #1 SMP\n",
            ),
            (CURRENT, "hyperv_clocksource_tsc_page\n"),
            (AVAILABLE, "hyperv_clocksource_tsc_page acpi_pm \n"),
        ],
        "state:fast platform:wsl platform:hyperv needs-rate-measurement !tsc-absent !platform:azure !state:slow",
    );
}

#[test]
fn firecracker_is_fast_and_snapshots_leave_the_clock_behind() {
    let log = "[    0.000000] Linux version 5.10.198 (root@build)\n\
        [    0.000000] Command line: console=ttyS0 reboot=k panic=1 pci=off\n\
        [    0.000000] DMI not present or invalid.\n\
        [    0.000000] Hypervisor detected: KVM\n\
        [    0.000000] kvm-clock: Using msrs 4b564d01 and 4b564d00\n\
        [    0.070000] clocksource: Switched to clocksource kvm-clock\n\
        [    1.200000] clocksource: Switched to clocksource tsc\n";
    check_healthy(
        &[(LOG, log)],
        "state:fast source:tsc platform:firecracker platform:kvm snapshot-restore-risk kvm-clock-present",
    );
}

#[test]
fn the_mac_under_docker_desktop_slept() {
    let log = "[    0.000000] Linux version 4.19.121-linuxkit (root@18b3f92ade35)\n\
        [    0.000000] DMI:  BHYVE, BIOS 1.00 03/14/2014\n\
        [    0.900000] clocksource: Switched to clocksource tsc\n\
        [  872.777059] clocksource: timekeeping watchdog on CPU2: Marking clocksource 'tsc' as unstable because the skew is too large:\n\
        [  872.783568] clocksource: Switched to clocksource hpet\n";
    check(
        &[(LOG, log)],
        "platform:hyperkit source:hpet state:slow !platform:bhyve !platform:bare-metal !cause-needs-dmesg",
    );
}

#[test]
fn tsc_refused_by_parameter_needs_no_log() {
    for word in ["notsc", "tsc=unstable"] {
        let files = [
            (RELEASE, "5.15.0-91-generic\n"),
            (CURRENT, "hpet\n"),
            (AVAILABLE, "hpet acpi_pm \n"),
            (CMDLINE, word),
        ];
        check(&files, "state:slow source:hpet param-tsc-unstable tsc-absent !cause-needs-dmesg");
    }
}

#[test]
fn without_the_vdso_even_tsc_is_slow() {
    check(
        &[(CURRENT, "tsc\n"), (AVAILABLE, "tsc hpet acpi_pm \n"), (CMDLINE, "ro vdso=0\n")],
        "state:slow source:tsc param-vdso !tsc-available-not-selected",
    );
    check(
        &[(CURRENT, "tsc\n"), (CMDLINE, "ro vdso32=0 vsyscall=none\n")],
        "state:fast param-vsyscall",
    );
}

#[test]
fn a_guest_told_to_do_without_its_hypervisors_clock() {
    check(
        &[
            (RELEASE, "5.4.0-100-generic\n"),
            (CURRENT, "hpet\n"),
            (AVAILABLE, "hpet acpi_pm \n"),
            (CMDLINE, "ro no-kvmclock\n"),
            ("sys/class/dmi/id/sys_vendor", "QEMU\n"),
        ],
        "state:slow platform:qemu param-no-paravirtual-clock tsc-absent cause-needs-dmesg !platform:kvm",
    );
}

#[test]
fn hpet_by_the_command_line_while_tsc_is_good() {
    check(
        &[
            (RELEASE, "6.1.0\n"),
            (CURRENT, "hpet\n"),
            (AVAILABLE, "tsc hpet acpi_pm \n"),
            (CMDLINE, "ro quiet clocksource=hpet\n"),
        ],
        "state:slow source:hpet param-clocksource tsc-available-not-selected !tsc-absent !cause-needs-dmesg \
         !param-clocksource-unavailable",
    );
}

#[test]
fn acpi_pm_while_hpet_is_there() {
    check(
        &[(RELEASE, "5.10.0\n"), (CURRENT, "acpi_pm\n"), (AVAILABLE, "hpet acpi_pm \n")],
        "state:slow better-source-available tsc-absent cause-needs-dmesg !tsc-available-not-selected",
    );
}

#[test]
fn a_parameter_names_a_clocksource_that_is_not_there() {
    check(
        &[
            (RELEASE, "5.10.0\n"),
            (CURRENT, "tsc\n"),
            (AVAILABLE, "tsc hpet acpi_pm \n"),
            (CMDLINE, "clocksource=kvm-clock\n"),
        ],
        "state:fast source:tsc param-clocksource param-clocksource-unavailable !kvm-clock-present !platform:kvm",
    );
}

#[test]
fn jiffies_lose_time() {
    check(
        &[(CURRENT, "jiffies\n"), (AVAILABLE, "jiffies \n"), (RELEASE, "4.14.0\n")],
        "state:slow rate-risk-ticks tsc-absent cause-needs-dmesg",
    );
}

#[test]
fn a_healthy_laptop_switches_early() {
    let log = "[    0.000000] Linux version 6.5.0-14-generic (buildd@lcy02-amd64-110)\n\
        [    0.000000] DMI: LENOVO 20XW/20XW, BIOS N32ET75W 08/18/2022\n\
        [    0.000000] tsc: Fast TSC calibration failed\n\
        [    0.000000] tsc: Detected 2800.000 MHz processor\n\
        [    0.000000] tsc: Detected 2803.200 MHz TSC\n\
        [    0.100000] Booting paravirtualized kernel on bare hardware\n\
        [    0.300000] hpet: HPET dysfunctional in PC10. Force disabled.\n\
        [    0.400000] clocksource: Switched to clocksource tsc-early\n\
        [    1.600000] clocksource: Switched to clocksource tsc\n";
    check_healthy(
        &[(LOG, log)],
        "state:fast source:tsc platform:bare-metal early-switch-benign calibration-note-benign \
         hpet-pc10-benign",
    );
}

#[test]
fn hpet_in_the_first_second_is_no_result() {
    let log = "[    0.000000] Linux version 3.10.0 (root@build)\n\
        [    0.000000] DMI: Dell Inc. OptiPlex 790/0HY9JP, BIOS A05 07/29/2011\n\
        [    0.300000] Switched to clocksource hpet\n";
    check(
        &[(LOG, log)],
        "platform:bare-metal old-kernel !source:hpet !state:slow !cause-needs-dmesg",
    );
    let later = format!("{log}[    1.400000] Switched to clocksource tsc\n");
    check_healthy(&[(LOG, &later)], "source:tsc state:fast early-switch-benign");
}

#[test]
fn a_mark_of_7_1_after_the_last_switch_ends_the_fast_state() {
    let log = "[    0.000000] Linux version 7.1.0 (root@build)\n\
        [    0.000000] DMI: LENOVO 21CF/21CF, BIOS R23 01/01/2026\n\
        [    1.500000] clocksource: Switched to clocksource tsc\n\
        [  600.000000] clocksource: Marking clocksource tsc unstable due to frequency skew\n\
        [  600.000001] clocksource: Watchdog     hpet interval:     500000000ns\n\
        [  600.000002] clocksource: Clocksource   tsc interval:     501000000ns\n";
    check(
        &[(LOG, log)],
        "state:slow platform:bare-metal !state:fast !source:tsc !early-switch-benign",
    );
}

#[test]
fn xen_goes_on_where_the_kernel_says_that_tsc_was_not_current() {
    let log = "[   10.000000] clocksource: timekeeping watchdog on CPU1: Marking clocksource 'tsc' as unstable because the skew is too large:\n\
        [   10.000001] clocksource:                       'xen' wd_nsec: 503246106 wd_now: 74ca94f19b5 wd_last: 74c466e112f mask: ffffffffffffffff\n\
        [   10.000002] clocksource:                       'tsc' cs_nsec: 503646106 cs_now: 74ca94f19b5 cs_last: 74c466e112f mask: ffffffffffffffff\n\
        [   10.000003] clocksource:                       'xen' (not 'tsc') is current clocksource.\n";
    check(&[(LOG, log)], "source:xen state:slow-unless-pvclock-vdso !state:fast");
}

#[test]
fn an_override_that_the_kernel_refused() {
    let log = "[ 9000.000000] clocksource: Switched to clocksource hpet\n\
        [ 9100.000000] clocksource: Override clocksource tsc is unstable and not HRT compatible - cannot switch while in HRT/NOHZ mode\n";
    check(
        &[(LOG, log)],
        "source:hpet state:slow override-rejected !early-switch-benign !fix:switch-to-tsc",
    );
}

#[test]
fn vmware_with_and_without_guest_support() {
    let good = "[    0.000000] DMI: VMware, Inc. VMware Virtual Platform/440BX Desktop Reference Platform, BIOS 6.00 12/12/2018\n\
        [    0.000000] Hypervisor detected: VMware\n\
        [    0.000000] vmware: TSC freq read from hypervisor : 2394.000 MHz\n\
        [    1.000000] clocksource: Switched to clocksource tsc\n";
    check_healthy(
        &[(LOG, good)],
        "state:fast platform:vmware tsc-trusted-by-hypervisor !vmware-guest-support-missing",
    );
    let bad = "[    0.000000] DMI: VMware, Inc. VMware Virtual Platform/440BX Desktop Reference Platform, BIOS 6.00 12/12/2018\n\
        [  100.000000] clocksource: timekeeping watchdog on CPU0: Marking clocksource 'tsc' as unstable because the skew is too large:\n\
        [  100.000100] tsc: Marking TSC unstable due to clocksource watchdog\n\
        [  100.001000] clocksource: Switched to clocksource acpi_pm\n";
    check(
        &[(LOG, bad)],
        "state:slow platform:vmware vmware-guest-support-missing !tsc-trusted-by-hypervisor",
    );
}

#[test]
fn a_reliable_tsc_moves_with_its_guest() {
    let moved = [(CMDLINE, "tsc=reliable\n"), ("sys/class/dmi/id/sys_vendor", "QEMU\n")];
    check(&moved, "param-tsc-reliable migration-risk !fix:tsc=reliable");
    let with_clock = [(CMDLINE, "tsc=reliable\n"), (CURRENT, "kvm-clock\n")];
    check(&with_clock, "param-tsc-reliable !migration-risk");
    let own = [
        (CMDLINE, "tsc=reliable\n"),
        ("sys/class/dmi/id/sys_vendor", "Dell Inc.\n"),
        (CURRENT, "tsc\n"),
    ];
    check(&own, "param-tsc-reliable platform:bare-metal state:fast !migration-risk");
}

#[test]
fn flags_tell_a_machine_of_its_own() {
    let own = cpuinfo("constant_tsc nonstop_tsc rdtscp tsc_adjust");
    check_healthy(
        &[("proc/cpuinfo", &own), (CURRENT, "tsc\n")],
        "platform:bare-metal !missing-nonstop_tsc",
    );
    let guest = cpuinfo("constant_tsc hypervisor");
    check(
        &[("proc/cpuinfo", &guest), (CURRENT, "tsc\n")],
        "state:fast missing-nonstop_tsc !platform:bare-metal !guest-lacks-invtsc",
    );
}

#[test]
fn nothing_is_said_of_nothing() {
    let nothing = labels(&[]);
    assert_eq!(nothing, BTreeSet::from(["state:unknown".to_owned()]));
}

#[test]
fn a_record_that_only_one_platform_prints_names_it() {
    for (line, platform) in [
        (
            "clocksource: 'kvm-clock' wd_nsec: 511 wd_now: 1b wd_last: 1a mask: ffffffffffffffff",
            "kvm",
        ),
        ("clocksource: Watchdog               kvm-clock interval:           512000000ns", "kvm"),
        ("Override clocksource kvm-clock is not currently HRT compatible - deferring", "kvm"),
        ("kvm-guest: PV spinlocks enabled", "kvm"),
        (
            "smccc: KVM: hypervisor services detected (0x00000000 0x00000000 0x00000000 0x00000003)",
            "kvm",
        ),
        ("Xen: [mem 0x0000000000000000-0x000000000009ffff] usable", "xen"),
        ("xen:events: Xen HVM callback vector for event delivery is enabled", "xen"),
        ("suspending xenstore...", "unseen"),
        ("vmware: hypercall mode: 0x02", "vmware"),
        ("hv_netvsc 0a1b: VF registering: eth1", "hyperv"),
        ("vboxguest: loading out-of-tree module taints kernel.", "virtualbox"),
        ("ACPI: RSDP 0x00000000000F05B0 000014 (v00 BOCHS )", "qemu"),
        ("ACPI: RSDP 0x00000000000F0480 000024 (v02 VRTUAL)", "hyperv"),
        ("ACPI: RSDP 0x00000000000F0480 000024 (v02 ALASKA)", "unseen"),
        ("CPU features: detected: Spectre-v4", "arm64"),
        ("Detected PIPT I-cache on CPU1", "arm64"),
        ("riscv_timer_init_dt: Registering clocksource cpuid [0] hartid [3]", "riscv64"),
        (
            "clocksource: riscv_clocksource: mask: 0xffffffffffffffff max_cycles: 0x1d854df40, max_idle_ns: 7 ns",
            "riscv64",
        ),
    ] {
        let found = labels(&[(LOG, &format!("[    0.000000] {line}\n"))]);
        let said: Vec<&str> =
            found.iter().filter_map(|label| label.strip_prefix("platform:")).collect();
        let wanted = if platform == "unseen" { vec![] } else { vec![platform] };
        assert_eq!(said, wanted, "{line}");
    }
}

#[test]
fn a_platform_that_keeps_the_tsc_vouches_for_it() {
    for line in [
        "tdx: Guest detected",
        "Memory Encryption Features active: Intel TDX",
        "SEV: Status: SEV SEV-ES SEV-SNP SecureTSC ",
        "systemd[1]: Detected confidential virtualization tdx.",
    ] {
        check(
            &[(LOG, &format!("[    0.000000] {line}\n"))],
            "tsc-trusted-by-hypervisor !platform:bare-metal",
        );
    }
    for line in [
        "Memory Encryption Features active: AMD SEV SEV-ES SEV-SNP",
        "Memory Encryption Features active: AMD SME",
        "virt/tdx: BIOS enabled: private KeyID range [32, 64)",
        "SEV: SNP running at VMPL0.",
    ] {
        check(&[(LOG, &format!("[    0.000000] {line}\n"))], "!tsc-trusted-by-hypervisor");
    }
}

#[test]
fn a_guest_without_any_timer_to_measure_against_is_no_alarm_where_its_hypervisor_has_a_clock() {
    let lost = "[    0.000000] Hypervisor detected: Microsoft Hyper-V\n\
        [    0.000000] tsc: Unable to calibrate against PIT\n\
        [    0.000000] tsc: No reference (HPET/PMTIMER) available\n\
        [    0.000000] tsc: Marking TSC unstable due to could not calculate TSC khz\n";
    let page = "[    1.000000] clocksource: Switched to clocksource hyperv_clocksource_tsc_page\n";
    let well = format!("[    0.000000] Linux version 6.8.0-1029-azure (a)\n{lost}{page}");
    check_machine_exit(&well, 0);
    let ticks = "[   20.000000] clocksource: Switched to clocksource refined-jiffies\n";
    let sick = format!("[    0.000000] Linux version 6.8.0-1029-azure (a)\n{lost}{ticks}");
    check(&[(LOG, &sick)], "tsc-refused platform:hyperv !fix:tsc=reliable");
}

#[track_caller]
fn check_machine_exit(log: &str, status: i32) {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(directory.path().join("var/log")).unwrap();
    std::fs::write(directory.path().join(LOG), log).unwrap();
    let facts = root::facts(&Root::open(directory.path()).unwrap());
    let report = crate::report::model::DoctorReport::new(&facts, &rules::examine(&facts));
    assert_eq!(report.exit_status(), status, "{:?}", report.labels);
}

#[test]
fn a_guest_that_xen_moved_and_that_lost_its_tsc_then_lost_it_by_that() {
    let log = "[    0.000000] Linux version 6.1.0-20-amd64 (a)\n\
        [    0.000000] Hypervisor detected: Xen HVM\n\
        [    2.000000] clocksource: Switched to clocksource tsc\n\
        [90000.000000] suspending xenstore...\n\
        [90001.000000] clocksource: timekeeping watchdog on CPU2: Marking clocksource 'tsc' as unstable because the skew is too large:\n\
        [90001.000000] tsc: Marking TSC unstable due to clocksource watchdog\n\
        [90001.100000] clocksource: Switched to clocksource xen\n";
    check(&[(LOG, log)], "after-resume tsc-watchdog-skew source:xen platform:xen");
}

#[test]
fn riscv_is_fast_where_its_vdso_reads_the_counter() {
    let log = "[    0.000000] clocksource: riscv_clocksource: mask: 0xffffffffffffffff max_cycles: 0x1d854df40, max_idle_ns: 7 ns\n";
    let files = |release| vec![(LOG, log), (CURRENT, "riscv_clocksource\n"), (RELEASE, release)];
    check(&files("6.6.0-riscv64\n"), "state:fast platform:riscv64");
    check(&files("5.4.0\n"), "state:unknown platform:riscv64");
}

#[test]
fn what_the_watchdog_of_7_1_says_is_judged_with_its_figures_and_without() {
    let mark =
        "[  100.000000] clocksource: Marking clocksource tsc unstable due to frequency skew\n";
    let figures = |watchdog: &str, counted: &str| {
        format!(
            "{mark}[  100.000001] clocksource: Watchdog                    hpet interval: {watchdog:>16}ns\n\
             [  100.000002] clocksource: Clocksource                  tsc interval: {counted:>16}ns\n"
        )
    };
    // The figures are cut off.
    check(&[(LOG, mark)], "tsc-watchdog-skew needs-rate-measurement");
    // Two checks at nearly the same time: noise.
    check(
        &[(LOG, &figures("1200", "1390"))],
        "tsc-watchdog-short-interval watchdog-false-positive-likely !needs-rate-measurement",
    );
    check(&[(LOG, &figures("512000000", "512010000"))], "watchdog-false-positive-likely");
    check(&[(LOG, &figures("512000000", "512400000"))], "needs-rate-measurement");
    let apart = "[  100.000000] clocksource: Marking clocksource tsc unstable due to inter CPU skew\n\
        [  100.000001] clocksource: CPU1  171234567890123 < CPU2  171234567999999 (cycles)\n";
    check(&[(LOG, apart)], "tsc-warp-runtime per-cpu-sync-suspicious !needs-rate-measurement");
}

#[test]
fn red_hats_kernel_6_names_a_difference_and_keeps_the_tsc() {
    let log = "[2423264.824259] Clocksource tsc unstable (delta = 6824818792 ns).  Enable clocksource \
        failover by adding clocksource_failover kernel parameter.\n";
    check(
        &[(LOG, log), (CURRENT, "kvm-clock\n"), (AVAILABLE, "kvm-clock tsc acpi_pm \n")],
        "source:kvm-clock watchdog-noise !tsc-watchdog-skew !fix:reboot !fix:measure !tsc-absent",
    );
}

#[test]
fn a_cpu_that_drifts_is_known_by_its_family_or_by_its_name() {
    let tsc = [(CURRENT, "hpet\n"), (AVAILABLE, "tsc hpet acpi_pm \n")];
    let with = |more: &[(&'static str, &str)], wanted: &str| {
        let files: Vec<(&str, &str)> = tsc.iter().chain(more).copied().collect();
        check(&files, wanted);
    };
    let never = "fix:keep !fix:switch-to-tsc !fix:clocksource=tsc !fix:measure !fix:tsc=nowatchdog";
    let log = "[    0.000000] Linux version 2.6.26 (root@build)\n\
        [    0.010000] CPU0: AMD Athlon(tm) 64 X2 Dual Core Processor 4600+ stepping 02\n";
    with(&[(LOG, log)], never);
    let usual = "fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat pse36 clflush mmx fxsr sse sse2 ht";
    let cpu = |name: &str, more: &str| {
        format!(
            "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 15\nmodel name\t: {name}\nflags\t\t: {usual} {more}\n"
        )
    };
    with(&[("proc/cpuinfo", &cpu("AMD Opteron(tm) Processor 250", ""))], never);
    // QEMU's own CPU calls itself that family: of the real one nothing is known.
    let open = "fix:measure fix:switch-to-tsc !fix:keep";
    with(&[("proc/cpuinfo", &cpu("QEMU Virtual CPU version 2.5+", "hypervisor"))], open);
    // A parameter that keeps such a TSC away stays, and no measurement makes it good.
    let asked = [
        ("proc/cpuinfo", &cpu("AMD Opteron(tm) Processor 250", "")[..]),
        (CMDLINE, "clocksource=hpet\n"),
    ];
    with(&asked, "fix:keep !fix:remove-parameter !fix:switch-to-tsc");
}

/// `print_cpu_info` in `arch/x86/kernel/cpu/common.c`: 6.12, 3.2, 2.6.32.
#[test]
fn the_log_alone_tells_a_cpu_that_drifts() {
    let with = |cpu: &str, more: &str, wanted: &str| {
        let log = format!("[    0.000000] Linux version 6.1.0 (a)\n[    0.010000] {cpu}\n{more}");
        check(&[(LOG, &log), (CURRENT, "hpet\n"), (AVAILABLE, "tsc hpet acpi_pm \n")], wanted);
    };
    let never = "fix:keep !fix:switch-to-tsc !fix:clocksource=tsc !fix:measure !fix:tsc=nowatchdog";
    let open = "fix:measure fix:switch-to-tsc !fix:keep";
    for cpu in [
        "smpboot: CPU0: AMD Athlon(tm) 64 X2 Dual Core Processor 4200+ (family: 0xf, model: 0x2b, stepping: 0x1)",
        "smpboot: CPU0: AMD Opteron(tm) Processor 850 (family: 0xf, model: 0x5, stepping: 0xa)",
        "CPU0: AMD Engineering Sample (fam: 0f, model: 41, stepping: 03)",
        "CPU0: AMD Athlon(tm) 64 X2 Dual Core Processor 4200+ stepping 02",
    ] {
        with(cpu, "", never);
        // A guest's TSC is what its host makes of it.
        with(cpu, "[    0.020000] Hypervisor detected: KVM\n", open);
    }
    for cpu in [
        // Piledriver, under a name of K8's.
        "smpboot: CPU0: AMD Athlon(tm) X2 340 Dual Core Processor (family: 0x15, model: 0x10, stepping: 0x1)",
        "smpboot: CPU0: AMD Opteron(tm) Processor 6174 (fam: 10, model: 09, stepping: 01)",
        "smpboot: CPU0: Intel(R) Pentium(R) D CPU 2.80GHz (family: 0xf, model: 0x4, stepping: 0x7)",
        "CPU0: AMD Opteron(tm) Processor 6174 stepping 01",
    ] {
        with(cpu, "", open);
    }
}

#[test]
fn who_keeps_the_tsc_vouches_for_it() {
    let tsc = [(CURRENT, "hpet\n"), (AVAILABLE, "tsc hpet acpi_pm \n")];
    let log = "[    0.000000] vmware: TSC freq read from hypervisor : 2394.230 MHz\n";
    check(&[tsc[0], tsc[1], (LOG, log)], "fix:switch-to-tsc !fix:measure");
    check(&tsc, "fix:switch-to-tsc fix:measure");
}
