use std::fs;
use std::path::Path;

use super::*;
use crate::collect::facts;
use crate::collect::tests::root;
use crate::facts::Evidence;
use crate::measured::{Cpuid, Measured};
use crate::report::case_tests::cases;
use clockscope_model::host::HostState;

/// The facts without their places in a log or an archive.
fn without_places(mut facts: Facts) -> Facts {
    facts.read.clear();
    // Evidence of the log has other line numbers in the capture; that of `uname` lacks the host's name.
    let places = [
        facts.kernel.as_mut().map(|known| &mut known.evidence),
        facts.command_line.as_mut().map(|known| &mut known.evidence),
        facts.cpu.machine.as_mut().map(|known| &mut known.evidence),
    ];
    for evidence in places.into_iter().flatten() {
        if evidence.line.is_some() || evidence.file == "uname" {
            *evidence = Evidence::default();
        }
    }
    if let Some(log) = &mut facts.log {
        (log.file, log.lines, log.boots) = (String::new(), 0, 0);
        let last = log.last.as_mut().map(|(_, evidence)| evidence);
        for evidence in log.events.iter_mut().map(|event| &mut event.evidence).chain(last) {
            *evidence = Evidence::default();
        }
    }
    facts
}

/// Captures the machine below `path` and reads the capture, as a directory and as an archive.
fn round_trip(path: &Path) -> (Facts, Facts, Facts) {
    let root = Root::open(path).unwrap();
    let before = facts(&root);
    let capture = collect(&root, &before).unwrap();
    let packed = archive(&capture, 1_700_000_000).unwrap();
    let from_archive = facts(&Root::from_archive(&packed[..], "capture").unwrap());
    let folder = tempfile::tempdir().unwrap();
    for member in &capture.members {
        let path = folder.path().join(&member.path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, &member.bytes).unwrap();
    }
    let from_folder = facts(&Root::open(folder.path()).unwrap());
    (before, from_folder, from_archive)
}

#[test]
fn a_capture_gives_the_facts_of_its_machine() {
    let clocksource = "sys/devices/system/clocksource/clocksource0";
    let measured = Measured {
        cpuid: Some(Cpuid { hypervisor: Some("KVMKVMKVM".to_owned()), ..Cpuid::default() }),
        took_us: 12,
        ..Measured::default()
    };
    let long = "x".repeat(900);
    let machine = root(&[
        ("proc/version", "Linux version 6.1.0-18-amd64 (gcc)\n"),
        ("proc/cmdline", "ro tsc=reliable\n"),
        (
            "proc/cpuinfo",
            "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: fpu constant_tsc\nSerial\t: 123\n",
        ),
        (&format!("{clocksource}/current_clocksource"), "hpet\n"),
        ("sys/class/dmi/id/sys_vendor", "QEMU\n"),
        ("sys/class/dmi/id/product_serial", "SECRET\n"),
        ("proc/device-tree/timer/compatible", "arm,armv8-timer\0arm,armv7-timer\0"),
        ("etc/shadow", "root:SECRET\n"),
        ("uname", "Linux SECRET 6.1.0-18-amd64 #1 SMP x86_64 GNU/Linux\n"),
        ("dmidecode", "System Information\n\tManufacturer: QEMU\n\tSerial Number: SECRET\n"),
        (
            "var/log/dmesg",
            &format!(
                "[    0.000000] Linux version 6.1.0-18-amd64 (gcc)\n[    0.000000] Command line: ro {long}\n[    0.5] usb SECRET\n[    1.000000] tsc: Marking TSC unstable due to clocksource watchdog\n"
            ),
        ),
        (measured::FILE, &serde_json::to_string(&measured).unwrap()),
    ]);
    let (before, from_folder, from_archive) = round_trip(machine.path());
    assert_eq!(before.log.as_ref().unwrap().events.len(), 3);
    assert_eq!(before.measured.as_ref(), Some(&measured));
    assert_eq!(from_folder, from_archive);
    assert_eq!(without_places(from_archive), without_places(before));
    let root = Root::open(machine.path()).unwrap();
    let capture = collect(&root, &facts(&root)).unwrap();
    for member in &capture.members {
        assert!(!String::from_utf8_lossy(&member.bytes).contains("SECRET"), "{}", member.path);
    }
    let paths: Vec<&str> = capture.members.iter().map(|member| member.path.as_str()).collect();
    assert!(paths.is_sorted() && paths.contains(&"dmesg"), "{paths:?}");
    assert_eq!(archive(&capture, 7).unwrap(), archive(&capture, 7).unwrap());
}

#[test]
fn recorded_machines_survive_a_capture() {
    for (_, case) in cases() {
        let (before, from_folder, from_archive) = round_trip(&case);
        assert_eq!(from_folder, from_archive, "{}", case.display());
        assert_eq!(without_places(from_archive), without_places(before), "{}", case.display());
    }
}

#[test]
fn of_uname_and_dmidecode_only_what_names_the_machine_is_kept() {
    assert_eq!(uname("Linux box 5.10.0 #1 x86_64\n"), "Linux host 5.10.0 #1 x86_64\n");
    assert_eq!(uname("Linux version 5.10.0 (gcc)"), "Linux version 5.10.0 (gcc)\n");
    assert_eq!(uname(""), "\n");
    let text = "BIOS Information\n\tVendor: SeaBIOS\n\tROM Size: 64 kB\nSystem Information\n\tUUID: 1\nOther\n\tVendor: x\n";
    assert_eq!(dmidecode(text), "BIOS Information\n\tVendor: SeaBIOS\nSystem Information\n");
}

#[test]
fn every_copy_of_the_command_line_is_named() {
    let secret = "ro luks.key=SECRET quiet";
    let host = HostState { command_line: Some(secret.to_owned()), ..HostState::default() };
    let measured = Measured { host, ..Measured::default() };
    let machine = root(&[
        ("proc/cmdline", &format!("{secret}\n")),
        ("proc/version", "Linux version 6.1.0\n"),
        (
            "var/log/dmesg",
            &format!(
                "[    0.000000] Linux version 6.1.0\n[    0.000000] Command line: {secret}\n\
                 [    0.100000] Kernel command line: {secret}\n"
            ),
        ),
        (measured::FILE, &serde_json::to_string(&measured).unwrap()),
    ]);
    let root = Root::open(machine.path()).unwrap();
    let capture = collect(&root, &facts(&root)).unwrap();
    let has = |member: &&Member| String::from_utf8_lossy(&member.bytes).contains("SECRET");
    let is_named = |member: &&Member| {
        member.remark.as_ref().is_some_and(|remark| remark.contains("command line"))
    };
    let paths = |is: &dyn Fn(&&Member) -> bool| -> Vec<&str> {
        capture.members.iter().filter(|member| is(member)).map(|one| one.path.as_str()).collect()
    };
    assert_eq!(paths(&has), ["dmesg", "proc/cmdline"]);
    assert_eq!(paths(&has), paths(&is_named));
}
