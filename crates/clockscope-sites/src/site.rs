//! A `syscall` instruction, the code around it, and the segment that holds it.

use std::ops::Range;

use vdso_image::layout::SITE_WORDS;

/// Bytes of a near jump.
pub const JUMP: usize = 5;
/// System-call numbers with a word of their own: Linux 7.3 has 472.
pub const NUMBERS: usize = 484;
/// The words for reads by `rdtsc` and by `rdtscp`, at places without a word of their own.
pub const COUNTERS: [usize; 2] = [NUMBERS + 2, NUMBERS + 3];
/// The words that places have of their own.
pub const PLACES: Range<usize> = NUMBERS + 6..SITE_WORDS;
/// First byte of a direct `call`.
pub(crate) const CALL: u8 = 0xe8;
/// First byte of a near `jmp`.
pub(crate) const JMP: u8 = 0xe9;
/// Bytes of `syscall`.
pub(crate) const SYSCALL: u64 = 2;
/// Bytes of `cmp rax, imm32`.
pub const COMPARE: usize = 6;

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
    /// The bytes of `range`, if the segment is in the file as far as the range goes.
    pub(crate) fn bytes<'a>(&self, file: &'a [u8], range: &Range<u64>) -> Option<&'a [u8]> {
        let end = self.address.checked_add(self.size)?.min(range.end);
        let at = |address: u64| {
            let within = address.checked_sub(self.address)?;
            usize::try_from(self.offset.checked_add(within)?).ok()
        };
        file.get(at(range.start)?..at(end)?)
    }

    /// The addresses of the segment.
    pub(crate) fn range(&self) -> Range<u64> {
        self.address..self.address.saturating_add(self.size)
    }
}

/// Instructions that are displaced by a jump, and the calls that are counted there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Address of the displaced instructions, in the file's own numbers. No code branches behind it, up to the
    /// `syscall`.
    pub window: u64,
    /// The displaced instructions, at least [`JUMP`] bytes.
    pub displaced: Vec<u8>,
    /// Whether the displaced bytes are several instructions. A thread may stand at the second, so they are displaced
    /// only in code that has never been executed.
    pub is_several: bool,
    /// The calls that follow the displaced instructions.
    pub calls: Calls,
    /// The comparison of the result behind the `syscall`, with its address. Only the `syscall` leads to it.
    pub behind: Option<(u64, [u8; COMPARE])>,
    /// Whether these are a dynamic loader's own calls of `mprotect`.
    pub is_of_loader: bool,
}

/// The calls that are counted at a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    /// Calls of this number. `rcx` and `r11` are not used before the `syscall`.
    Of(u32),
    /// Calls of the number in `rax`. `rcx` and `r11` are not used before the `syscall`.
    OfRax,
    /// Calls of this number, in which a thread may be cancelled. The displaced instruction is a `call`, or compares a
    /// byte with zero; before it, the flags and `r11` are unused.
    Cancellable(u32),
    /// Calls of the number in a register, 6 for `rsi` or 7 for `rdi`, in which a thread may be cancelled. The displaced
    /// instruction is a direct `call` or `jmp` to a function that makes them; before it, the flags and `r11` are unused.
    Given(u8),
    /// No calls, but reads of the CPU's counter, by one of the displaced instructions. They have the same effect, but for
    /// the time that is read, when they are executed again from the first on.
    Counter(Read),
}

/// An instruction that reads the CPU's counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// Its offset in the displaced instructions, in bytes.
    pub at: u8,
    /// Whether it is `rdtscp`.
    pub is_ordered: bool,
    /// The word in which its reads are counted, of [`COUNTERS`] or [`PLACES`].
    pub word: usize,
}

impl Read {
    /// A read that is counted with the others by this instruction.
    pub fn new(at: u8, is_ordered: bool) -> Self {
        Self { at, is_ordered, word: COUNTERS[usize::from(is_ordered)] }
    }
}

impl Site {
    /// Address behind the displaced instructions.
    pub fn end(&self) -> u64 {
        self.window + self.displaced.len() as u64
    }

    /// Whether reads of the counter are counted there, and no calls.
    pub fn is_counter(&self) -> bool {
        matches!(self.calls, Calls::Counter(_))
    }

    /// The first byte of the displaced instruction, if it is a direct `call` or `jmp`.
    pub(crate) fn branch(&self) -> Option<u8> {
        self.displaced.first().copied().filter(|first| [CALL, JMP].contains(first))
    }

    /// The number of the calls, if it is known.
    pub fn number(&self) -> Option<u32> {
        match self.calls {
            Calls::Of(number) | Calls::Cancellable(number) => Some(number),
            Calls::OfRax | Calls::Given(_) | Calls::Counter(_) => None,
        }
    }
}
