//! Go's stack frames. A function stores its return address at the bottom of its frame, at the stack
//! pointer, and the caller's frame pointer in the word below, at its own frame pointer.
//!
//! # References
//!
//! Go 1.26: `src/cmd/internal/obj/arm64/obj7.go` (`preprocess`), `src/runtime/traceback.go` (`usesLR`),
//! `src/runtime/sys_linux_arm64.s` (the clock is read on another stack; the frame pointer stays)

use super::registers::{FP, SP};
use crate::sample::Registers;
use crate::unwind_cfi::Stack;
use crate::unwind_go::NoRecord;

/// The first function of a program that only Go has linked.
pub(crate) const FIRST: &str = "_rt0_arm64_linux";
/// Whether unwinding needs the height of a frame.
pub(crate) const BY_HEIGHT: bool = true;

/// The caller by the frame record at the frame pointer, only if the record is the function's own.
/// An assembly function may make no record; then the frame pointer is still its caller's. The
/// innermost function may be on another stack.
pub(crate) fn record(
    registers: &Registers,
    stack: Stack<'_>,
    height: Option<u64>,
    is_innermost: bool,
) -> Result<Registers, NoRecord> {
    let (Some(fp), Some(height)) = (registers.general[FP], height.filter(|height| *height > 0))
    else {
        return Err(NoRecord::Unsound);
    };
    let bottom = fp.wrapping_add(8);
    let (Some(saved), Some(ip)) = (stack.word(fp), stack.word(bottom)) else {
        return Err(NoRecord::NotCopied(fp));
    };
    if !is_innermost && registers.general[SP] != Some(bottom) {
        return Err(NoRecord::Unsound);
    }
    Ok(Registers::of_frame(ip, bottom.wrapping_add(height), saved))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STACK: u64 = 0x7ffe_0000_0000;

    fn at(fp: u64, sp: u64) -> Registers {
        let mut registers = Registers { ip: 1, ..Registers::default() };
        registers.general[FP] = Some(fp);
        registers.general[SP] = Some(sp);
        registers
    }

    #[test]
    fn a_record_is_believed_where_the_frame_begins() {
        let words = [7, STACK + 40, 0x1234, 9, 9, 0, 0x5678];
        let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
        let stack = Stack { start: STACK, bytes: &bytes };
        let mut caller = at(STACK + 40, STACK + 48);
        caller.ip = 0x1234;
        let found = Ok(caller);
        assert_eq!(record(&at(STACK + 8, STACK + 16), stack, Some(32), false), found);
        // The innermost function has changed to another stack.
        assert_eq!(record(&at(STACK + 8, STACK), stack, Some(32), true), found);
        assert_eq!(record(&at(STACK + 8, STACK), stack, Some(32), false), Err(NoRecord::Unsound));
        // A function without a frame has no record.
        for height in [None, Some(0)] {
            let found = record(&at(STACK + 8, STACK + 16), stack, height, true);
            assert_eq!(found, Err(NoRecord::Unsound));
        }
        let elsewhere = record(&at(0x5000, STACK), stack, Some(32), true);
        assert_eq!(elsewhere, Err(NoRecord::NotCopied(0x5000)));
    }
}
