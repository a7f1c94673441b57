//! Go's stack frames: the frame pointer points to the caller's frame pointer, and the return
//! address lies above it.

use super::registers::FP;
use crate::sample::Registers;
use crate::unwind_cfi::Stack;
use crate::unwind_go::NoRecord;

/// The first function of a program that only Go has linked.
pub(crate) const FIRST: &str = "_rt0_amd64_linux";
/// Whether unwinding needs the height of a frame.
pub(crate) const BY_HEIGHT: bool = false;

/// The caller by the frame record at the frame pointer.
pub(crate) fn record(
    registers: &Registers,
    stack: Stack<'_>,
    _height: Option<u64>,
    _is_innermost: bool,
) -> Result<Registers, NoRecord> {
    let Some(fp) = registers.general[FP] else { return Err(NoRecord::Unsound) };
    let (Some(saved), Some(ip)) = (stack.word(fp), stack.word(fp.wrapping_add(8))) else {
        return Err(NoRecord::NotCopied(fp));
    };
    Ok(Registers::of_frame(ip, fp.wrapping_add(16), saved))
}
