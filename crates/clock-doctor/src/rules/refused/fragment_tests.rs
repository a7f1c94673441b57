//! Fragments of logs in which the TSC is refused, with labels that must and must not result.

use crate::rules::catalogue::{Fix, Label};
use crate::rules::watchdog::fragment_tests::expect;

const WARP: &str = "turning off TSC clock.\n[ 0.1] tsc: Marking TSC unstable due to check_tsc_sync_source failed\n";

#[track_caller]
fn log(text: &str, must: &[&str], must_not: &[&str]) {
    expect(&[("var/log/dmesg", text)], must, must_not);
}

#[test]
fn a_laptop_whose_cores_are_billions_of_ticks_apart() {
    let text = format!(
        "[ 0.0] DMI: LENOVO 81LW/LNVNB161216, BIOS ARCN32WW 02/21/2019\n\
         [ 0.1] smpboot: CPU0: AMD Ryzen 5 3500U with Radeon Vega Mobile Gfx (family: 0x17, model: 0x18, stepping: 0x1)\n\
         [ 0.1] TSC synchronization [CPU#0 -> CPU#1]:\n\
         [ 0.1] Measured 9104567890 cycles TSC warp between CPUs, {WARP}\
         [ 0.9] clocksource: Switched to clocksource hpet\n"
    );
    let must = ["tsc-warp", "tsc-warp-firmware", "source:hpet", "state:slow"];
    let not = ["tsc-warp-small", "tsc-warp-hotplug", "fix:tsc=reliable", "fix:tsc=nowatchdog"];
    let found = expect(&[("var/log/dmesg", &text)], &must, &not);
    let warp = found.findings.iter().find(|one| one.label == Label::TscWarp).unwrap();
    assert_eq!(warp.follows_from, Some(Label::TscWarpFirmware));
    assert!(warp.detail[0].contains("9,104,567,890 ticks"), "{:?}", warp.detail);
}

#[test]
fn what_is_said_of_hyper_v_in_other_words_or_cut_short_excuses_nothing() {
    let other = "[ 0.0] tsc: Marking TSC unstable due to a page of Hyper-V\n\
                 [ 0.9] clocksource: Switched to clocksource hpet\n";
    let not = ["fix:tsc=reliable", "fix:tsc=nowatchdog"];
    log(other, &["tsc-refused", "platform:hyperv", "fix:keep"], &not);
    let cut = "[ 0.0] tsc: Marking TSC unstable due to running on\n\
               [ 0.9] clocksource: Switched to clocksource hpet\n";
    log(cut, &["state:slow"], &["platform:hyperv", "hyperv-tsc-unstable-benign"]);
}

#[test]
fn the_same_warp_in_a_virtual_machine_is_not_the_firmwares() {
    let text = format!(
        "[ 0.0] DMI: VMware, Inc. VMware Virtual Platform/440BX Desktop Reference Platform, BIOS 6.00\n\
         [ 0.1] Measured 9104567890 cycles TSC warp between CPUs, {WARP}"
    );
    log(&text, &["tsc-warp", "platform:vmware"], &["tsc-warp-firmware", "tsc-warp-small"]);
    let text = format!(
        "[ 0.0] DMI: innotek GmbH VirtualBox/VirtualBox, BIOS VirtualBox 12/01/2006\n\
         [ 0.1] Measured 66930 cycles TSC warp between CPUs, {WARP}"
    );
    let files =
        [("var/log/dmesg", text.as_str()), ("proc/sys/kernel/osrelease", "3.2.0-4-amd64\n")];
    let found = expect(&files, &["tsc-warp", "platform:virtualbox"], &["fix:tsc=reliable"]);
    let warp = found.findings.iter().find(|one| one.label == Label::TscWarp).unwrap();
    assert_eq!(
        warp.fixes,
        [Fix::ParavirtproviderKvm, Fix::FewerVcpus, Fix::NewerKernel, Fix::Measure]
    );
    assert!(warp.detail.iter().any(|words| words.contains("before 3.3")));
    let files =
        [("var/log/dmesg", text.as_str()), ("proc/sys/kernel/osrelease", "5.10.0-18-amd64\n")];
    let found = expect(&files, &["tsc-warp"], &["tsc-warp-small"]);
    let warp = found.findings.iter().find(|one| one.label == Label::TscWarp).unwrap();
    assert_eq!(
        warp.fixes,
        [Fix::ParavirtproviderKvm, Fix::FewerVcpus, Fix::Measure, Fix::TscReliable]
    );
}

