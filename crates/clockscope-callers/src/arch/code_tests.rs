//! The part of the tests of `code.rs` that does not depend on the architecture.

use std::path::Path;
use std::rc::Rc;

use super::registers::PRESERVED;
use crate::module_file::{Bytes, Elf};
use crate::sample::{Registers, SP};
use crate::unwind_cfi::{Frames, Stack, Stop};
use crate::unwind_code::{Return, Way, Ways};

pub(super) const AT: u64 = 0x1000;
pub(super) const STACK: u64 = 0x7ffe_0000_0000;

/// The way from the first of these bytes on.
pub(super) fn way(bytes: &[u8], ends: &[u64]) -> Way {
    let code = |at: u64| {
        let from = usize::try_from(at.checked_sub(AT)?).ok()?;
        bytes.get(from..).filter(|rest| !rest.is_empty()).map(<[u8]>::to_vec)
    };
    Way::from(AT, &code, ends)
}

/// A stack where each word is equal to its own number.
pub(super) fn words(count: u64) -> Vec<u8> {
    (0..count).flat_map(u64::to_le_bytes).collect()
}

/// Compares the unwind tables of a C library with the results from its code. `returns` gives the
/// return addresses in code at an address. `registers` gives the registers with which both are
/// asked, if they make sense for this way.
pub(super) fn compare(
    libc: &Path,
    returns: impl Fn(&[u8], u64) -> Vec<u64>,
    registers: impl Fn(&Return, Stack<'_>) -> Option<Registers>,
) {
    /// Every 19th call is checked: all of them take minutes.
    const EVERY: usize = 19;
    let elf = Elf::read(Bytes::Memory(Rc::from(std::fs::read(libc).unwrap()))).unwrap();
    let mut frames = Frames::read(&elf, true).unwrap();
    let text = elf.section(".text").unwrap();
    let mut ways = Ways::default();
    let words = words(4096);
    let stack = Stack { start: STACK, bytes: &words };
    let agree = |one: &Registers, other: &Registers| {
        let mut registers = PRESERVED.into_iter().chain([SP]);
        one.ip == other.ip && registers.all(|n| one.general[n] == other.general[n])
    };
    let (mut same, mut other) = (0, Vec::new());
    for at in returns(&text.bytes, text.address).into_iter().step_by(EVERY) {
        let Way::Back(back) = ways.way(&elf, at, false).clone() else { continue };
        let Some(registers) = registers(&back, stack) else { continue };
        let by_code = back.caller(&registers, stack);
        match frames.caller(at - 1, &registers, stack) {
            // The tables may give further registers, too.
            Ok((caller, _)) if by_code.as_ref().is_some_and(|own| agree(own, &caller)) => same += 1,
            // Neither finds a caller at a place where these registers make no sense.
            Err(Stop::NotCopied | Stop::Elsewhere | Stop::Damaged) => {}
            found => other.push((at, by_code, found)),
        }
    }
    assert!(other.is_empty(), "{} of {same}: {:x?}", other.len(), &other[..other.len().min(5)]);
    assert!(same > 100, "only {same} were looked at");
}
