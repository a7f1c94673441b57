//! Fixes on a hypervisor, and those that only a guest needs.

use super::{Case, Draft, Place};
use crate::rules::catalogue::Label;

const SHUT_DOWN: &str = "sudo systemctl poweroff   # in the guest";
/// Platforms whose hypervisor is somebody else's.
const CLOUDS: [&str; 4] = ["aws", "gce", "azure", "firecracker"];

fn own(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|&line| line.to_owned()).collect()
}

fn is_qemu(case: &Case) -> bool {
    case.is(&["kvm", "qemu"]) && !case.is(&CLOUDS) && !case.is(&["virtualbox", "bhyve", "hyperkit"])
}

/// Of VirtualBox alone.
pub(super) fn paravirtprovider(case: &Case) -> Option<Draft> {
    if !case.is(&["virtualbox"]) {
        return None;
    }
    let mut caveats = own(&[
        "Not VBoxInternal/TM/TSCTiedToExecution: that is for debugging guests, not for speed.",
    ]);
    if case.kernel_since(3, 8, Some(7)) == Some(false) {
        caveats.push(
            "This kernel's vDSO does not read kvm-clock (3.6 does not, 4.4 does): a read stays a \
             system call, but not a device's."
                .to_owned(),
        );
    }
    Some(Draft {
        title: Some("give the guest KVM's clock: paravirtprovider kvm".to_owned()),
        why: case.so("kvm-clock gets scale and offset from VirtualBox instead of trusting the guest's comparison."),
        place: Place::Host,
        commands: own(&[
            "VBoxManage --version   # 5.0 or later",
            "VBoxManage list vms    # NAME below",
            SHUT_DOWN,
            "VBoxManage modifyvm NAME --paravirtprovider kvm",
            "VBoxManage startvm NAME",
        ]),
        verify: [
            own(&["sudo dmesg | grep kvm-clock   # in the guest; must print lines"]),
            case.verify_source(case.next),
        ]
        .concat(),
        caveats,
        ..Draft::default()
    })
}

/// For guests only.
pub(super) fn fewer_vcpus(case: &Case) -> Option<Draft> {
    if !case.is_guest() || case.is(&CLOUDS) {
        return None;
    }
    let commands = if case.is(&["virtualbox"]) {
        own(&[SHUT_DOWN, "VBoxManage modifyvm NAME --cpus 1", "VBoxManage startvm NAME"])
    } else if is_qemu(case) {
        own(&[
            SHUT_DOWN,
            "virsh setvcpus GUEST 1 --config",
            "virsh start GUEST   # without libvirt: -smp 1",
        ])
    } else {
        own(&["# in the hypervisor's settings, while the guest is off"])
    };
    Some(Draft {
        why: case
            .so("with one virtual CPU there is nothing to compare; with few the odds are better."),
        place: Place::Host,
        commands,
        verify: case.verify_source(case.next),
        ..Draft::default()
    })
}

/// For guests of KVM, or where nothing says whose guest it is.
pub(super) fn invtsc(case: &Case) -> Option<Draft> {
    let elsewhere =
        ["bare-metal", "virtualbox", "vmware", "bhyve", "wsl", "wsl2", "xen", "hyperkit", "gvisor"];
    if case.is(&CLOUDS) || case.is(&elsewhere) || case.is_container() {
        return None;
    }
    if case.is(&["hyperv"]) {
        return Some(Draft {
            why: case
                .so("newer hosts offer an invariant TSC, and the kernel then reads the plain TSC."),
            place: Place::Host,
            commands: own(&["# move the guest to a host, or a VM size, of a newer generation"]),
            verify: case.verify_source(case.next),
            has_own_risk: true,
            ..Draft::default()
        });
    }
    Some(Draft {
        why: case.so("with an invariant TSC the guest's kernel trusts its counter."),
        place: Place::Host,
        commands: own(&[
            "# libvirt, `virsh edit GUEST`, then shut it down and start it:",
            "<cpu mode='host-passthrough' migratable='off'>",
            "  <feature policy='require' name='invtsc'/>",
            "</cpu>",
            "<clock offset='utc'>",
            "  <timer name='tsc' present='yes' mode='native'/>",
            "  <timer name='hpet' present='no'/>",
            "</clock>",
            "# QEMU alone:",
            "qemu-system-x86_64 -accel kvm -cpu host,migratable=no,+invtsc ...",
        ]),
        verify: [
            own(&["grep -o -m1 nonstop_tsc /proc/cpuinfo   # in the guest; must print it"]),
            case.verify_source(case.next),
        ]
        .concat(),
        ..Draft::default()
    })
}

/// For guests of KVM.
pub(super) fn kvm_clock(case: &Case) -> Option<Draft> {
    if case.is(&["virtualbox"]) {
        return paravirtprovider(case);
    }
    let others = ["vmware", "bhyve", "xen", "hyperv", "wsl", "wsl2", "hyperkit", "bare-metal"];
    if case.is(&others)
        || case.is_container()
        || case.verdict.source.as_deref() == Some("kvm-clock")
    {
        return None;
    }
    let mut commands = own(&[
        "# libvirt, `virsh edit GUEST`, below <clock>:",
        "<timer name='kvmclock' present='yes'/>",
        "# QEMU alone: -cpu without -kvmclock, with -accel kvm",
    ]);
    if !is_qemu(case) {
        commands.extend(own(&[
            "# another monitor: show the guest KVM's CPUID leaves (0x40000000, and in 0x40000001 bits 0 and 3)",
            "#   or, for a TSC with a known rate, leaf 0x15 (Intel; Linux 4.9 or later)",
        ]));
    }
    let effect = match case.found(&[Label::RateRiskTicks]) {
        true => "kvm-clock is the host's time, which loses no tick.",
        false => "kvm-clock carries what changes in a pause or a migration.",
    };
    Some(Draft {
        why: case.so(effect),
        place: Place::Host,
        commands,
        verify: [
            own(&["sudo dmesg | grep kvm-clock   # in the guest; must print lines"]),
            case.verify_source(case.next),
        ]
        .concat(),
        caveats: own(&["The guest's kernel needs CONFIG_KVM_GUEST=y and no no-kvmclock."]),
        ..Draft::default()
    })
}

