//! CPUID leaves by number.

/// EAX, EBX, ECX and EDX of a leaf.
pub type Registers = [u32; 4];

/// A leaf with subleaf 0; `None` if the CPU or hypervisor does not have it.
///
/// # References
///
/// - leaves 0, 0x4000_0000 and 0x8000_0000 state in EAX the last leaf of their range
#[cfg(target_arch = "x86_64")]
#[must_use]
pub fn leaf(number: u32) -> Option<Registers> {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    const HYPERVISOR: u32 = 0x4000_0000;
    let range = number & 0xffff_0000;
    // Without a hypervisor Intel's CPUs answer for these leaves with those of another.
    if range == HYPERVISOR && __cpuid(1).ecx >> 31 == 0 {
        return None;
    }
    let last = __cpuid(range).eax;
    // Old KVM states 0, which means 0x4000_0001.
    let last = if range == HYPERVISOR && last == 0 { HYPERVISOR + 1 } else { last };
    if !(range..=range | 0xffff).contains(&last) || number > last {
        return None;
    }
    let found = __cpuid_count(number, 0);
    Some([found.eax, found.ebx, found.ecx, found.edx])
}

/// A leaf; only x86-64 has them.
#[cfg(not(target_arch = "x86_64"))]
#[must_use]
pub fn leaf(_number: u32) -> Option<Registers> {
    None
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn leaves_are_there_up_to_the_last_of_their_range() {
        let last = leaf(0).unwrap()[0];
        assert!(leaf(last).is_some() && leaf(last + 1).is_none());
        assert!(leaf(0x8000_0001).unwrap()[3] >> 29 & 1 == 1, "long mode");
        assert_eq!(leaf(0x4000_0000).is_some(), crate::identity::hypervisor().is_some());
    }
}
