//! CPUID: counter rate and hypervisor; names of the vDSO.

use std::arch::x86_64::{__cpuid_count, CpuidResult};

/// Prefix of the vDSO's function names.
pub const VDSO_PREFIX: &str = "__vdso_";

/// Whether CPUID can report a hypervisor: if so, the absence of one is known too.
pub const HAS_CPUID: bool = true;

/// System call `time`, which is older than `clock_gettime`.
pub(crate) const SYS_TIME: Option<libc::c_long> = Some(libc::SYS_time);

/// The first CPUID leaf that hypervisors answer.
const HYPERVISOR: u32 = 0x4000_0000;

/// A CPUID leaf, with subleaf 0, whether the CPU implements it or not.
#[allow(unused_unsafe, reason = "safe since Rust 1.94")]
pub(super) fn leaf_or_nonsense(leaf: u32) -> CpuidResult {
    // SAFETY: every x86-64 has the instruction, and answers for leaves that it does not have, too.
    unsafe { __cpuid_count(leaf, 0) }
}

/// EAX, EBX, ECX and EDX of a CPUID leaf, with subleaf 0; `None` if the CPU or hypervisor does not
/// have it.
///
/// # References
///
/// - leaves 0, 0x4000_0000 and 0x8000_0000 state in EAX the last leaf of their range
pub fn cpuid(leaf: u32) -> Option<[u32; 4]> {
    let range = leaf & 0xffff_0000;
    // Without a hypervisor, Intel CPUs answer these leaves with the data of another leaf.
    if range == HYPERVISOR && !has_hypervisor() {
        return None;
    }
    let last = leaf_or_nonsense(range).eax;
    // Old KVM reports 0, which means 0x4000_0001.
    let last = if range == HYPERVISOR && last == 0 { HYPERVISOR + 1 } else { last };
    if !(range..=range | 0xffff).contains(&last) || leaf > last {
        return None;
    }
    let found = leaf_or_nonsense(leaf);
    Some([found.eax, found.ebx, found.ecx, found.edx])
}

fn has_hypervisor() -> bool {
    leaf_or_nonsense(1).ecx >> 31 != 0
}

/// The 12-byte name of the hypervisor; `None` without a hypervisor.
///
/// # References
///
/// - CPUID leaf 1, ECX bit 31, and leaf 0x4000_0000: Intel's and AMD's manuals leave them to
///   hypervisors, which agreed on this use
pub fn hypervisor() -> Option<String> {
    if !has_hypervisor() {
        return None;
    }
    let leaf = leaf_or_nonsense(HYPERVISOR);
    let bytes: Vec<u8> =
        [leaf.ebx, leaf.ecx, leaf.edx].iter().flat_map(|r| r.to_le_bytes()).collect();
    Some(String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned())
}

/// The rate of the TSC in hertz by CPUID, and the name of the leaf that gives it.
///
/// # References
///
/// - Intel's manual, CPUID leaf 0x15: crystal in ECX, times EBX / EAX
/// - leaf 0x4000_0010, EAX: kilohertz, as VMware's and KVM's guests read it
pub fn counter_hz() -> Option<(f64, &'static str)> {
    if let Some([denominator, numerator, crystal_hz, _]) = cpuid(0x15)
        && denominator != 0
        && numerator != 0
        && crystal_hz != 0
    {
        let hertz = f64::from(crystal_hz) * f64::from(numerator) / f64::from(denominator);
        return Some((hertz, "CPUID leaf 0x15"));
    }
    let [kilohertz, ..] = cpuid(0x4000_0010)?;
    (kilohertz != 0).then(|| (f64::from(kilohertz) * 1e3, "CPUID leaf 0x40000010"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hypervisor_is_there_if_the_cpu_says_so() {
        let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap();
        let is_guest = flags.split_whitespace().any(|flag| flag == "hypervisor");
        assert_eq!(hypervisor().is_some(), is_guest);
    }

    #[test]
    fn leaves_are_there_up_to_the_last_of_their_range() {
        let last = cpuid(0).unwrap()[0];
        assert!(cpuid(last).is_some() && cpuid(last + 1).is_none());
        assert!(cpuid(0x8000_0001).unwrap()[3] >> 29 & 1 == 1, "long mode");
        assert_eq!(cpuid(HYPERVISOR).is_some(), hypervisor().is_some());
    }
}
