//! Machines that were written from knowledge about their kind, instead of recorded: labels that they must get, and
//! labels that they must not get.

use std::collections::BTreeSet;

use crate::collect;
use crate::report::model::DoctorReport;
use crate::root::Root;
use crate::rules;
use crate::rules::finding::Diagnosis;

/// The machines, in the form that its first lines describe.
const MACHINES: &str = include_str!("machines.txt");
const LOG: &str = "var/log/dmesg";

/// Labels that no healthy machine gets.
const ALARMS: &str = "state:slow tsc-warp tsc-watchdog-skew tsc-absent cause-needs-dmesg override-rejected guest-lacks-invtsc migration-risk log-incomplete tsc-refused needs-rate-measurement nested-or-overloaded vdso-support-depends-on-kernel tsc-available-not-selected better-source-available kvm-clock-no-vdso-suspected";

fn examined(files: &[(&str, &str)]) -> (Diagnosis, DoctorReport) {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = directory.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let facts = collect::facts(&Root::open(directory.path()).unwrap());
    let diagnosis = rules::examine(&facts);
    let report = DoctorReport::new(&facts, &diagnosis);
    (diagnosis, report)
}

fn labels(files: &[(&str, &str)]) -> BTreeSet<String> {
    examined(files).1.labels.into_iter().collect()
}

/// Whether a line `LABEL VERB REST` is true of the finding of that label.
fn is_so(line: &str, diagnosis: &Diagnosis) -> bool {
    let [label, verb, rest] = line.splitn(3, ' ').collect::<Vec<_>>()[..] else { return false };
    let Some(finding) = diagnosis.findings.iter().find(|one| one.label.name() == label) else {
        return false;
    };
    let asked: Vec<&str> = finding.fixes.iter().map(|fix| fix.name()).collect();
    match verb {
        "says" => finding.detail.join(" ").contains(rest),
        "says-all" => finding.detail.join(" ") == rest,
        "asks" if rest == "nothing" => asked.is_empty(),
        "asks" => asked.join(" ") == rest,
        "follows" => finding.follows_from.is_some_and(|cause| cause.name() == rest),
        "is" => format!("{:?}", finding.severity) == rest,
        _ => false,
    }
}

#[test]
fn every_machine_gets_its_labels_and_none_that_is_wrong() {
    let mut complaints = Vec::new();
    let machines = MACHINES.split("\n# ").skip(1);
    assert!(machines.clone().count() > 160);
    for machine in machines {
        let machine = machine.replace("\\0", "\0");
        let mut parts = machine.split("\n@ ");
        let head = parts.next().unwrap();
        let files: Vec<(&str, &str)> =
            parts.map(|part| part.split_once('\n').unwrap_or((part, ""))).collect();
        let (diagnosis, report) = examined(&files);
        let labels: BTreeSet<String> = report.labels.into_iter().collect();
        let wanted = head.lines().find_map(|line| line.strip_prefix("= ")).unwrap();
        let is_healthy = wanted.ends_with(" healthy");
        let wanted = wanted.trim_end_matches(" healthy").split(' ');
        let (wrong, missing): (Vec<&str>, Vec<&str>) =
            wanted.partition(|word| word.starts_with('!'));
        let alarms = ALARMS.split(' ').filter(|_| is_healthy);
        let wrong = wrong.iter().map(|word| &word[1..]).chain(alarms);
        let wrong: Vec<&str> = wrong.filter(|word| labels.contains(*word)).collect();
        let missing: Vec<&str> =
            missing.into_iter().filter(|word| !labels.contains(*word)).collect();
        let stated = head.lines().filter_map(|line| line.strip_prefix("~ "));
        let untrue: Vec<&str> = stated.filter(|line| !is_so(line, &diagnosis)).collect();
        if !wrong.is_empty() || !missing.is_empty() || !untrue.is_empty() {
            complaints
                .push(format!("{head}: missing {missing:?}, wrong {wrong:?}, not so {untrue:?}"));
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
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
fn a_guest_without_any_timer_to_measure_against_is_no_alarm_where_its_hypervisor_has_a_clock() {
    let lost = "[    0.000000] Hypervisor detected: Microsoft Hyper-V\n\
        [    0.000000] tsc: Unable to calibrate against PIT\n\
        [    0.000000] tsc: No reference (HPET/PMTIMER) available\n\
        [    0.000000] tsc: Marking TSC unstable due to could not calculate TSC khz\n";
    let page = "[    1.000000] clocksource: Switched to clocksource hyperv_clocksource_tsc_page\n";
    let well = format!("[    0.000000] Linux version 6.8.0-1029-azure (a)\n{lost}{page}");
    let report = examined(&[(LOG, &well)]).1;
    assert_eq!(report.exit_status(), 0, "{:?}", report.labels);
}
