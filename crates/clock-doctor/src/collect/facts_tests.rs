use std::fs;
use std::path::Path;

use super::facts;
use crate::facts::{Facts, Sign};
use crate::root::Root;

/// A root with these files.
pub(crate) fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}

pub(crate) fn facts_of(files: &[(&str, &str)]) -> Facts {
    facts(&Root::open(root(files).path()).unwrap())
}

#[test]
fn a_root_tells_what_its_files_tell() {
    let clocksource = "sys/devices/system/clocksource/clocksource0";
    let flags = (0..25).map(|n| format!("f{n} ")).collect::<String>();
    let facts = facts_of(&[
        ("proc/sys/kernel/osrelease", "5.10.0-18-amd64\n"),
        ("proc/cmdline", "ro quiet clocksource=hpet\n"),
        (&format!("{clocksource}/current_clocksource"), "hpet\n"),
        (&format!("{clocksource}/available_clocksource"), "hpet acpi_pm \n"),
        (
            "proc/cpuinfo",
            &format!(
                "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC\nflags\t\t: {flags}constant_tsc hypervisor\n\nprocessor\t: 1\n"
            ),
        ),
        ("sys/class/dmi/id/sys_vendor", "QEMU\n"),
        ("sys/class/dmi/id/product_serial", "SECRET\n"),
        ("var/lib/chrony/drift", "  1.372570   0.020049\n"),
        ("proc/sys/kernel/vsyscall64", "0\n"),
        ("run/systemd/container", "lxc\n"),
    ]);
    assert_eq!(facts.kernel().unwrap().version, (5, 10));
    assert_eq!(facts.command_line.as_ref().unwrap().value.value("clocksource"), Some("hpet"));
    let current = facts.current.unwrap();
    assert_eq!(current.value, "hpet");
    assert_eq!(current.evidence.file, format!("{clocksource}/current_clocksource"));
    assert_eq!(facts.available.unwrap().value, ["hpet", "acpi_pm"]);
    assert_eq!(facts.cpu.vendor.as_ref().unwrap().value, "AuthenticAMD");
    assert_eq!(facts.cpu.flag("nonstop_tsc"), Some(false));
    assert_eq!(facts.cpu.machine.as_ref().unwrap().value, "x86_64");
    let signs: Vec<Sign> = facts.signs.into_iter().map(|known| known.value).collect();
    let dmi = Sign::Dmi("sys_vendor".to_owned(), "QEMU".to_owned());
    assert_eq!(signs, [dmi, Sign::Container("lxc".to_owned())]);
    assert_eq!(facts.drift_ppm.unwrap().value, 1.37257);
    assert_eq!(facts.vsyscall64.unwrap().value, 0);
    assert_eq!(facts.unread, []);
    assert!(!facts.read.iter().any(|path| path.contains("serial")));
}

#[test]
fn an_empty_root_tells_nothing() {
    assert_eq!(facts_of(&[]), Facts::default());
}

#[test]
fn a_short_list_of_flags_may_lack_some() {
    let cut = facts_of(&[("proc/cpuinfo", "flags\t\t: constant_tsc nonstop_tsc\n")]);
    assert_eq!((cut.cpu.flag("constant_tsc"), cut.cpu.flag("rdtscp")), (Some(true), None));
}

#[test]
fn the_kernel_is_found_in_every_place() {
    let uname = "Linux box 4.9.0-19-amd64 #1 SMP Debian 4.9.320-2 x86_64 GNU/Linux\n";
    let version = "Linux version 4.9.0-19-amd64 (someone@somewhere) (gcc) #1 SMP\n";
    for (path, text) in [
        ("proc/version", version),
        ("proc/version", uname),
        ("sos_commands/kernel/uname_-a", uname),
        ("uname", uname),
    ] {
        let facts = facts_of(&[(path, text)]);
        assert_eq!(facts.kernel().unwrap().release, "4.9.0-19-amd64", "{path}");
        assert_eq!(facts.cpu.machine.unwrap().value, "x86_64", "{path}");
    }
    assert_eq!(facts_of(&[("proc/version", "\u{1b}[2Jgarbage")]).kernel, None);
}

#[test]
fn dmidecode_tells_the_machine() {
    let text = "# dmidecode 3.3\nHandle 0x0100, DMI type 1, 27 bytes\nSystem Information\n\tManufacturer: innotek GmbH\n\tProduct Name: VirtualBox\n\tSerial Number: 0\n";
    let facts = facts_of(&[("dmidecode", text)]);
    let signs: Vec<Sign> = facts.signs.into_iter().map(|known| known.value).collect();
    let dmi = |name: &str, value: &str| Sign::Dmi(name.to_owned(), value.to_owned());
    assert_eq!(signs, [dmi("sys_vendor", "innotek GmbH"), dmi("product_name", "VirtualBox")]);
}

#[test]
fn a_32_bit_arm_is_told_from_a_64_bit_one() {
    let cpu = |architecture: &str| {
        let text =
            format!("processor : 0\nFeatures : half thumb\nCPU architecture: {architecture}\n");
        facts_of(&[("proc/cpuinfo", &text)]).cpu.is_arm32
    };
    assert_eq!((cpu("7"), cpu("8"), cpu("5TEJ")), (true, false, true));
}

#[test]
fn a_device_tree_tells_of_its_timer() {
    let facts = facts_of(&[
        ("proc/device-tree/timer/compatible", "arm,armv7-timer\0arm,other\0"),
        ("sys/firmware/devicetree/base/timer/arm,cpu-registers-not-fw-configured", ""),
    ]);
    assert_eq!(facts.arm_timer.unwrap().value, "arm,armv7-timer arm,other");
    assert!(facts.arm_registers_not_configured.is_some());
}

#[test]
fn this_machine_can_be_read() {
    let facts = facts(&Root::open(Path::new("/")).unwrap());
    assert!(facts.kernel.is_some());
    assert!(facts.command_line.is_some());
}

#[test]
fn lists_of_cpus_are_counted_or_refused() {
    assert_eq!(super::count_cpus("0\n"), Some(1));
    assert_eq!(super::count_cpus("0-3,8,10-11"), Some(7));
    for bad in ["", "3-1", "a", "0-4294967295"] {
        assert_eq!(super::count_cpus(bad), None, "{bad}");
    }
}

#[test]
fn the_boot_is_known_by_its_number_and_no_capture_has_it() {
    let path = "proc/sys/kernel/random/boot_id";
    let id = "3f2b8c64-5b0e-4b8e-9a39-0d5f6f1c2ab7";
    let folder = root(&[(path, id), ("proc/cmdline", "ro quiet\n")]);
    let root = Root::open(folder.path()).unwrap();
    let facts = facts(&root);
    assert_eq!(facts.boot_id.as_ref().map(|known| known.value.as_str()), Some(id));
    let saved = crate::capture::collect(&root, &facts).unwrap().members;
    assert_eq!(
        saved.iter().map(|member| member.path.as_str()).collect::<Vec<_>>(),
        ["proc/cmdline"]
    );
    for damaged in ["", "3f2b8c64", "3f2b8c64-5b0e-4b8e-9a39-0d5f6f1c2ab\"", &"-".repeat(36)] {
        assert_eq!(facts_of(&[(path, damaged)]).boot_id, None, "{damaged}");
    }
}
