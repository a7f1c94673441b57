//! The kernel's code as the planner sees it, and a function of it that can be redirected. Pure. Each architecture
//! redirects in its own way (`trampoline.rs` there).

use vdso_reader::Image;

/// Why a function cannot be redirected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum NotMovable {
    /// It is shorter than a jump.
    #[error("it is shorter than a jump")]
    TooShort,
    /// A jump would cover the start of an instruction at which a suspended context may continue.
    #[error("it has no place for a jump that is safe for suspended contexts")]
    #[allow(dead_code, reason = "where instructions have one length there is a place")]
    NoPlace,
    /// Code jumps to an instruction that the jump would cover.
    #[error("the kernel's code jumps to its first instructions")]
    JumpedInto,
    /// An instruction that must stay in place: a call, a system call, or an unknown one.
    #[error("it begins with `{0}`")]
    Instruction(String),
    /// The trampoline or the shim is too far away.
    #[error("there was no room near it")]
    TooFar,
    /// Its first instructions do not fit into a trampoline.
    #[error("its first instructions are too long")]
    TooLong,
}

/// Code of the kernel's image, at the address where the process has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text<'a> {
    /// The original bytes.
    pub bytes: &'a [u8],
    /// The address of the first byte.
    pub base: u64,
    /// Pieces of code as offset and size: functions, and the code between them.
    pub code: &'a [(u64, u64)],
    /// Whether the CPU allows indirect calls to landing pads only.
    #[allow(dead_code, reason = "not every architecture asks")]
    pub is_guarded: bool,
}

/// Offset of an image's code; of its first function, if the image has no section headers.
pub(crate) fn text_start(image: &Image) -> Option<u64> {
    let section = image.sections.iter().find(|section| section.name == ".text");
    let first = image.functions().map(|symbol| symbol.offset).min();
    section.map(|section| section.offset).or(first)
}

/// The pieces of an image's code, each beginning with an instruction: the functions, and the code between them from
/// `first` on. Each is an offset and a size.
pub(crate) fn pieces(functions: impl Iterator<Item = (u64, u64)>, first: u64) -> Vec<(u64, u64)> {
    let mut functions: Vec<(u64, u64)> = functions.collect();
    functions.sort_unstable();
    functions.dedup();
    let mut pieces = Vec::new();
    let mut at = first;
    for (offset, size) in functions {
        if at < offset {
            pieces.push((at, offset - at));
        }
        pieces.push((offset, size));
        at = at.max(offset.saturating_add(size));
    }
    pieces
}

/// Bytes of the kernel's image to replace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// Address of the first byte.
    pub at: u64,
    /// The original bytes.
    pub original: Vec<u8>,
    /// The new bytes: a jump.
    pub jump: Vec<u8>,
    /// True for padding between functions, which no thread executes: the jump stays there after detaching, for a
    /// context that was suspended right at it.
    pub stays: bool,
}

/// A function that can be redirected. No instruction begins inside the changed bytes, so a context that was suspended
/// anywhere in the function can be resumed safely at any time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Redirected {
    /// The changes, in the order of writing.
    pub changes: Vec<Change>,
    /// Address of the trampoline.
    pub trampoline: u64,
    /// Bytes of the trampoline: the displaced instructions with a jump to the rest of the function, then
    /// [`Self::undo`].
    pub code: Vec<u8>,
    /// The end of `code`: it undoes the instructions in front of the jump and jumps to the shim. Empty if the
    /// function's jump goes directly to the shim.
    pub undo: Vec<u8>,
}

/// Bytes of the code at an address.
pub(crate) fn slice(text: Text<'_>, start: u64, length: u64) -> Option<&[u8]> {
    let at = usize::try_from(start.checked_sub(text.base)?).ok()?;
    text.bytes.get(at..at.checked_add(usize::try_from(length).ok()?)?)
}
