//! Platforms in words: what `platform:NAME` means, and what is normal there.

/// A platform: its name in `platform:NAME`, as it is written for people, and what is normal there.
#[derive(Debug)]
pub(super) struct Platform {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) about: &'static str,
}

/// The platforms that rules name.
pub(super) const PLATFORMS: &[Platform] = &[
    platform(
        "virtualbox",
        "VirtualBox",
        "The guest should read tsc, or kvm-clock with the paravirtualisation provider kvm. With more \
         than one virtual CPU their counters often disagree at boot, and the kernel refuses tsc. A \
         guest with that provider says `Hypervisor detected: KVM`; DMI tells the difference.",
    ),
    platform(
        "vmware",
        "VMware",
        "The hypervisor states the TSC's rate and vouches for it; a kernel with \
         CONFIG_HYPERVISOR_GUEST then skips its own checks, and tsc is current.",
    ),
    platform(
        "kvm",
        "KVM",
        "tsc is current where the guest is given an invariant TSC (invtsc), kvm-clock otherwise; the \
         vDSO reads both, kvm-clock only while the host's own TSC is stable.",
    ),
    platform(
        "qemu",
        "QEMU",
        "Without KVM's paravirtual clock the guest depends on the CPU model that it is given: one \
         without an invariant TSC ends with acpi_pm or hpet, where each read exits to the host.",
    ),
    platform(
        "xen",
        "Xen",
        "The kernel prefers its clocksource xen. The vDSO reads that one from Linux 4.16 on, and only \
         if the hypervisor says that the TSC is stable; tsc is the faster choice on hosts that never \
         suspend.",
    ),
    platform(
        "aws",
        "Amazon EC2",
        "Instances on Nitro have kvm-clock or tsc, on Graviton arch_sys_counter; all are read by the \
         vDSO. Older instances (t2, c4, m4 and the like) are Xen guests.",
    ),
    platform("gce", "Google Compute Engine", "kvm-clock or tsc; the vDSO reads both."),
    platform(
        "hyperv",
        "Hyper-V",
        "hyperv_clocksource_tsc_page, or tsc where the host offers an invariant TSC. The kernel marks \
         the plain TSC unstable on purpose where it does not, which is no fault.",
    ),
    platform("azure", "Azure", "As Hyper-V: hyperv_clocksource_tsc_page, or tsc on newer hosts."),
    platform(
        "wsl",
        "WSL 2",
        "tsc or hyperv_clocksource_tsc_page. The rate is known to go wrong after the computer slept; \
         `wsl --shutdown` starts it anew.",
    ),
    platform(
        "firecracker",
        "Firecracker",
        "kvm-clock or tsc. Restoring a snapshot leaves the wall clock behind unless something sets it.",
    ),
    platform(
        "cloud-hypervisor",
        "Cloud Hypervisor",
        "kvm-clock or tsc; the clock may be off after a live migration.",
    ),
    platform(
        "gvisor",
        "gVisor",
        "The kernel that answers is a program with a vDSO of its own; what sysfs says is not about the \
         real clock. Measure instead.",
    ),
    platform(
        "hyperkit",
        "HyperKit (Docker Desktop on a Mac)",
        "tsc until the computer sleeps; then it is often lost until the virtual machine starts anew.",
    ),
    platform(
        "bhyve",
        "bhyve",
        "tsc; there is no paravirtual clock for Linux, so what refuses tsc leaves acpi_pm.",
    ),
    platform(
        "nested",
        "a nested virtual machine",
        "Reads of hpet and acpi_pm pass two hypervisors and are slow, which the watchdog takes for a \
         fault of the TSC.",
    ),
    platform(
        "container",
        "a container",
        "The clock is that of the host's kernel; it is mended there, not inside.",
    ),
    platform("bare-metal", "bare metal", "tsc on everything since about 2008."),
    platform(
        "arm64",
        "64-bit ARM",
        "arch_sys_counter, which the vDSO reads unless the kernel works around an erratum of the CPU.",
    ),
    platform(
        "arm32",
        "32-bit ARM",
        "arch_sys_counter where the CPU has it and the firmware set it up; otherwise a timer on the \
         bus, which only the kernel can read.",
    ),
];

const fn platform(name: &'static str, title: &'static str, about: &'static str) -> Platform {
    Platform { name, title, about }
}

/// The platform of that name.
pub(super) fn find(name: &str) -> Option<&'static Platform> {
    PLATFORMS.iter().find(|platform| platform.name == name)
}

/// Its name as it is written for people; the name itself if it is not in the list.
pub(super) fn title(name: &str) -> &str {
    find(name).map_or(name, |platform| platform.title)
}
