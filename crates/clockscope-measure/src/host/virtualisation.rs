//! Names the hypervisor from its signs, in the order of `systemd-detect-virt --vm`. Pure.

use clockscope_sys::identity::HAS_CPUID;

/// Signs of a hypervisor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Signs {
    /// The hypervisor's name by CPUID, if the CPU reports a hypervisor.
    pub(super) cpuid: Option<String>,
    /// Contents of the DMI fields that name a vendor or product.
    pub(super) dmi: Vec<String>,
    /// Content of `/proc/xen/capabilities`; `None` without `/proc/xen`.
    pub(super) xen: Option<String>,
    /// Content of `/sys/hypervisor/type`.
    pub(super) sys_hypervisor: Option<String>,
    /// Content of `hypervisor/compatible` in the device tree.
    pub(super) device_tree: Option<String>,
    /// The kernel's release, which names WSL.
    pub(super) kernel: String,
    /// Whether `/proc/cpuinfo` names User Mode Linux.
    pub(super) user_mode: bool,
    /// Whether `/proc/cpuinfo` has the flag `hypervisor`.
    pub(super) flag: bool,
}

/// Beginnings of DMI fields. Clouds come first: they replace the hypervisor's names with their own.
const DMI: [(&str, &str); 19] = [
    ("Amazon EC2", "amazon"),
    ("Google Compute Engine", "google"),
    ("Google", "google"),
    ("OracleCloud", "oracle"),
    ("innotek GmbH", "oracle"),
    ("VirtualBox", "oracle"),
    ("Xen", "xen"),
    ("Parallels", "parallels"),
    ("KVM", "kvm"),
    ("OpenStack", "kvm"),
    ("KubeVirt", "kvm"),
    ("QEMU", "qemu"),
    ("VMware", "vmware"),
    ("VMW", "vmware"),
    ("Bochs", "bochs"),
    ("BHYVE", "bhyve"),
    ("Hyper-V", "microsoft"),
    ("Virtual Machine", "microsoft"),
    ("Apple Virtualization", "apple"),
];
/// Names from [`DMI`] that go before CPUID.
const DMI_FIRST: [&str; 5] = ["amazon", "google", "oracle", "xen", "parallels"];
const CPUID: [(&str, &str); 12] = [
    ("XenVMMXenVMM", "xen"),
    ("KVMKVMKVM", "kvm"),
    ("Linux KVM Hv", "kvm"),
    ("TCGTCGTCGTCG", "qemu"),
    ("VMwareVMware", "vmware"),
    ("Microsoft Hv", "microsoft"),
    ("bhyve bhyve ", "bhyve"),
    ("VBoxVBoxVBox", "oracle"),
    ("ACRNACRNACRN", "acrn"),
    (" lrpepyh  vr", "parallels"),
    (" prl hyperv  ", "parallels"),
    ("QNXQVMBSQG", "qnx"),
];

/// The hypervisor's short name as in `systemd-detect-virt`; `wsl` for the Windows Subsystem for Linux, `none`
/// without a hypervisor, `unknown` for a hypervisor without a known name; `None` if the signs do not decide.
pub(super) fn name(signs: &Signs) -> Option<String> {
    let kernel = signs.kernel.to_ascii_lowercase();
    if kernel.contains("microsoft") || kernel.ends_with("-wsl2") {
        return Some("wsl".to_owned());
    }
    let dmi = by_dmi(&signs.dmi);
    if let Some(first) = dmi.filter(|name| DMI_FIRST.contains(name)) {
        return Some(first.to_owned());
    }
    if signs.user_mode {
        return Some("uml".to_owned());
    }
    if let Some(capabilities) = &signs.xen {
        // The control domain runs on the machine itself.
        let name = if capabilities.contains("control_d") { "none" } else { "xen" };
        return Some(name.to_owned());
    }
    let by_cpuid = signs.cpuid.as_deref().map(|vendor| {
        CPUID.iter().find(|(known, _)| vendor.starts_with(known.trim_end())).map(|found| found.1)
    });
    if let Some(Some(name)) = by_cpuid {
        return Some(name.to_owned());
    }
    let tree = signs.device_tree.as_deref().map(by_device_tree);
    let system = signs.sys_hypervisor.as_deref().map(str::trim).filter(|name| !name.is_empty());
    let unknown = (by_cpuid.is_some() || signs.flag).then_some("unknown");
    // Only the absence of CPUID's sign proves that there is no hypervisor.
    let none = HAS_CPUID.then_some("none");
    dmi.or(system).or(tree).or(unknown).or(none).map(str::to_owned)
}

fn by_dmi(fields: &[String]) -> Option<&'static str> {
    let find = |field: &String| DMI.iter().position(|(start, _)| field.trim().starts_with(start));
    fields.iter().filter_map(find).min().map(|index| DMI[index].1)
}

fn by_device_tree(compatible: &str) -> &'static str {
    match compatible.trim_end_matches('\0') {
        "linux,kvm" => "kvm",
        tree if tree.contains("xen") => "xen",
        tree if tree.contains("vmware") => "vmware",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_cpuid(vendor: &str) -> Signs {
        Signs { cpuid: Some(vendor.to_owned()), flag: true, ..Signs::default() }
    }

    #[test]
    fn hypervisors_name_themselves_by_cpuid() {
        for (vendor, wanted) in [
            ("KVMKVMKVM", "kvm"),
            ("Microsoft Hv", "microsoft"),
            ("bhyve bhyve", "bhyve"),
            ("", "unknown"),
        ] {
            assert_eq!(name(&by_cpuid(vendor)).as_deref(), Some(wanted), "{vendor}");
        }
    }

    #[test]
    fn a_cloud_has_its_own_name_over_kvm_and_qemu_has_not() {
        let with = |dmi: &[&str]| {
            let dmi = dmi.iter().map(|&field| field.to_owned()).collect();
            name(&Signs { dmi, ..by_cpuid("KVMKVMKVM") })
        };
        assert_eq!(with(&["Amazon EC2", "t3.large"]).as_deref(), Some("amazon"));
        assert_eq!(with(&["QEMU", "Google Compute Engine"]).as_deref(), Some("google"));
        assert_eq!(with(&["QEMU"]).as_deref(), Some("kvm"));
    }

    #[test]
    fn wsl_is_told_by_its_kernel() {
        let kernel = "5.15.90.1-microsoft-standard-WSL2".to_owned();
        let signs = Signs { kernel, ..by_cpuid("Microsoft Hv") };
        assert_eq!(name(&signs).as_deref(), Some("wsl"));
    }

    #[test]
    fn the_control_domain_of_xen_is_no_guest() {
        let with = |text: &str| Signs { xen: Some(text.to_owned()), ..Signs::default() };
        assert_eq!(name(&with("control_d\n")).as_deref(), Some("none"));
        assert_eq!(name(&with("")).as_deref(), Some("xen"));
    }

    #[test]
    fn dmi_and_the_device_tree_tell_where_cpuid_does_not() {
        let dmi = Signs { dmi: vec!["Bochs".to_owned()], ..Signs::default() };
        assert_eq!(name(&dmi).as_deref(), Some("bochs"));
        let tree = Signs { device_tree: Some("linux,kvm\0".to_owned()), ..Signs::default() };
        assert_eq!(name(&tree).as_deref(), Some("kvm"));
        if HAS_CPUID {
            assert_eq!(name(&Signs::default()).as_deref(), Some("none"));
        }
    }
}
