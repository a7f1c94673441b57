//! Snapshots of the text.

use super::samples_tests::{healthy, nothing, warp, wrong};
use super::*;

fn plain(report: &DoctorReport) -> String {
    render(report, &TextOptions { all: true, ..TextOptions::default() })
}

#[test]
fn a_guest_whose_cpus_disagreed() {
    insta::assert_snapshot!(plain(&warp()), @r#"
    slow: clocksource acpi_pm; each clock read costs 0.7 to 2.6 us instead of 0.02
      because of what it is
      on VirtualBox, Linux 3.2.0-4-amd64

    Why: The CPUs' counters disagreed when they were compared [tsc-warp]
      One CPU read a count 66930 cycles lower than another CPU had read just before.
      The hypervisor gave the virtual CPUs counters that do not agree.
        var/log/dmesg:3: Measured 66930 cycles TSC warp between CPUs, turning off TSC clock.
        var/log/dmesg:4: Marking TSC unstable due to check_tsc_sync_source failed
      - tsc is missing from the available clocksources [tsc-absent].
          sys/devices/system/clocksource/clocksource0/available_clocksource: acpi_pm
        - The CPU does not state that its counter never stops [missing-nonstop_tsc].

    What to do, best first:
    1. Give the guest KVM's clock, on the host [fix:paravirtprovider-kvm]
       The guest then reads KVM's clock, which does not depend on equal counters.
         VBoxManage controlvm NAME acpipowerbutton
         VBoxManage modifyvm NAME --paravirtprovider kvm
       Verify:
         cat /sys/devices/system/clocksource/clocksource0/current_clocksource   # expect tsc
       Risk: VirtualBox 5.0 and later have it.

    2. Give the guest fewer CPUs, on the host [fix:fewer-vcpus]
         VBoxManage modifyvm NAME --cpus 1
       Verify as in 1.

    Never: tsc=reliable alone: this kernel ignores it for the comparison at boot.
    Meanwhile: Programs that can do with a tick's precision: clockscope run --clock
      coarse -- PROGRAM

    Note: This kernel's rules differ from today's [old-kernel]: Linux 3.2 applies
      tsc=reliable to the watchdog only.
    Harmless: the calibration's remarks are normal [calibration-note-benign].

    More on a word in brackets: clockscope doctor --explain WORD
    "#);
}

#[test]
fn a_healthy_machine_gets_few_lines() {
    insta::assert_snapshot!(plain(&healthy()), @r#"
    fast: clocksource tsc; 22 ns a read (measured)
      because of what it is
      on Linux 6.12.0-1-amd64

    Harmless: the switches of clocksource at boot are normal [early-switch-benign].

    More on a word in brackets: clockscope doctor --explain WORD
    "#);
}

#[test]
fn a_root_without_evidence() {
    insta::assert_snapshot!(plain(&nothing()), @r#"
    not enough evidence: nothing names the clocksource

    Not known: the current clocksource: cat
      /sys/devices/system/clocksource/clocksource0/current_clocksource
    Not read: var/log/kern.log: permission denied
    "#);
}

#[test]
fn wrong_time_comes_before_speed() {
    insta::assert_snapshot!(plain(&wrong()), @r#"
    fast, but wrong time is possible: clocksource tsc?[2J; 18 to 57 ns a read (by published figures)
      because of what it is
      on Linux 6.5.0

    Why: The TSC runs at another rate than the kernel takes it to [tsc-rate-wrong]
      The timer says 3599.997 MHz where the kernel had taken 3600.9 MHz.
        var/log/dmesg:7: tsc: Warning: TSC freq calibrated by CPUID/MSR differs?[31m
      The kernel may take the TSC's rate from CPUID, an MSR or the hypervisor
      without measuring it. Here that rate differs from what a timer or the
      network's time shows, by more than the 500 ppm that a time daemon can correct.

    More on a word in brackets: clockscope doctor --explain WORD
    "#);
}

#[test]
fn of_a_healthy_machine_one_line_is_enough() {
    let printed = render(&healthy(), &TextOptions::default());
    insta::assert_snapshot!(printed, @r"fast: clocksource tsc; 22 ns a read (measured)");
    assert!(render(&warp(), &TextOptions::default()) == plain(&warp()));
}

#[test]
fn colour_changes_no_word() {
    for report in [warp(), healthy(), nothing(), wrong()] {
        let coloured = render(&report, &TextOptions { colour: true, columns: None, all: true });
        assert!(coloured.starts_with("\u{1b}[1"), "{coloured}");
        assert_eq!(anstream::adapter::strip_str(&coloured).to_string(), plain(&report));
    }
}
