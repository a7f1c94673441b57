//! The registers of a frame, by their numbers in DWARF for the Arm 64-bit Architecture (AArch64),
//! 2024Q3, 4.1.

use std::sync::OnceLock;

use gimli::{AArch64, Register, Vendor};
use object::elf::{EM_AARCH64, Machine};

use crate::sample::Registers;
use crate::unwind_cfi::Stack;

/// The ELF machine of files for this architecture.
pub(crate) const MACHINE: Machine = EM_AARCH64;
/// Vendor of the DWARF extensions that compilers use: `DW_CFA_AARCH64_negate_ra_state`.
pub(crate) const VENDOR: Vendor = Vendor::AArch64;

/// A kernel's image with unwind tables.
#[cfg(test)]
pub(crate) const KERNEL: &[u8] = include_bytes!("../../../../../fixtures/vdso/aarch64-5.10.so");

/// Number of general registers, as DWARF counts them.
pub const GENERAL: usize = 32;
/// The frame pointer, `x29`.
pub const FP: usize = 29;
/// The stack pointer.
pub const SP: usize = 31;
/// The register that holds the return address until the function makes a call: `x30`.
pub(crate) const LINK: Option<usize> = Some(30);
/// Callee-saved registers: `x19` to `x29`.
pub(crate) const PRESERVED: [usize; 11] = [19, 20, 21, 22, 23, 24, 25, 26, 27, 28, FP];
/// The column of unwind tables for the return address.
pub(crate) const RETURN: Register = AArch64::X30;

/// A return address without its signature: `paciasp` writes a signature into the bits that
/// user-space addresses do not use.
///
/// The kernel sets the number of address bits for all programs (`VA_BITS`), and stacks lie at the
/// top of that range. A kernel with 52 bits gives more than 48 only to programs that ask for them;
/// other programs sign in fewer bits than are removed here.
pub(crate) fn return_address(word: u64) -> u64 {
    static BITS: OnceLock<u32> = OnceLock::new();
    let own = || highest_mapping().map_or(u64::BITS, |highest| u64::BITS - highest.leading_zeros());
    unsigned(word, *BITS.get_or_init(own))
}

/// The last mapped address of this process.
fn highest_mapping() -> Option<u64> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let end = |line: &str| u64::from_str_radix(line.split_once('-')?.1.split_once(' ')?.0, 16).ok();
    maps.lines().filter_map(end).max().map(|end| end - 1)
}

/// Clears all but the lowest `bits` bits.
fn unsigned(word: u64, bits: u32) -> u64 {
    word & u64::MAX.checked_shr(u64::BITS - bits).unwrap_or(0)
}

/// The registers of the caller, from the registers at a function's first instruction.
pub(crate) fn caller(at: &Registers, _stack: Stack<'_>) -> Option<Registers> {
    let mut caller = Registers { ip: return_address(at.general[30]?), ..*at };
    // The caller keeps its own return address elsewhere.
    caller.general[30] = None;
    Some(caller)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_no_part_of_an_address() {
        assert_eq!(unsigned(0x0055_aaaa_1234_5678, 48), 0xaaaa_1234_5678);
        assert_eq!(unsigned(0x7f12_3455_1234_5678, 39), 0x0055_1234_5678);
        assert_eq!(unsigned(0xaaaa_1234_5678, 48), 0xaaaa_1234_5678);
        assert_eq!(unsigned(7, 64), 7);
        let own = (a_signature_is_no_part_of_an_address as fn()) as usize as u64;
        assert_eq!(return_address(own | 0x55 << 48), own);
    }

    #[test]
    fn a_function_that_has_called_none_returns_by_the_link_register() {
        let mut at = Registers { ip: 1, general: [None; GENERAL] };
        at.general[30] = Some(0x1000);
        at.general[SP] = Some(0x7000);
        let stack = Stack { start: 0x7000, bytes: &[0; 8] };
        let found = caller(&at, stack).expect("a caller");
        assert_eq!((found.ip, found.general[SP], found.general[30]), (0x1000, Some(0x7000), None));
        assert_eq!(caller(&found, stack), None);
    }
}
