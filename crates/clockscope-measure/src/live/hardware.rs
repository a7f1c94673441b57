//! Facts from CPUID, the hypervisor, and the page of a paravirtual clock.

use clock_doctor::facts::Kernel;
use clock_doctor::measured::{Cpuid, Pvclock};
use clockscope_sys::loaded_vdso as image;
use clockscope_sys::{identity, memory};
use vdso_reader::maps::Mapping;

const PAGE: u64 = 4096;
/// `PVCLOCK_TSC_STABLE_BIT` (arch/x86/include/asm/pvclock-abi.h, Linux 6.18).
const STABLE: u8 = 1;
/// Offset of `flags` in `struct pvclock_vcpu_time_info` (same file).
const FLAGS_AT: usize = 29;

/// The CPUID leaves about the TSC; `None` without CPUID.
pub(super) fn cpuid() -> Option<Cpuid> {
    identity::cpuid(0)?;
    let hypervisor = identity::hypervisor();
    let is_kvm = hypervisor.as_deref() == Some("KVMKVMKVM");
    let hypervisor_tsc = identity::cpuid(0x4000_0010).map(|leaf| leaf[0]);
    Some(Cpuid {
        invariant_tsc: identity::cpuid(0x8000_0007).is_some_and(|leaf| leaf[3] >> 8 & 1 == 1),
        leaf_15: identity::cpuid(0x15).map(|leaf| [leaf[0], leaf[1], leaf[2]]),
        leaf_16: identity::cpuid(0x16).map(|leaf| leaf[0]),
        hypervisor_tsc_khz: hypervisor_tsc.filter(|khz| is_plausible(*khz)),
        kvm_features: identity::cpuid(0x4000_0001).filter(|_| is_kvm).map(|leaf| leaf[0]),
        hypervisor,
    })
}

/// Whether a rate is between 100 MHz and 10 GHz: hypervisors without this leaf return arbitrary values.
fn is_plausible(khz: u32) -> bool {
    (100_000..=10_000_000).contains(&khz)
}

/// The paravirtual clock's page that the vDSO would read; `None` if the kernel provides none.
///
/// The kernel provides the page only once this clock has been the clocksource since the boot.
///
/// # References
///
/// - `vvar_fault` and `vvar_vclock_fault` in `arch/x86/entry/vdso/vma.c` (Linux 4.14, 6.12, 6.18):
///   the second page of `[vvar]` is that of pvclock and the third that of Hyper-V; since 6.13 they
///   are the pages of `[vvar_vclock]`
pub(super) fn pvclock() -> Option<Pvclock> {
    let kernel = Kernel::parse(&identity::kernel().release)?;
    // Up to 4.6 the second page was the HPET itself; the third page is Hyper-V's since 4.12.
    if !identity::HAS_CPUID || !kernel.at_least(4, 12) {
        return None;
    }
    let mappings = image::load(None).ok()?.mappings;
    let (pvclock, hyperv) = pages(&mappings)?;
    let read = |address: u64| {
        let mut page = [0; 64];
        memory::read_own(address, &mut page).ok().map(|()| page)
    };
    let is_xen = identity::hypervisor().is_some_and(|name| name.starts_with("Xen"));
    let of_pvclock = |page: [u8; 64]| Pvclock {
        kind: if is_xen { "xen" } else { "kvm" }.to_owned(),
        is_stable: page[FLAGS_AT] & STABLE != 0,
    };
    let of_hyperv =
        |page: [u8; 64]| Pvclock { kind: "hyperv".to_owned(), is_stable: page[..4] != [0; 4] };
    // A Hyper-V guest has no pvclock page, other guests have no Hyper-V page.
    read(pvclock).map(of_pvclock).or_else(|| read(hyperv).map(of_hyperv))
}

/// Addresses of the pages of pvclock and of Hyper-V, if mapped.
fn pages(mappings: &[Mapping]) -> Option<(u64, u64)> {
    let named = |name: &str| mappings.iter().find(|mapping| mapping.name == name);
    let (start, end) = match named("[vvar_vclock]") {
        Some(own) => (own.start, own.end),
        None => named("[vvar]").map(|vvar| (vvar.start + PAGE, vvar.end))?,
    };
    (start + PAGE < end).then_some((start, start + PAGE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use skips::skip;

    fn mappings(text: &str) -> Vec<Mapping> {
        vdso_reader::maps::parse(text)
    }

    #[test]
    fn the_pages_of_old_and_new_kernels_are_found() {
        let new = "7f00000a9000-7f00000ad000 r--p 00000000 00:00 0    [vvar]\n\
                   7f00000ad000-7f00000af000 r--p 00000000 00:00 0    [vvar_vclock]\n";
        assert_eq!(pages(&mappings(new)), Some((0x7f00_000a_d000, 0x7f00_000a_e000)));
        let old = "7ffe00010000-7ffe00014000 r--p 00000000 00:00 0    [vvar]\n";
        assert_eq!(pages(&mappings(old)), Some((0x7ffe_0001_1000, 0x7ffe_0001_2000)));
        let oldest = "7ffe00010000-7ffe00011000 r--p 00000000 00:00 0    [vvar]\n";
        assert_eq!(pages(&mappings(oldest)), None);
        assert_eq!(pages(&[]), None);
    }

    #[test]
    fn cpuid_agrees_with_the_kernel() {
        let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap();
        let has = |name: &str| flags.split_whitespace().any(|flag| flag == name);
        let found = cpuid();
        assert_eq!(found.is_some(), identity::HAS_CPUID);
        let Some(cpuid) = found else { return skip("CPUID is an instruction of x86-64") };
        // The kernel may remove flags from `/proc/cpuinfo`, but adds none of these.
        assert!(cpuid.invariant_tsc || !has("nonstop_tsc") || !has("constant_tsc"));
        assert_eq!(cpuid.hypervisor.is_some(), has("hypervisor"));
    }
}