#[test]
fn small_warps() {
    let warp =
        |cycles: u64| format!("[ 0.8] Measured {cycles} cycles TSC warp between CPUs, {WARP}");
    log(&warp(220), &["tsc-warp", "tsc-warp-small"], &["tsc-warp-firmware"]);
    log(&warp(1999), &["tsc-warp", "tsc-warp-small"], &[]);
    log(&warp(2000), &["tsc-warp"], &["tsc-warp-small", "tsc-warp-firmware"]);
    log(&warp(99_999_999), &["tsc-warp"], &["tsc-warp-firmware"]);
    log(&warp(100_000_000), &["tsc-warp", "tsc-warp-firmware"], &["fix:tsc=reliable"]);
}

#[test]
fn cpus_that_were_added() {
    let text = "[ 100.1] CPU4 has been hot-added\n\
         [ 100.5] Measured 3045678901 cycles TSC warp between CPUs, turning off TSC clock.\n\
         [ 100.5] tsc: Marking TSC unstable due to check_tsc_sync_source failed\n";
    log(text, &["tsc-warp", "tsc-warp-hotplug"], &["tsc-warp-firmware", "after-resume"]);
    // Without the line about the hot-added CPU, but late enough.
    let text =
        "[ 81234.5] Measured 3045678901 cycles TSC warp between CPUs, turning off TSC clock.\n";
    log(text, &["tsc-warp", "tsc-warp-hotplug"], &["tsc-warp-firmware", "fix:tsc=reliable"]);
    // A laptop that was resumed.
    let text = "[ 81230.5] ACPI: PM: Low-level resume complete\n\
         [ 81234.5] Measured 3045678901 cycles TSC warp between CPUs, turning off TSC clock.\n";
    log(
        text,
        &["tsc-warp", "after-resume"],
        &["tsc-warp-firmware", "fix:tsc=reliable", "fix:cold-boot"],
    );
}

#[test]
fn a_warp_that_goes_both_ways() {
    let text = "[ 0.8] TSC warped randomly between CPUs\n\
         [ 0.8] Measured 5123 cycles TSC warp between CPUs, turning off TSC clock.\n";
    log(text, &["tsc-warp"], &["tsc-warp-small"]);
    log(
        "Marking TSC unstable due to check_tsc_sync_source failed\n",
        &["tsc-warp"],
        &["tsc-refused"],
    );
}

#[test]
fn reasons_without_a_test() {
    let reliable = ["fix:tsc=reliable", "fix:tsc=nowatchdog"];
    let mark = |reason: &str| format!("[ 0.5] tsc: Marking TSC unstable due to {reason}\n");
    log(
        &mark("TSCs unsynchronized"),
        &["tsc-unsynchronized"],
        &[&reliable[..], &["tsc-warp", "guest-lacks-invtsc"]].concat(),
    );
    log(
        &mark("TSC halts in idle"),
        &["tsc-halts-in-idle"],
        &[&reliable[..], &["tsc-refused"]].concat(),
    );
    log(&mark("TSC halts in idle states deeper than C2"), &["tsc-halts-in-idle"], &reliable);
    log(&mark("TSC halt in AMD C1E"), &["tsc-halts-in-idle"], &reliable);
    log(
        "Marking TSC unstable due to: possible TSC halt in C2.\n",
        &["tsc-halts-in-idle"],
        &reliable,
    );
    log(
        &mark("cpufreq changes"),
        &["tsc-refused"],
        &[&reliable[..], &["tsc-watchdog-skew"]].concat(),
    );
    log(&mark("could not calculate TSC khz"), &["tsc-refused"], &reliable);
    log(&mark("UV BIOS"), &["tsc-refused"], &reliable);
    log(
        &mark("KVM discovered backwards TSC"),
        &["kvm-host-tsc-backwards", "tsc-went-backwards", "after-resume"],
        &[&reliable[..], &["tsc-refused"]].concat(),
    );
    log(&mark("running on Hyper-V"), &[], &["tsc-refused", "tsc-warp", "tsc-watchdog-skew"]);
    log(&mark("boot parameter notsc"), &[], &["tsc-refused", "tsc-watchdog-skew"]);
    log(&mark("boot parameter"), &[], &["tsc-refused"]);
}

#[test]
fn a_guest_without_a_real_cpu_model() {
    let text = "[ 0.0] DMI: QEMU Standard PC (i440FX + PIIX, 1996), BIOS 1.13.0-1ubuntu1.1 04/01/2014\n\
         [ 0.1] smpboot: CPU0: AMD QEMU Virtual CPU version 2.5+ (family: 0x6, model: 0x6, stepping: 0x3)\n\
         [ 0.2] tsc: Marking TSC unstable due to TSCs unsynchronized\n";
    log(
        text,
        &["tsc-unsynchronized", "guest-lacks-invtsc", "platform:qemu"],
        &["fix:tsc=reliable"],
    );
}
