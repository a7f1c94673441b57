//! The kernel's lines about its hypervisor.

use super::tokens::{after, phrase};
use crate::log::event::EventKind;

/// `Hypervisor detected: NAME`, `Booting paravirtualized kernel on NAME`, systemd's `Detected virtualization NAME.`
pub(crate) fn hypervisor(message: &str, at: usize) -> Option<EventKind> {
    let words = ["detected: ", "kernel on ", "virtualization "];
    let name = phrase(words.iter().find_map(|word| after(&message[at..], word))?);
    Some(EventKind::Hypervisor(name.trim_matches(['.', '\'', ' ']).to_owned()))
}

/// `kvm-clock: ...` at the beginning of a line; elsewhere it is only the name of a clocksource.
pub(crate) fn kvm_clock(_: &str, at: usize) -> Option<EventKind> {
    (at == 0).then_some(EventKind::KvmClock)
}

/// `Xen version V`
pub(crate) fn xen(message: &str, at: usize) -> Option<EventKind> {
    let rest = message[at..].strip_prefix("Xen version")?;
    let version = rest.trim_start_matches([':', ' ']);
    version.starts_with(|c: char| c.is_ascii_digit()).then_some(EventKind::OfPlatform("xen"))
}

/// Prefixes of lines that only one platform's code prints: `arch/x86/xen/`, `drivers/xen/`, `arch/x86/kernel/kvm.c`,
/// `cpu/vmware.c`, `drivers/hv/`, `drivers/virt/vboxguest/`, `drivers/firmware/smccc/kvm_guest.c`,
/// `arch/arm64/kernel/cpufeature.c`, `arch/riscv/kernel/sbi.c`, Linux 6.12. Drivers for devices that other hypervisors
/// emulate too, such as vmxnet3, are not listed.
pub(super) const SIGNATURES: [(&str, &str); 23] = [
    ("Xen:", "xen"),
    ("xen:", "xen"),
    ("xen_netfront", "xen"),
    ("vmware:", "vmware"),
    ("vmw_vmci", "vmware"),
    ("vmw_balloon", "vmware"),
    ("vboxguest:", "virtualbox"),
    ("kvm-guest:", "kvm"),
    ("kvm-stealtime:", "kvm"),
    ("KVM setup ", "kvm"),
    ("smccc: KVM: hypervisor services", "kvm"),
    ("Hyper-V:", "hyperv"),
    ("Hyper-V Host Build", "hyperv"),
    ("HyperV:", "hyperv"),
    ("hyperv_", "hyperv"),
    ("hv_", "hyperv"),
    ("CPU features: detected: ", "arm64"),
    ("Detected PIPT I-cache on CPU", "arm64"),
    ("Detected VIPT I-cache on CPU", "arm64"),
    ("riscv_timer_init", "riscv64"),
    ("SBI specification v", "riscv64"),
    ("VBOX HARDDISK", "virtualbox"),
    ("VirtualBox USB Tablet", "virtualbox"),
];

/// The platform of that signature. The names of VirtualBox's devices stand anywhere in a line of its guest.
pub(super) fn signature(number: usize, at: usize) -> Option<EventKind> {
    let (text, platform) = SIGNATURES[number];
    let is_device = text.starts_with("VBOX") || text.starts_with("VirtualBox");
    (at == 0 || is_device).then_some(EventKind::OfPlatform(platform))
}

/// Vendor names in the first ACPI table of hypervisors' firmware.
const FIRMWARE: [(&str, &str); 9] = [
    ("BOCHS", "qemu"),
    ("VBOX", "virtualbox"),
    ("GOOGLE", "gce"),
    ("AMAZON", "aws"),
    ("BHYVE", "bhyve"),
    ("Xen", "xen"),
    ("VRTUAL", "hyperv"),
    ("CLOUDH", "cloud-hypervisor"),
    ("FIRECK", "firecracker"),
];

/// `ACPI: RSDP 0x00000000000F05B0 000014 (v00 BOCHS )`
pub(crate) fn firmware(message: &str, _: usize) -> Option<EventKind> {
    let rest = after(message.strip_prefix("ACPI: RSDP ")?, "(v")?;
    let maker = rest.get(2..)?.strip_prefix(' ')?.split([' ', ')']).next()?;
    let found = FIRMWARE.iter().find(|(name, _)| *name == maker);
    found.map(|(_, platform)| EventKind::OfPlatform(platform))
}

/// `tdx: Guest detected` (`arch/x86/coco/tdx/tdx.c`), `Memory Encryption Features active: AMD SEV SEV-ES SEV-SNP`
/// (`arch/x86/mm/mem_encrypt.c`), `SEV: Status: SEV SEV-ES SEV-SNP SecureTSC` (`arch/x86/coco/sev/core.c`), and
/// systemd's line. A host that only encrypts its memory prints `AMD SME`.
pub(crate) fn confidential(message: &str, at: usize) -> Option<EventKind> {
    let said = &message[at..];
    let begins = |texts: &[&str]| texts.iter().any(|text| said.starts_with(text));
    const TDX: [&str; 3] = [
        "tdx: Guest detected",
        "Memory Encryption Features active: Intel TDX",
        "Detected confidential virtualization tdx",
    ];
    const SEV: [&str; 3] = [
        "SEV: Using SNP CPUID table",
        "SEV: SNP running at",
        "Detected confidential virtualization sev",
    ];
    if begins(&TDX) {
        return Some(EventKind::Confidential("Intel TDX"));
    }
    let is_list = begins(&["Memory Encryption Features active:", "SEV: Status:"]);
    let has = |word: &str| said.split([' ', '.', ',']).any(|one| one == word);
    if is_list && has("SEV-SNP") && has("SecureTSC") {
        return Some(EventKind::Confidential("AMD SEV-SNP"));
    }
    (is_list && has("SEV") || begins(&SEV)).then_some(EventKind::VirtualMachine)
}
