//! Fragments of logs in the wording of kernels from 2.6.20 to 7.1, with labels that must and must not result.

use std::collections::BTreeSet;

use crate::collect;
use crate::root::Root;
use crate::rules;
use crate::rules::catalogue::{Fix, Label};
use crate::rules::finding::Diagnosis;

const TSC_3294: &str = "clocksource: tsc: mask: 0xffffffffffffffff max_cycles: 0x2f7a758b259, max_idle_ns: 440795268702 ns\n";

/// Diagnoses a machine with these files.
pub(crate) fn examine(files: &[(&str, &str)]) -> Diagnosis {
    let directory = tempfile::tempdir().unwrap();
    for (file, text) in files {
        let path = directory.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    rules::examine(&collect::facts(&Root::open(directory.path()).unwrap()))
}

/// Asserts that the files give all labels of `must` and none of `must_not`.
#[track_caller]
pub(crate) fn expect(files: &[(&str, &str)], must: &[&str], must_not: &[&str]) -> Diagnosis {
    let found = examine(files);
    let labels: BTreeSet<String> = found.labels().into_iter().collect();
    let has = |label: &&&str| labels.contains(**label);
    let missing: Vec<_> = must.iter().filter(|label| !has(label)).collect();
    let wrong: Vec<_> = must_not.iter().filter(has).collect();
    assert!(
        missing.is_empty() && wrong.is_empty(),
        "missing {missing:?} wrong {wrong:?}: {labels:?}"
    );
    found
}

#[track_caller]
fn log(text: &str, must: &[&str], must_not: &[&str]) -> Diagnosis {
    expect(&[("var/log/dmesg", text)], must, must_not)
}

/// All sentences and suggested fixes of one finding.
fn said(found: &Diagnosis, label: &str) -> String {
    let finding = found.findings.iter().find(|one| one.label.name() == label).unwrap();
    finding.detail.join(" ")
}

fn asks(found: &Diagnosis, label: &str) -> Vec<Fix> {
    found.findings.iter().find(|one| one.label.name() == label).unwrap().fixes.clone()
}

#[test]
fn a_wrap_is_told_in_the_machines_own_figures() {
    let found = log(
        "[   41.885195] clocksource:                       'acpi_pm' wd_nsec: 633206175 wd_now: 13fe92 wd_last: f168b4 mask: ffffff\n\
         [   41.886363] clocksource:                       'tsc' cs_nsec: 5320282620 cs_now: 1cbab6bece cs_last: 19231a48ea mask: ffffffffffffffff\n\
         [   41.887503] clocksource:                       Clocksource 'tsc' skewed 4687076445 ns (4687 ms) over watchdog 'acpi_pm' interval of 633206175 ns (633 ms)\n\
         [   41.889615] tsc: Marking TSC unstable due to clocksource watchdog\n",
        &["watchdog-counter-wrapped", "tsc-watchdog-skew"],
        &[
            "tsc-jumped",
            "needs-rate-measurement",
            "watchdog-false-positive-likely",
            "nested-or-overloaded",
        ],
    );
    assert_eq!(
        said(&found, "watchdog-counter-wrapped"),
        "Between two checks acpi_pm counted 633 ms and the TSC 5.32 s: the difference, 4.687 s, is one \
         wrap of the 24-bit ACPI timer, so the machine stood still for over 4.69 s; the TSC was right."
    );
    let skew = found.findings.iter().find(|one| one.label == Label::TscWatchdogSkew).unwrap();
    assert_eq!(skew.follows_from, Some(Label::WatchdogCounterWrapped));
    assert!(!asks(&found, "watchdog-counter-wrapped").contains(&Fix::TscReliable));
}

#[test]
fn a_wrap_shows_without_the_tscs_rate_too() {
    // 4.4 on a 3.4 GHz machine that stood still for 5.2 s.
    let text = "May  6 11:52:52 host kernel: [26977.145667] clocksource: timekeeping watchdog: Marking clocksource 'tsc' as unstable because the skew is too large:\n\
         May  6 11:52:52 host kernel: [26977.145674] clocksource:                       'acpi_pm' wd_now: bdb23 wd_last: f00000 mask: ffffff\n\
         May  6 11:52:52 host kernel: [26977.145677] clocksource:                       'tsc' cs_now: 241d3231d0 cs_last: 2000000000 mask: ffffffffffffffff\n";
    let found = log(text, &["watchdog-counter-wrapped"], &["tsc-jumped", "watchdog-reads-torn"]);
    assert!(said(&found, "watchdog-counter-wrapped").contains("no TSC runs at the 34."));
    // 4.4 does not know tsc=nowatchdog.
    assert_eq!(
        asks(&found, "watchdog-counter-wrapped"),
        [Fix::FindStall, Fix::Measure, Fix::TscReliable]
    );
}

#[test]
fn lines_in_disorder_and_with_others_between_are_one_decision() {
    log(
        "[  100.000004] clocksource:   'tsc' cs_now: 241d3231d0 cs_last: 2000000000 mask: ffffffffffffffff\n\
         [  100.000009] usb 1-1: reset high-speed USB device\n\
         [  100.000008] tsc: Marking TSC unstable due to clocksource watchdog\n\
         [  100.000001] clocksource: timekeeping watchdog on CPU1: Marking clocksource 'tsc' as unstable because the skew is too large:\n\
         [   99.999999] clocksource:   'acpi_pm' wd_now: bdb23 wd_last: f00000 mask: ffffff\n",
        &["watchdog-counter-wrapped", "tsc-watchdog-skew"],
        &["tsc-jumped"],
    );
}

#[test]
fn a_delta_of_2_6_is_weighed_with_what_was_fallen_back_to() {
    // The TSC was behind by nearly a wrap, which no stall explains.
    let found = log(
        "[   19.233707] Clocksource tsc unstable (delta = -4679290018 ns)\n\
         [   19.237696] Time: hpet clocksource has been installed.\n",
        &["tsc-watchdog-skew", "source:hpet", "old-kernel"],
        &["watchdog-counter-wrapped", "tsc-jumped", "fix:tsc=reliable"],
    );
    let words = said(&found, "tsc-watchdog-skew");
    assert!(words.contains("about one wrap of the 24-bit ACPI timer (4.69 s), but"), "{words}");
    // The TSC was ahead by a wrap of the clocksource that the kernel then fell back to.
    let found = log(
        "[  819.233707] Clocksource tsc unstable (delta = 4686964302 ns)\n\
         [  819.237696] Switching to clocksource acpi_pm\n",
        &["tsc-watchdog-skew", "watchdog-counter-wrapped"],
        &["tsc-jumped"],
    );
    assert!(said(&found, "watchdog-counter-wrapped").contains("fell back to acpi_pm"));
    log(
        "Clocksource tsc unstable (delta = 62575352 ns)\nSwitching to clocksource hpet\n",
        &["tsc-watchdog-skew", "source:hpet"],
        &["watchdog-counter-wrapped", "needs-rate-measurement", "fix:tsc=reliable"],
    );
}

#[test]
fn a_difference_of_microseconds_is_undecided() {
    // 6.1: 400 ppm of 0.5 s, hpet.
    let lines = "[ 2400.1] clocksource: timekeeping watchdog on CPU12: Marking clocksource 'tsc' as unstable because the skew is too large:\n\
         [ 2400.1] clocksource:                       'hpet' wd_nsec: 499999999 wd_now: 118f7076 wd_last: 11223344 mask: ffffffff\n\
         [ 2400.1] clocksource:                       'tsc' cs_nsec: 500200000 cs_now: 74ca8a1e715 cs_last: 74c466e112f mask: ffffffffffffffff\n\
         [ 2400.1] clocksource:                       'tsc' is current clocksource.\n\
         [ 2400.1] tsc: Marking TSC unstable due to clocksource watchdog\n\
         [ 2400.1] clocksource: Checking clocksource tsc synchronization from CPU 0 to CPUs 1-15.\n\
         [ 2400.1] clocksource: Switched to clocksource hpet\n";
    let must = ["needs-rate-measurement", "tsc-watchdog-skew", "source:hpet", "state:slow"];
    let must_not = ["watchdog-false-positive-likely", "watchdog-bad-reference", "tsc-jumped"];
    let found = log(&format!("{TSC_3294}{lines}"), &must, &must_not);
    let words = said(&found, "needs-rate-measurement");
    assert!(words.contains("hpet counted 500.000 ms and the TSC 500.200 ms"), "{words}");
    assert!(words.contains("400 ppm always, 35 s a day"), "{words}");
    // A skew of -876 us, from the counters alone, with a 5.10 kernel.
    let lines = "[   60.5] tsc: Detected 2095.000 MHz processor\n\
         [  600.5] clocksource: timekeeping watchdog on CPU3: Marking clocksource 'tsc' as unstable because the skew is too large:\n\
         [  600.5] clocksource:                       'hpet' wd_now: 6d4d32 wd_last: 1000 mask: ffffffff\n\
         [  600.5] clocksource:                       'tsc' cs_now: 303e53940c cs_last: 3000000000 mask: ffffffffffffffff\n";
    let found = log(lines, &["needs-rate-measurement", "tsc-watchdog-skew"], &must_not);
    assert!(said(&found, "needs-rate-measurement").contains("876 us behind"));
}

#[test]
fn torn_reads_are_those_of_a_stall() {
    let found = log(
        "[    0.0] tsc: Detected 2600.000 MHz processor\n\
         [ 9000.5] clocksource: timekeeping watchdog on CPU3: Marking clocksource 'tsc' as unstable because the skew is too large:\n\
         [ 9000.5] clocksource:                       'hpet' wd_now: 47015f8 wd_last: fffffff0 mask: ffffffff\n\
         [ 9000.5] clocksource:                       'tsc' cs_now: 104df371c0 cs_last: 1000000000 mask: ffffffffffffffff\n\
         [ 9000.5] tsc: Marking TSC unstable due to clocksource watchdog\n",
        &["watchdog-reads-torn", "tsc-watchdog-long-interval", "tsc-watchdog-skew"],
        &["tsc-jumped", "tsc-went-backwards", "nested-or-overloaded", "tsc-watchdog-glitch"],
    );
    assert!(said(&found, "watchdog-reads-torn").contains("0.25 GHz"));
    assert_eq!(asks(&found, "watchdog-reads-torn")[0], Fix::FindStall);
}

#[test]
fn a_late_check_that_differs_little_is_a_false_positive() {
    let found = log(
        "[52000.1] clocksource: timekeeping watchdog on CPU2: Marking clocksource 'tsc' as unstable because the skew is too large:\n\
         [52000.1] clocksource:                       'hpet' wd_nsec: 14500000000 wd_now: 115feeaa wd_last: 5000000 mask: ffffffff\n\
         [52000.1] clocksource:                       'tsc' cs_nsec: 14500900000 cs_now: 3a20f685e0 cs_last: 3000000000 mask: ffffffffffffffff\n\
         [52000.1] tsc: Marking TSC unstable due to clocksource watchdog\n\
         [52000.2] clocksource: Switched to clocksource hpet\n",
        &["watchdog-false-positive-likely", "tsc-watchdog-long-interval", "tsc-watchdog-skew"],
        &["needs-rate-measurement", "tsc-jumped", "watchdog-reads-torn", "fix:tsc=reliable"],
    );
    assert!(said(&found, "watchdog-false-positive-likely").contains("62 ppm"));
    // Wording of 6.x: the kernel has the milder parameter.
    assert_eq!(asks(&found, "watchdog-false-positive-likely"), [Fix::TscNowatchdog, Fix::Reboot]);
}

#[test]
fn the_parameter_asked_for_is_one_that_the_kernel_knows() {
    let lines = "[52000.1] clocksource: timekeeping watchdog on CPU2: Marking clocksource 'tsc' as unstable because the skew is too large:\n\
         [52000.1] clocksource:    'hpet' wd_now: 115feeaa wd_last: 5000000 mask: ffffffff\n\
         [52000.1] clocksource:    'tsc' cs_now: 3a20a82e80 cs_last: 3000000000 mask: ffffffffffffffff\n\
         [52000.1] tsc: Refined TSC clocksource calibration: 3000.000 MHz\n";
    let asked = |release: &str| {
        let files = [("proc/sys/kernel/osrelease", release), ("var/log/dmesg", lines)];
        asks(&examine(&files), "watchdog-false-positive-likely")
    };
    assert_eq!(asked("5.10.0-18-amd64"), [Fix::TscNowatchdog, Fix::Reboot]);
    assert_eq!(asked("4.18.0-553.16.1.el8_10.x86_64"), [Fix::TscNowatchdog, Fix::Reboot]);
    assert_eq!(asked("4.9.0-9-amd64"), [Fix::Measure, Fix::TscReliable, Fix::Reboot]);
    assert_eq!(asked("3.2.0-4-amd64"), [Fix::NewerKernel, Fix::Reboot]);
}

#[test]
fn one_sample_without_movement_is_a_glitch() {
    let found = log(
        "Sep 11 07:03:06 kernel: clocksource: Clocksource 'tsc' skewed -485515617 ns (-485 ms) over watchdog 'acpi_pm' interval of 485515617 ns (485 ms)\n\
         Sep 11 07:03:06 kernel: tsc: Marking TSC unstable due to clocksource watchdog\n\
         Sep 11 07:03:06 kernel: TSC found unstable after boot, most likely due to broken BIOS. Use 'tsc=unstable'.\n",
        &["tsc-watchdog-glitch", "tsc-watchdog-skew"],
        &["tsc-went-backwards", "watchdog-counter-wrapped", "fix:tsc=reliable"],
    );
    assert!(said(&found, "tsc-watchdog-skew").contains("only silences"));
    log(
        "[  9.1] clocksource: timekeeping watchdog on CPU1: Marking clocksource 'tsc' as unstable because the skew is too large:\n\
         [  9.1] clocksource:    'hpet' wd_now: 118f7076 wd_last: 11223344 mask: ffffffff\n\
         [  9.1] clocksource:    'tsc' cs_now: 2000000000 cs_last: 2000000000 mask: ffffffffffffffff\n",
        &["tsc-watchdog-glitch"],
        &["tsc-went-backwards", "watchdog-reads-torn"],
    );
}

#[test]
fn a_slow_reference_is_no_fault_of_the_tsc() {
    // 5.15, nested.
    let found = log(
        "[    0.0] Hypervisor detected: KVM\n\
         [ 1234.5] clocksource: timekeeping watchdog on CPU1: hpet read-back delay of 104761ns, attempt 4, marking unstable\n\
         [ 1234.5] tsc: Marking TSC unstable due to clocksource watchdog\n\
         [ 1234.5] TSC found unstable after boot, most likely due to broken BIOS. Use 'tsc=unstable'.\n\
         [ 1234.5] sched_clock: Marking unstable (1234, 5)<-(1240, -5)\n\
         [ 1234.6] clocksource: Switched to clocksource hpet\n",
        &["tsc-watchdog-readdelay", "nested-or-overloaded", "source:hpet", "state:slow"],
        &["tsc-watchdog-skew", "watchdog-noise", "tsc-warp"],
    );
    assert!(said(&found, "tsc-watchdog-readdelay").contains("took 105 us to read"));
    // 6.12.
    log(
        "[ 1234.5] clocksource: timekeeping watchdog on CPU1: wd-tsc-wd excessive read-back delay of 246190ns vs. limit of 125000ns, wd-wd read-back delay only 35196ns, attempt 3, marking tsc unstable\n\
         [ 1234.5] tsc: Marking TSC unstable due to clocksource watchdog\n",
        &["tsc-watchdog-readdelay"],
        &["tsc-watchdog-skew", "watchdog-noise", "nested-or-overloaded"],
    );
}

#[test]
fn messages_without_consequence_are_noise() {
    for line in [
        "[ 12.1] clocksource: timekeeping watchdog on CPU7: acpi_pm wd-wd read-back delay of 251142ns\n\
         [ 12.1] clocksource: wd-tsc-wd read-back delay of 1250285ns, clock-skew test skipped!\n",
        "[ 12.1] clocksource: timekeeping watchdog on CPU7: hpet retried 2 times before success\n",
        "[ 12.1] clocksource: Watchdog hpet read timed out. Readout sequence took: 60345ns\n",
        "[ 12.1] clocksource: Watchdog remote CPU 7 read timed out\n",
        "[ 12.1] clocksource: Long readout interval, skipping watchdog check: cs_nsec: 1502396518 wd_nsec: 1502396541\n",
    ] {
        log(
            line,
            &["watchdog-noise"],
            &["tsc-watchdog-skew", "tsc-watchdog-readdelay", "state:slow", "fix:tsc=reliable"],
        );
    }
    // With a mark, the finding is absent.
    log(
        "[ 12.1] clocksource: timekeeping watchdog on CPU7: hpet retried 2 times before success\n\
         [ 99.1] Clocksource 'tsc' skewed 80000000 ns (80 ms) over watchdog 'hpet' interval of 500000000 ns (500 ms)\n",
        &["tsc-watchdog-skew"],
        &["watchdog-noise", "tsc-watchdog-readdelay"],
    );
}

#[test]
fn the_words_of_7_1() {
    let found = log(
        "[  300.1] clocksource: Marking clocksource tsc unstable due to frequency skew\n\
         [  300.1] clocksource: Watchdog kvm-clock interval: 500000129ns\n\
         [  300.1] clocksource: Clocksource tsc interval: 9500000417ns\n\
         [  300.1] tsc: Marking TSC unstable due to clocksource watchdog\n\
         [  300.2] clocksource: Switched to clocksource kvm-clock\n",
        &["vm-paused", "tsc-watchdog-skew"],
        &["tsc-jumped", "tsc-watchdog-short-interval", "tsc-went-backwards", "tsc-warp-runtime"],
    );
    assert!(said(&found, "vm-paused").contains("the guest was stopped for 9.00 s"));
    let found = log(
        "[  300.1] clocksource: Marking clocksource tsc unstable due to frequency skew\n\
         [  300.1] clocksource: Watchdog kvm-clock interval: 4294ns\n\
         [  300.1] clocksource: Clocksource tsc interval: 4404ns\n",
        &["tsc-watchdog-short-interval", "tsc-watchdog-skew"],
        &["vm-paused", "tsc-jumped", "needs-rate-measurement", "tsc-rate-wrong"],
    );
    assert!(said(&found, "tsc-watchdog-short-interval").contains("differ by 110 ns"));
    let found = log(
        "[  300.1] clocksource: Marking clocksource tsc unstable due to inter CPU skew\n\
         [  300.1] clocksource: CPU1 812345678901 < CPU2 812345999901 (cycles)\n\
         [  300.1] tsc: Marking TSC unstable due to clocksource watchdog\n",
        &["tsc-warp-runtime", "per-cpu-sync-suspicious", "tsc-watchdog-skew"],
        &["tsc-warp", "tsc-jumped", "fix:tsc=nowatchdog", "fix:tsc=reliable", "state:fast"],
    );
    assert!(said(&found, "tsc-warp-runtime").contains("321,000 ticks"));
}

#[test]
fn a_paused_guest_shows_in_older_words_too() {
    log(
        "[    0.0] kvm-clock: Using msrs 4b564d01 and 4b564d00\n\
         [  600.1] clocksource: timekeeping watchdog on CPU0: Marking clocksource 'tsc' as unstable because the skew is too large:\n\
         [  600.1] clocksource:    'kvm-clock' wd_nsec: 500000000 wd_now: 5001dcd6500 wd_last: 50000000000 mask: ffffffffffffffff\n\
         [  600.1] clocksource:    'tsc' cs_nsec: 30500000000 cs_now: 41c0daaa80 cs_last: 3000000000 mask: ffffffffffffffff\n\
         [  600.1] clocksource:    'kvm-clock' (not 'tsc') is current clocksource.\n",
        &["vm-paused", "tsc-watchdog-skew", "source:kvm-clock"],
        &["tsc-jumped", "watchdog-counter-wrapped"],
    );
}

#[test]
fn some_references_cannot_judge() {
    log(
        "[  600.1] clocksource: timekeeping watchdog on CPU0: Marking clocksource 'tsc' as unstable because the skew is too large:\n\
         [  600.1] clocksource:    'xen' wd_nsec: 512000000 wd_now: 501e848000 wd_last: 5000000000 mask: ffffffffffffffff\n\
         [  600.1] clocksource:    'tsc' cs_nsec: 511000000 cs_now: 41c0daaa80 cs_last: 4180daaa80 mask: ffffffffffffffff\n\
         [  600.1] clocksource:    'xen' (not 'tsc') is current clocksource.\n",
        &["watchdog-bad-reference", "needs-rate-measurement", "tsc-watchdog-skew", "source:xen"],
        &["tsc-jumped", "tsc-went-backwards"],
    );
    // A rate from CPUID that no timer confirmed: the reference may be right by chance.
    let found = log(
        "[    0.0] tsc: Detected 1900.000 MHz processor\n\
         [    0.0] tsc: Detected 1896.000 MHz TSC\n\
         [   19.9] clocksource: timekeeping watchdog on CPU3: Marking clocksource 'tsc-early' as unstable because the skew is too large:\n\
         [   20.0] clocksource:   'refined-jiffies' wd_nsec: 503923392 wd_now: fffb73f8 wd_last: fffb7200 mask: ffffffff\n\
         [   20.1] clocksource:   'tsc-early' cs_nsec: 588021368 cs_now: 581c1eb378 cs_last: 57d9aad9e8 mask: ffffffffffffffff\n\
         [   20.1] tsc: Marking TSC unstable due to clocksource watchdog\n",
        &["watchdog-bad-reference", "tsc-early", "tsc-watchdog-skew"],
        &["fix:tsc=reliable", "fix:tsc=nowatchdog", "tsc-rate-wrong", "tsc-jumped"],
    );
    assert!(said(&found, "watchdog-bad-reference").contains("never held against a timer"));
    // The kernel printed that this HPET stops.
    log(
        "[    0.5] hpet: HPET dysfunctional in PC10. Force disabled.\n\
         [    2.5] tsc: Refined TSC clocksource calibration: 1992.000 MHz\n\
         [  600.1] clocksource: timekeeping watchdog on CPU0: Marking clocksource 'tsc' as unstable because the skew is too large:\n\
         [  600.1] clocksource:    'hpet' wd_now: 506c5d7 wd_last: 5000000 mask: ffffffff\n\
         [  600.1] clocksource:    'tsc' cs_now: 303c8db580 cs_last: 3000000000 mask: ffffffffffffffff\n",
        &["watchdog-bad-reference", "tsc-jumped", "tsc-watchdog-skew"],
        &["watchdog-counter-wrapped", "fix:enable-hpet"],
    );
}

#[test]
fn a_second_reference_decides() {
    let lines = |hpet: &str| {
        format!(
            "clocksource: timekeeping watchdog on CPU118: Marking clocksource 'tsc' as unstable because the skew is too large:\n\
             clocksource: 'sgi_rtc' wd_nsec: 511302794 wd_now: 1cb50e4c4b wd_last: 1ca7097111 mask: ffffffffffffff\n\
             clocksource: 'hpet' wd2_nsec: {hpet} wd2_now: 65892719 wd2_last: 64c5d684 mask: ffffffff\n\
             clocksource: 'tsc' cs_nsec: 512006458 cs_now: 86b5982cb1 cs_last: 867581bbab mask: ffffffffffffffff\n"
        )
    };
    let found = log(&lines("512005960"), &["watchdog-bad-reference"], &["tsc-jumped"]);
    let words = said(&found, "watchdog-bad-reference");
    assert!(words.contains("hpet and the TSC agree within 498 ns"), "{words}");
    assert!(words.contains("sgi_rtc that was off, by 703 us"), "{words}");
    log(&lines("511302000"), &["tsc-watchdog-skew"], &["watchdog-bad-reference"]);
}

#[test]
fn a_counter_set_back_is_a_resume_or_a_restore() {
    let found = log(
        "[    0.0] Hypervisor detected: KVM\n\
         [    0.1] tsc: Detected 2500.000 MHz processor\n\
         [ 7000.1] clocksource: timekeeping watchdog on CPU0: Marking clocksource 'tsc' as unstable because the skew is too large:\n\
         [ 7000.1] clocksource:    'hpet' wd_now: 118f7076 wd_last: 11223344 mask: ffffffff\n\
         [ 7000.1] clocksource:    'tsc' cs_now: 3000000 cs_last: 41c0daaa80 mask: ffffffffffffffff\n",
        &["tsc-went-backwards", "after-resume", "tsc-watchdog-skew"],
        &["tsc-watchdog-glitch", "tsc-jumped", "fix:tsc=reliable", "fix:clocksource=tsc"],
    );
    assert!(said(&found, "tsc-went-backwards").contains("from 0x41c0daaa80 to 0x3000000"));
    let found = log(
        "[ 7000.1] clocksource:    'acpi_pm' wd_now: bdb23 wd_last: f00000 mask: ffffff\n\
         [ 7000.1] clocksource:    'tsc' cs_now: fffffff63d4d2a15 cs_last: 1ca0b7a50c00 mask: ffffffffffffffff\n",
        &["tsc-went-backwards", "after-resume"],
        &["tsc-jumped", "watchdog-counter-wrapped"],
    );
    assert!(said(&found, "tsc-went-backwards").contains("ticks before zero"));
}

#[test]
fn what_comes_right_after_waking_comes_of_it() {
    let mark = "clocksource: timekeeping watchdog on CPU0: Marking clocksource 'tsc' as unstable because the skew is too large:\n";
    let found = log(
        &format!("[ 500.0] PM: suspend entry (deep)\n[ 501.0] PM: suspend exit\n[ 503.0] {mark}"),
        &["after-resume", "tsc-watchdog-skew"],
        &["tsc-went-backwards"],
    );
    let skew = found.findings.iter().find(|one| one.label == Label::TscWatchdogSkew).unwrap();
    assert_eq!(skew.follows_from, Some(Label::AfterResume));
    log(
        &format!("[ 500.0] PM: suspend entry (deep)\n[ 501.0] PM: suspend exit\n[ 9503.0] {mark}"),
        &["tsc-watchdog-skew"],
        &["after-resume"],
    );
    log("[ 501.0] PM: suspend exit\n", &[], &["after-resume", "tsc-watchdog-skew"]);
}

#[test]
fn cpus_that_are_apart_after_a_mark_are_suspicious() {
    let found = log(
        "[ 900.1] clocksource: timekeeping watchdog on CPU5: Marking clocksource 'tsc' as unstable because the skew is too large:\n\
         [ 900.2] clocksource: Checking clocksource tsc synchronization from CPU 5 to CPUs 0-4,6-7.\n\
         [ 900.2] clocksource:         CPUs 0-3 ahead of CPU 5 for clocksource tsc.\n\
         [ 900.2] clocksource:         CPU 5 check durations 1204ns - 3320ns for clocksource tsc.\n",
        &["per-cpu-sync-suspicious", "tsc-watchdog-skew"],
        &["tsc-warp-runtime", "watchdog-noise", "fix:tsc=nowatchdog", "fix:tsc=reliable"],
    );
    assert!(said(&found, "per-cpu-sync-suspicious").contains("CPUs 0-3 was ahead of"));
}

#[test]
fn an_hpet_of_another_rate_is_recognised() {
    // Intel's 24 MHz HPET, whose registration line is not in the fragment.
    log(
        "[    2.5] tsc: Refined TSC clocksource calibration: 3000.000 MHz\n\
         [  600.1] clocksource: timekeeping watchdog on CPU0: Marking clocksource 'tsc' as unstable because the skew is too large:\n\
         [  600.1] clocksource:    'hpet' wd_now: 5b71b00 wd_last: 5000000 mask: ffffffff\n\
         [  600.1] clocksource:    'tsc' cs_now: 305968302c cs_last: 3000000000 mask: ffffffffffffffff\n",
        &["tsc-watchdog-skew", "watchdog-false-positive-likely"],
        &["tsc-jumped", "watchdog-reads-torn", "tsc-watchdog-long-interval"],
    );
}

#[test]
fn a_jump_beside_the_acpi_timer_is_no_wrap() {
    log(
        "[    2.5] tsc: Refined TSC clocksource calibration: 3000.000 MHz\n\
         [  600.1] clocksource: timekeeping watchdog on CPU0: Marking clocksource 'tsc' as unstable because the skew is too large:\n\
         [  600.1] clocksource:    'acpi_pm' wd_now: 2d83a2 wd_last: 123456 mask: ffffff\n\
         [  600.1] clocksource:    'tsc' cs_now: 3165a0bc00 cs_last: 3000000000 mask: ffffffffffffffff\n",
        &["tsc-jumped", "tsc-watchdog-skew"],
        &["watchdog-counter-wrapped", "tsc-went-backwards"],
    );
}

#[test]
fn cut_lines_leave_what_they_say() {
    log(
        "Dec 24 21:47:28 kernel: clocksource: timekeeping watchdog on CPU12: Marking clocksource 'tsc' as unstable because the sk>\n\
         Dec 24 21:47:28 kernel: clocksource:                       'tsc' cs_nsec: 503646106 cs_now: 74ca94f19b5 cs_last: 74c466e1>\n",
        &["tsc-watchdog-skew"],
        &[
            "tsc-jumped",
            "tsc-went-backwards",
            "watchdog-counter-wrapped",
            "state:fast",
            "tsc-watchdog-glitch",
        ],
    );
    log(
        "Marking TSC unstable due to clocksource watchdo>\n",
        &["tsc-watchdog-skew"],
        &["tsc-warp", "tsc-refused"],
    );
    // Another clocksource than the TSC.
    log(
        "[ 1.0] clocksource: timekeeping watchdog on CPU0: Marking clocksource 'hpet' as unstable because the skew is too large:\n",
        &[],
        &["tsc-watchdog-skew"],
    );
}
