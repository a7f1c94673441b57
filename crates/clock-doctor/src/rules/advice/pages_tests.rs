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
    insta::assert_snapshot!(page(&guest, Fix::ParavirtproviderKvm, &[Label::TscWarp]), @r#"
    give the guest KVM's clock: paravirtprovider kvm (on the host)
    The CPUs' counters disagreed when they were compared; kvm-clock gets scale and offset from VirtualBox instead of trusting the guest's comparison.
      VBoxManage --version   # 5.0 or later
      VBoxManage list vms    # NAME below
      sudo systemctl poweroff   # in the guest
      VBoxManage modifyvm NAME --paravirtprovider kvm
      VBoxManage startvm NAME
    ? sudo dmesg | grep kvm-clock   # in the guest; must print lines
    ? cat /sys/devices/system/clocksource/clocksource0/current_clocksource   # must print kvm-clock
    ! Not VBoxInternal/TM/TSCTiedToExecution: that is for debugging guests, not for speed.
    ! This kernel's vDSO does not read kvm-clock (3.6 does not, 4.4 does): a read stays a system call, but not a device's.
    ! With some versions of VirtualBox kvm-clock is irregular: then boot with no-kvmclock.
    "#);
    insta::assert_snapshot!(page(&guest, Fix::TscReliable, &[Label::TscWarp]), @r#"
    a kernel from 3.3 on, booted with tsc=reliable (here)
    The CPUs' counters disagreed when they were compared; with tsc=reliable the kernel does not compare the CPUs, and keeps the TSC.
      uname -r   # first a kernel from 3.3 on
      clockscope wrongness --time 60   # first: no warp, offsets below a read, drift under 100 ppm
      sudo sed -i 's/^GRUB_CMDLINE_LINUX="/&tsc=reliable /' /etc/default/grub
      sudo update-grub
      sudo systemctl reboot
    ? cat /proc/cmdline   # must have tsc=reliable
    ? cat /sys/devices/system/clocksource/clocksource0/current_clocksource   # must print tsc
    ? clockscope doctor   # must say: fast
    ? sudo dmesg | grep -i 'tsc.*unstable'   # must print nothing; else it names the reason
    ! Not without a newer kernel: this one compares the CPUs in spite of tsc=reliable.
    ! Only after `clockscope wrongness` measured the offset between all CPUs as smaller than a read, and the drift as under 100 ppm. A TSC that goes wrong later is not noticed.
    "#);
    insta::assert_snapshot!(page(&guest, Fix::FewerVcpus, &[Label::TscWarp]), @r#"
    give the guest fewer CPUs (on the host)
    The CPUs' counters disagreed when they were compared; with one virtual CPU there is nothing to compare; with few the odds are better.
      sudo systemctl poweroff   # in the guest
      VBoxManage modifyvm NAME --cpus 1
      VBoxManage startvm NAME
    ? cat /sys/devices/system/clocksource/clocksource0/current_clocksource   # must print tsc
    ? clockscope doctor   # must say: fast
    "#);
}

#[test]
fn a_guest_of_kvm_without_an_invariant_tsc() {
    let guest = machine("4.18.0-553.el8.x86_64", "acpi_pm", &["kvm"]);
    insta::assert_snapshot!(page(&guest, Fix::Invtsc, &[Label::GuestLacksInvtsc]), @r#"
    give the guest an invariant TSC (on the host)
    The guest is not given an invariant TSC; with an invariant TSC the guest's kernel trusts its counter.
      # libvirt, `virsh edit GUEST`, then shut it down and start it:
      <cpu mode='host-passthrough' migratable='off'>
        <feature policy='require' name='invtsc'/>
      </cpu>
      <clock offset='utc'>
        <timer name='tsc' present='yes' mode='native'/>
        <timer name='hpet' present='no'/>
      </clock>
      # QEMU alone:
      qemu-system-x86_64 -accel kvm -cpu host,migratable=no,+invtsc ...
    ? grep -o -m1 nonstop_tsc /proc/cpuinfo   # in the guest; must print it
    ? cat /sys/devices/system/clocksource/clocksource0/current_clocksource   # must print tsc
    ? clockscope doctor   # must say: fast
    ! The guest cannot move live to a host with another TSC rate that does not scale it. The host's own TSC must be stable.
    "#);
    insta::assert_snapshot!(page(&guest, Fix::KvmClock, &[Label::NestedOrOverloaded]), @r#"
    give the guest kvm-clock (on the host)
    Virtual CPUs that were not run looked like skew; kvm-clock carries what changes in a pause or a migration.
      # libvirt, `virsh edit GUEST`, below <clock>:
      <timer name='kvmclock' present='yes'/>
      # QEMU alone: -cpu without -kvmclock, with -accel kvm
    ? sudo dmesg | grep kvm-clock   # in the guest; must print lines
    ? cat /sys/devices/system/clocksource/clocksource0/current_clocksource   # must print tsc, or kvm-clock
    ? clockscope doctor   # must say: fast
    ! The guest's kernel needs CONFIG_KVM_GUEST=y and no no-kvmclock.
    "#);
}

#[test]
fn vmware_without_guest_support() {
    let guest = machine("4.4.302", "hpet", &["vmware"]);
    insta::assert_snapshot!(page(&guest, Fix::GuestSupport, &[Label::VmwareGuestSupportMissing]), @r#"
    use a kernel with guest support (here)
    The kernel does not know that VMware vouches for the TSC; with it the kernel takes VMware's word for the TSC, and its rate.
      grep -E 'CONFIG_(HYPERVISOR_GUEST|PARAVIRT)=' /boot/config-$(uname -r)   # =y wanted
      # build the kernel with CONFIG_HYPERVISOR_GUEST=y, or boot the distribution's own
    ? sudo dmesg | grep 'TSC freq read from hypervisor'   # must print a line
    ? cat /sys/devices/system/clocksource/clocksource0/current_clocksource   # must print tsc
    ? clockscope doctor   # must say: fast
    "#);
}

#[test]
fn xen_on_ec2() {
    let guest = with_available(machine("5.4.0-1103-aws", "xen", &["aws", "xen"]), "xen tsc hpet");
    let labels = [Label::VdsoSupportDependsOnKernel];
    insta::assert_snapshot!(page(&guest, Fix::SwitchToTsc, &labels), @r#"
    switch to tsc now (here)
    Nothing speaks against the TSC here; xen is dearer to read.
      echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource
    ? cat /sys/devices/system/clocksource/clocksource0/current_clocksource   # must print tsc
    ? clockscope doctor   # must say: fast
    ? sudo dmesg | tail -n 3   # `Override clocksource tsc is ...`: the kernel refused it
    ! The write reports success even if the kernel refuses.
    ! Not on hosts or guests that suspend, migrate or are restored from snapshots while they keep another source for that reason.
    "#);
    insta::assert_snapshot!(page(&guest, Fix::ClocksourceTsc, &labels), @r#"
    boot with clocksource=tsc tsc=reliable (here)
    Writing the file lasts until the next boot; this keeps it, as AWS recommends for its Xen instances.
      clockscope wrongness --time 60   # first: must find no warp
      sudo sed -i 's/^GRUB_CMDLINE_LINUX="/&clocksource=tsc tsc=reliable /' /etc/default/grub
      sudo update-grub
      sudo systemctl reboot
    ? cat /proc/cmdline   # must have clocksource=tsc tsc=reliable
    ? cat /sys/devices/system/clocksource/clocksource0/current_clocksource   # must print tsc
    ? clockscope doctor   # must say: fast
    ? sudo dmesg | grep -i 'tsc.*unstable'   # must print nothing; else it names the reason
    ! Not on Xen hosts that suspend, and not if the guest migrates live: the time would be wrong afterwards.
    "#);
}

#[test]
fn azure_with_an_old_kernel() {
    let guest = machine("3.10.0-514.26.2.el7.x86_64", "hyperv_clocksource_tsc_page", &["hyperv"]);
    insta::assert_snapshot!(page(&guest, Fix::NewerKernel, &[Label::VdsoSupportDependsOnKernel]), @r#"
    use a kernel from 4.12 on (here)
    From 4.12 on the vDSO reads Hyper-V's page. This one is 3.10.0-514.26.2.el7.x86_64.
      # not by an update of this release: RHEL 8 and its like have 4.18
      sudo systemctl reboot
    ? uname -r   # must be 4.12 or later
    ? clockscope doctor
    ! Vendors add later parts to kernels with old numbers: measure first.
    "#);
}

#[test]
fn wsl_and_firecracker_have_no_boot_loader() {
    let wsl = machine("6.6.87.2-microsoft-standard-WSL2", "hyperv_clocksource_msr", &["wsl"]);
    insta::assert_snapshot!(page(&wsl, Fix::WslShutdown, &[Label::TscRateWrong]), @r#"
    restart WSL (in Windows)
    The kernel takes the TSC to run at another rate than it does; a restart takes rate and offset of the TSC anew.
      wsl --shutdown
      wsl
    ? clockscope wrongness --time 60   # in WSL; the drift must be below 100 ppm
    ! Ends everything that runs in WSL.
    "#);
    insta::assert_snapshot!(page(&wsl, Fix::TscNowatchdog, &[Label::TscWatchdogGlitch]), @r#"
    boot with tsc=nowatchdog (in Windows)
    One bad sample cost the TSC; without the watchdog the kernel keeps the TSC, and still compares the CPUs at boot.
      # add to kernelCommandLine below [wsl2] in %UserProfile%\.wslconfig:
      kernelCommandLine = tsc=nowatchdog
      wsl --shutdown
    ? cat /proc/cmdline   # must have tsc=nowatchdog
    ? cat /sys/devices/system/clocksource/clocksource0/current_clocksource   # must print tsc
    ? clockscope doctor   # must say: fast
    ? sudo dmesg | grep -i 'tsc.*unstable'   # must print nothing; else it names the reason
    ! A TSC that goes wrong later is not noticed. Measure again after updates of firmware or kernel.
    "#);
    let microvm = machine("6.1.141", "kvm-clock", &["firecracker"]);
    insta::assert_snapshot!(page(&microvm, Fix::TscNowatchdog, &[Label::VmPaused]), @r#"
    boot with tsc=nowatchdog (on the host)
    The guest was stopped, which looked like skew; without the watchdog the kernel keeps the TSC, and still compares the CPUs at boot.
      # add to boot_args of the VM's boot source, and start it anew: tsc=nowatchdog
    ? cat /proc/cmdline   # must have tsc=nowatchdog
    ? cat /sys/devices/system/clocksource/clocksource0/current_clocksource   # must print tsc, or kvm-clock
    ? clockscope doctor   # must say: fast
    ? sudo dmesg | grep -i 'tsc.*unstable'   # must print nothing; else it names the reason
    ! A TSC that goes wrong later is not noticed. Measure again after updates of firmware or kernel.
    "#);
}

#[test]
fn a_laptop_whose_firmware_sets_the_counters_apart() {
    let mut laptop = machine("6.17.12-300.fc43.x86_64", "hpet", &["bare-metal"]);
    let dmi = |name: &str, value: &str| {
        Known::new(Sign::Dmi(name.to_owned(), value.to_owned()), "sys/class/dmi/id", value)
    };
    laptop.0.signs = vec![dmi("sys_vendor", "Framework"), dmi("product_name", "Laptop 13")];
    insta::assert_snapshot!(page(&laptop, Fix::BiosUpdate, &[Label::TscWarpFirmware]), @r#"
    update the firmware (here)
    The firmware left the CPUs' counters far apart; only the firmware can set that right. This machine is Framework Laptop 13.
      grep . /sys/class/dmi/id/bios_{vendor,version,date}
      fwupdmgr refresh && fwupdmgr get-updates && fwupdmgr update
      # else from the vendor's site
      sudo systemctl poweroff   # a cold start: a warm one may keep counters
    ? sudo dmesg | grep -i -e 'tsc warp' -e 'TSC ADJUST' -e 'tsc.*unstable'   # must print nothing
    ? clockscope wrongness   # must find no warp
    ! Measure again after it.
    "#);
    insta::assert_snapshot!(page(&laptop, Fix::Keep, &[Label::TscHaltsInIdle]), @r#"
    keep hpet (here)
    The counter stops in deep sleep; the present clocksource is slower and right.
    "#);
}

#[test]
fn an_arm_board_with_an_erratum() {
    let board = machine("6.8.0", "arch_sys_counter", &["bare-metal", "arm64"]);
    insta::assert_snapshot!(page(&board, Fix::Coarse, &[Label::ArmErratumVdsoOff]), @r#"
    read a coarse clock where a tick will do (here)
    A CPU erratum takes the clock out of the vDSO; coarse clocks stay cheap, since they read no device.
      clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    ! Up to two ticks old: for time stamps of a log, not for durations below 10 ms.
    "#);
}

#[test]
fn parameters_are_taken_off_by_name() {
    let suse = machine("5.3.18-150300.59.112-default", "acpi_pm", &["bare-metal"]);
    let suse = with_command_line(suse, "root=/dev/sda1 clocksource=hpet hpet=disable quiet");
    let suse = with_available(suse, "acpi_pm");
    insta::assert_snapshot!(page(&suse, Fix::RemoveParameter, &[Label::ParamClocksourceUnavailable]), @r#"
    take clocksource=hpet and hpet=disable off the command line (here)
    The command line names a clocksource that does not exist here; without it the kernel chooses by itself.
      sudo sed -i 's/\bclocksource=hpet\b *//' /etc/default/grub
      sudo sed -i 's/\bhpet=disable\b *//' /etc/default/grub
      sudo grub2-mkconfig -o /boot/grub2/grub.cfg
      sudo systemctl reboot
    ? cat /proc/cmdline   # must not have clocksource=hpet, hpet=disable
    ? cat /sys/devices/system/clocksource/clocksource0/available_clocksource   # must have hpet
    ! If the boot loader's configuration does not have it, it is built into the kernel: `grep CONFIG_CMDLINE /boot/config-$(uname -r)`.
    ! If it was there for a reason, the kernel's log of the next boot says so: read it.
    "#);
}

#[test]
fn a_log_tells_its_reader_what_to_look_for() {
    let unknown = machine("", "hpet", &[]);
    insta::assert_snapshot!(page(&unknown, Fix::ReadLog, &[Label::TscAbsent]), @r#"
    read why the kernel gave the TSC up (here)
    The kernel printed once why it uses hpet; the fix depends on it.
      sudo dmesg | grep -i -e tsc -e clocksource -e hpet -e 'pm-timer'
      journalctl -k -b | grep -i -e tsc -e clocksource -e hpet -e 'pm-timer'   # where dmesg no longer reaches back to the boot
      sudo clockscope doctor   # reads it by itself
    ! Look for `Marking TSC unstable due to ...`, `Measured ... cycles TSC warp`, `Marking clocksource 'tsc' as unstable`.
    "#);
}

#[test]
fn a_fix_that_cannot_help_is_not_written() {
    let old = machine("4.19.0", "acpi_pm", &["bare-metal"]);
    let none = |machine: &(Facts, Verdict), fix: Fix| {
        assert!(write_for(machine, fix, &[Label::TscWatchdogGlitch]).is_none(), "{fix}");
    };
    none(&old, Fix::TscNowatchdog);
    none(&old, Fix::TscRecalibrate);
    none(&old, Fix::WslShutdown);
    none(&old, Fix::ParavirtproviderKvm);
    let set =
        with_command_line(machine("6.1.0", "hpet", &["kvm"]), "ro tsc=reliable clocksource=tsc");
    none(&set, Fix::TscNowatchdog);
    none(&set, Fix::TscReliable);
    none(&set, Fix::ClocksourceTsc);
    none(&set, Fix::BiosUpdate);
    let listed = with_available(machine("6.1.0", "hpet", &[]), "hpet acpi_pm");
    none(&listed, Fix::SwitchToTsc);
    none(&listed, Fix::ClocksourceTsc);
    none(&listed, Fix::SwitchSource);
    none(&with_available(machine("6.1.0", "tsc", &[]), "tsc hpet"), Fix::SwitchToTsc);
    assert!(
        write_for(&machine("4.18.0-553.el8_10.x86_64", "hpet", &[]), Fix::TscNowatchdog, &[])
            .is_some()
    );
}

#[test]
fn programs_are_told_the_words_that_people_are_told() {
    let words = |machine: &(Facts, Verdict), fix| {
        let advice =
            write_for(machine, fix, &[Label::TscWatchdogSkew, Label::ParamTscUnstable]).unwrap();
        let commands = advice.commands.join("\n");
        let parameters = advice.kernel_parameters?;
        let all = parameters.add.iter().chain(&parameters.remove);
        assert!(
            all.clone().count() > 0 && all.clone().all(|word| commands.contains(&**word)),
            "{commands}"
        );
        Some((parameters.add.join(" "), parameters.remove.join(" ")))
    };
    let machine = |platforms: &[&'static str]| machine("6.1.0-18-amd64", "hpet", platforms);
    let added = |text: &str| Some((text.to_owned(), String::new()));
    assert_eq!(words(&machine(&[]), Fix::TscNowatchdog), added("tsc=nowatchdog"));
    assert_eq!(
        words(&machine(&["aws", "xen"]), Fix::ClocksourceTsc),
        added("clocksource=tsc tsc=reliable")
    );
    let set = with_command_line(machine(&[]), "quiet notsc nohpet");
    let removed = words(&set, Fix::RemoveParameter);
    assert!(removed.is_some_and(|(add, remove)| add.is_empty() && remove.contains("notsc")));
    // Not if another system sets the command line, or if the parameter alone would not help.
    assert_eq!(words(&machine(&["wsl2"]), Fix::TscNowatchdog), None);
    assert_eq!(words(&machine(&["firecracker"]), Fix::TscNowatchdog), None);
    assert_eq!(words(&machine(&[]), Fix::Measure), None);
    assert_eq!(words(&machine(&[]), Fix::TscEarlyKhz), None, "nobody knows the rate");
    let old = write_for(
        &super::pages_tests::machine("3.2.0", "acpi_pm", &[]),
        Fix::TscReliable,
        &[Label::TscWarp],
    );
    assert_eq!(old.unwrap().kernel_parameters, None);
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