/// For guests only.
pub(super) fn pin_vcpus(case: &Case) -> Option<Draft> {
    if !case.is_guest() {
        return None;
    }
    let mut place = Place::Host;
    let commands = if case.is(&CLOUDS) {
        place = Place::Here;
        own(&["vmstat 1 10   # column st: time that the host took; above 0: another instance type"])
    } else if is_qemu(case) {
        own(&[
            "virsh vcpuinfo GUEST",
            "virsh vcpupin GUEST 0 2 --config   # virtual CPU 0 on CPU 2, and so on for each",
        ])
    } else {
        own(&["# no more virtual CPUs, of all guests together, than the host has real ones"])
    };
    Some(Draft {
        why: case.so("a virtual CPU with a CPU of its own is not kept waiting."),
        place,
        commands,
        verify: own(&["vmstat 1 10   # in the guest: column st must be 0"]),
        ..Draft::default()
    })
}

/// Of VMware alone.
pub(super) fn guest_support(case: &Case) -> Option<Draft> {
    if !case.is(&["vmware"]) {
        return None;
    }
    Some(Draft {
        why: case.so("with it the kernel takes VMware's word for the TSC, and its rate."),
        commands: own(&[
            "grep -E 'CONFIG_(HYPERVISOR_GUEST|PARAVIRT)=' /boot/config-$(uname -r)   # =y wanted",
            "# build the kernel with CONFIG_HYPERVISOR_GUEST=y, or boot the distribution's own",
        ]),
        verify: [
            own(&["sudo dmesg | grep 'TSC freq read from hypervisor'   # must print a line"]),
            case.verify_source(case.next),
        ]
        .concat(),
        ..Draft::default()
    })
}

/// For guests whose host decides.
pub(super) fn host_tsc(case: &Case) -> Option<Draft> {
    if case.is(&CLOUDS) || case.is(&["bare-metal"]) {
        return None;
    }
    let promise = if case.is_fast(case.next) { "; must say: fast" } else { "" };
    Some(Draft {
        why: case.so("the host says that its TSC is stable only if its own kernel uses it."),
        place: Place::Host,
        commands: own(&["clockscope doctor   # on the host; mend what it finds first"]),
        verify: own(&[
            &format!("cat {}   # on the host; must print tsc", super::CURRENT),
            &format!("clockscope doctor   # in the guest{promise}"),
        ]),
        ..Draft::default()
    })
}

/// Suspend with the host.
pub(super) fn suspend_guests(case: &Case) -> Option<Draft> {
    if !case.is_guest() {
        return None;
    }
    let commands = if case.is(&["hyperkit"]) {
        own(&["# after the host slept: restart Docker Desktop"])
    } else if is_qemu(case) {
        own(&[
            "virsh dompmsuspend GUEST mem   # before the host sleeps; needs the guest agent",
            "virsh dompmwakeup GUEST",
            "virsh domtime GUEST --sync",
        ])
    } else {
        own(&["# suspend the guest before the host sleeps, by the hypervisor's own means"])
    };
    Some(Draft {
        why: case.so("a guest that is told of a suspend sets its clock right afterwards."),
        place: Place::Host,
        commands,
        verify: own(&["clockscope doctor   # in the guest, after the next suspend"]),
        ..Draft::default()
    })
}

/// A full shutdown with the number of CPUs set.
pub(super) fn cold_boot(case: &Case) -> Draft {
    let commands = if case.is(&["virtualbox"]) {
        own(&[SHUT_DOWN, "VBoxManage modifyvm NAME --cpus N", "VBoxManage startvm NAME"])
    } else if is_qemu(case) {
        own(&[SHUT_DOWN, "virsh setvcpus GUEST N --config", "virsh start GUEST"])
    } else {
        own(&[
            SHUT_DOWN,
            "# set the number of CPUs in the hypervisor while the guest is off; start it",
        ])
    };
    Draft {
        why: case
            .so("CPUs that are there from the start count together. A reboot alone may not do."),
        place: Place::Host,
        commands,
        verify: [
            own(&["sudo dmesg | grep -i 'tsc warp'   # in the guest; must print nothing"]),
            case.verify_source(case.next),
        ]
        .concat(),
        ..Draft::default()
    }
}

/// Of WSL alone.
pub(super) fn wsl_shutdown(case: &Case) -> Option<Draft> {
    if !case.is(&["wsl", "wsl2"]) {
        return None;
    }
    Some(Draft {
        why: case.so("a restart takes rate and offset of the TSC anew."),
        place: Place::Windows,
        commands: own(&["wsl --shutdown", "wsl"]),
        verify: own(&[
            "clockscope wrongness --time 60   # in WSL; the drift must be below 100 ppm",
        ]),
        ..Draft::default()
    })
}
