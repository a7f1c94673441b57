//! Fixes in the form that the user of each kind of machine sees.

use super::*;
use crate::facts::{CommandLine, Kernel, Known, Sign};
use crate::rules::catalogue::{Fix, Label};
use crate::rules::finding::State;

/// A machine: its kernel, platforms and current clocksource; `""` if unknown.
fn machine(kernel: &str, source: &str, platforms: &[&'static str]) -> (Facts, Verdict) {
    let kernel = Kernel::parse(kernel).map(|kernel| Known::new(kernel, "proc/version", ""));
    let verdict = Verdict {
        state: State::Slow,
        source: (!source.is_empty()).then(|| source.to_owned()),
        platforms: platforms.to_vec(),
        ..Verdict::default()
    };
    (Facts { kernel, ..Facts::default() }, verdict)
}

fn with_command_line(mut machine: (Facts, Verdict), line: &str) -> (Facts, Verdict) {
    machine.0.command_line = Some(Known::new(CommandLine::parse(line), "proc/cmdline", line));
    machine
}

fn with_available(mut machine: (Facts, Verdict), names: &str) -> (Facts, Verdict) {
    let list = names.split_whitespace().map(str::to_owned).collect();
    machine.0.available = Some(Known::new(list, "available_clocksource", names));
    machine
}

fn write_for(machine: &(Facts, Verdict), fix: Fix, labels: &[Label]) -> Option<Advice> {
    let findings: Vec<Finding> = labels.iter().map(|&label| Finding::new(label)).collect();
    let because: Vec<&Finding> = findings.iter().collect();
    write(fix, &machine.0, &machine.1, &because)
}

/// The text for the user, without the references.
fn page(machine: &(Facts, Verdict), fix: Fix, labels: &[Label]) -> String {
    let advice = write_for(machine, fix, labels).unwrap();
    let mut lines = vec![format!("{} ({})", advice.title, advice.place), advice.why];
    lines.extend(advice.commands.iter().map(|line| format!("  {line}")));
    lines.extend(advice.verify.iter().map(|line| format!("? {line}")));
    lines.extend(advice.caveats.iter().map(|line| format!("! {line}")));
    lines.join("\n")
}

#[test]
fn virtualbox_after_a_warp() {
    let guest = machine("3.2.0-4-amd64", "acpi_pm", &["virtualbox"]);
    insta::assert_snapshot!(page(&guest, Fix::ParavirtproviderKvm, &[Label::TscWarp]));
    insta::assert_snapshot!(page(&guest, Fix::TscReliable, &[Label::TscWarp]));
    insta::assert_snapshot!(page(&guest, Fix::FewerVcpus, &[Label::TscWarp]));
}

#[test]
fn vmware_without_guest_support() {
    let guest = machine("4.4.302", "hpet", &["vmware"]);
    insta::assert_snapshot!(page(&guest, Fix::GuestSupport, &[Label::VmwareGuestSupportMissing]));
}

#[test]
fn wsl_and_firecracker_have_no_boot_loader() {
    let wsl = machine("6.6.87.2-microsoft-standard-WSL2", "hyperv_clocksource_msr", &["wsl"]);
    insta::assert_snapshot!(page(&wsl, Fix::WslShutdown, &[Label::TscRateWrong]));
    insta::assert_snapshot!(page(&wsl, Fix::TscNowatchdog, &[Label::TscWatchdogGlitch]));
    let microvm = machine("6.1.141", "kvm-clock", &["firecracker"]);
    insta::assert_snapshot!(page(&microvm, Fix::TscNowatchdog, &[Label::VmPaused]));
}

#[test]
fn a_laptop_whose_firmware_sets_the_counters_apart() {
    let mut laptop = machine("6.17.12-300.fc43.x86_64", "hpet", &["bare-metal"]);
    let dmi = |name: &str, value: &str| {
        Known::new(Sign::Dmi(name.to_owned(), value.to_owned()), "sys/class/dmi/id", value)
    };
    laptop.0.signs = vec![dmi("sys_vendor", "Framework"), dmi("product_name", "Laptop 13")];
    insta::assert_snapshot!(page(&laptop, Fix::BiosUpdate, &[Label::TscWarpFirmware]));
}

#[test]
fn parameters_are_taken_off_by_name() {
    let suse = machine("5.3.18-150300.59.112-default", "acpi_pm", &["bare-metal"]);
    let suse = with_command_line(suse, "root=/dev/sda1 clocksource=hpet hpet=disable quiet");
    let suse = with_available(suse, "acpi_pm");
    let text = page(&suse, Fix::RemoveParameter, &[Label::ParamClocksourceUnavailable]);
    insta::assert_snapshot!(text);
}

#[test]
fn a_fix_that_cannot_help_is_not_written() {
    let old = machine("4.19.0", "acpi_pm", &["bare-metal"]);
    let none = |machine: &(Facts, Verdict), fixes: &[Fix]| {
        for fix in fixes {
            assert!(write_for(machine, *fix, &[Label::TscWatchdogGlitch]).is_none(), "{fix}");
        }
    };
    none(&old, &[Fix::TscNowatchdog, Fix::TscRecalibrate]);
    none(&old, &[Fix::WslShutdown, Fix::ParavirtproviderKvm]);
    let set =
        with_command_line(machine("6.1.0", "hpet", &["kvm"]), "ro tsc=reliable clocksource=tsc");
    none(&set, &[Fix::TscNowatchdog, Fix::TscReliable, Fix::ClocksourceTsc, Fix::BiosUpdate]);
    let listed = with_available(machine("6.1.0", "hpet", &[]), "hpet acpi_pm");
    none(&listed, &[Fix::SwitchToTsc, Fix::ClocksourceTsc, Fix::SwitchSource]);
    none(&with_available(machine("6.1.0", "tsc", &[]), "tsc hpet"), &[Fix::SwitchToTsc]);
    let el8 = machine("4.18.0-553.el8_10.x86_64", "hpet", &[]);
    assert!(write_for(&el8, Fix::TscNowatchdog, &[]).is_some());
}

#[test]
fn programs_are_told_the_words_that_people_are_told() {
    let words = |machine: &(Facts, Verdict), fix| {
        let labels = [Label::TscWatchdogSkew, Label::ParamTscUnstable];
        let advice = write_for(machine, fix, &labels).unwrap();
        let commands = advice.commands.join("\n");
        let parameters = advice.kernel_parameters?;
        let all = [&parameters.add[..], &parameters.remove].concat();
        assert!(!all.is_empty() && all.iter().all(|word| commands.contains(&**word)), "{commands}");
        Some((parameters.add.join(" "), parameters.remove.join(" ")))
    };
    let on = |platforms: &[&'static str]| machine("6.1.0-18-amd64", "hpet", platforms);
    let added = |text: &str| Some((text.to_owned(), String::new()));
    let reliable = added("clocksource=tsc tsc=reliable");
    assert_eq!(words(&on(&[]), Fix::TscNowatchdog), added("tsc=nowatchdog"));
    assert_eq!(words(&on(&["aws", "xen"]), Fix::ClocksourceTsc), reliable);
    let set = with_command_line(on(&[]), "quiet notsc nohpet");
    let removed = words(&set, Fix::RemoveParameter);
    assert!(removed.is_some_and(|(add, remove)| add.is_empty() && remove.contains("notsc")));
    // Not if another system sets the command line, or if the parameter alone would not help.
    assert_eq!(words(&on(&["wsl2"]), Fix::TscNowatchdog), None);
    assert_eq!(words(&on(&["firecracker"]), Fix::TscNowatchdog), None);
    assert_eq!(words(&on(&[]), Fix::Measure), None);
    assert_eq!(words(&on(&[]), Fix::TscEarlyKhz), None, "nobody knows the rate");
    let old = machine("3.2.0", "acpi_pm", &[]);
    let advice = write_for(&old, Fix::TscReliable, &[Label::TscWarp]).unwrap();
    assert_eq!(advice.kernel_parameters, None);
}

#[test]
fn nobody_is_told_to_do_what_must_not_be_done() {
    let platforms =
        ["", "virtualbox", "kvm", "qemu", "xen", "aws", "hyperv", "wsl", "vmware", "bare-metal"];
    for platform in platforms {
        let platforms: Vec<&'static str> =
            [platform].into_iter().filter(|name| !name.is_empty()).collect();
        for kernel in ["", "2.6.32", "3.2.0", "5.10.0-18-amd64", "6.12.0", "7.1.0"] {
            let machine = machine(kernel, "acpi_pm", &platforms);
            let written = Fix::ALL.into_iter().filter_map(|fix| {
                write_for(&machine, fix, &[Label::TscWatchdogSkew, Label::TscWarp])
            });
            for advice in written {
                let text = advice.commands.join("\n");
                for bad in [
                    "tsc=unstable",
                    "hpet=force",
                    "unbind_clocksource",
                    "TSCTiedToExecution",
                    "--clock tsc",
                ] {
                    assert!(!text.contains(bad), "{}: {text}", advice.name);
                }
                let turns_checks_off = text.contains("tsc=reliable");
                assert!(!turns_checks_off || text.contains("wrongness"), "{}: {text}", advice.name);
                let writes = text.contains("tee /sys/devices/system/clocksource");
                assert!(
                    !writes
                        || advice.verify.iter().any(|line| line.contains("current_clocksource"))
                );
                assert!(!advice.why.is_empty() && !advice.reference.is_empty(), "{}", advice.name);
            }
        }
    }
}
