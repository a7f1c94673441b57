//! A `syscall` instruction, the code around it, and the segment that holds it.

use std::ops::Range;

use iced_x86::{FlowControl, Instruction};

/// Bytes of a near jump.
pub const JUMP: usize = 5;
/// System-call numbers with a word of their own: Linux 7.3 has 472.
pub const NUMBERS: usize = 500;

/// An executable segment of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Address in the file's own numbers (`p_vaddr`).
    pub address: u64,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Length in the file, in bytes.
    pub size: u64,
}

impl Segment {
    pub(crate) fn holds(&self, address: u64) -> bool {
        (self.address..self.address.saturating_add(self.size)).contains(&address)
    }

    /// The bytes of `range`, if the segment is in the file as far as the range goes.
    pub(crate) fn bytes<'a>(&self, file: &'a [u8], range: &Range<u64>) -> Option<&'a [u8]> {
        let end = self.address.checked_add(self.size)?.min(range.end);
        let at = |address: u64| {
            let within = address.checked_sub(self.address)?;
            usize::try_from(self.offset.checked_add(within)?).ok()
        };
        file.get(at(range.start)?..at(end)?)
    }
}

/// A `syscall` instruction whose calls can be counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Address of the first displaced instruction, in the file's own numbers. The addresses behind it, up to the end of
    /// the `syscall`, are reached only from the instruction before.
    pub window: u64,
    /// Address of the `syscall` instruction.
    pub syscall: u64,
    /// Address behind the last displaced instruction. The `syscall` is displaced only if it may be executed at another
    /// address. Otherwise `end` is at least [`JUMP`] bytes behind `window`, and the `syscall` stays in place.
    pub end: u64,
    /// The bytes from `window` to `end`, or to the end of the `syscall` if that is later.
    pub original: Vec<u8>,
    /// The number of the system call, if the displaced instructions set it.
    pub number: Option<u32>,
    /// Whether the displaced instructions can be copied unchanged to any address.
    pub is_plain: bool,
    /// Instructions behind a `syscall` that stays in place; displacing them lets the stub see the call's result.
    pub behind: Option<Behind>,
    /// Whether code may read the flags that a displaced `syscall` leaves.
    pub wants_flags: bool,
}

/// The instructions directly behind a `syscall`, reached only from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behind {
    /// Bytes of the instructions.
    pub displaced: usize,
    /// Whether the instructions can be copied unchanged to any address.
    pub is_plain: bool,
    /// Whether code may read the flags from before these instructions.
    pub wants_flags: bool,
    /// The bytes of the instructions, and of the padding behind them if they are too short for a jump.
    pub original: Vec<u8>,
}

impl Site {
    /// Whether errors of the calls are counted: the number is known, and the stub runs behind the call.
    pub fn sees_errors(&self) -> bool {
        self.number.is_some() && (self.behind.is_some() || !self.stays())
    }

    /// Whether the `syscall` stays in place.
    pub fn stays(&self) -> bool {
        self.end <= self.syscall
    }

    /// Address behind the `syscall`.
    pub fn after(&self) -> u64 {
        self.syscall + 2
    }

    /// Addresses behind the first that no other code may branch to, with the end of the range.
    pub(crate) fn closed(&self) -> Range<u64> {
        self.window..self.syscall.max(self.end - 1)
    }
}

/// Whether an instruction can be copied unchanged to any address.
pub(crate) fn is_plain(instruction: &Instruction) -> bool {
    matches!(
        instruction.flow_control(),
        FlowControl::Next | FlowControl::Call | FlowControl::Return
    ) && !instruction.is_ip_rel_memory_operand()
}
