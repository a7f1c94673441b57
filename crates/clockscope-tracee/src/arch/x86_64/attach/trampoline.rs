//! Redirecting a function: what its first bytes become, and a trampoline with the instructions that
//! stood there. Pure.

use std::fmt;

use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, Decoder, DecoderOptions, FlowControl, Instruction,
    InstructionBlock,
};

use vdso_reader::Image;

/// Bytes of a near jump, which is what is written.
pub(super) const JUMP: usize = 5;

/// Why a function cannot be redirected.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub(super) enum NotMovable {
    /// It is shorter than a jump, and other code follows.
    TooShort,
    /// Code jumps to an instruction that the jump would cover.
    JumpedInto,
    /// An instruction that must stay where it is: a call, a system call, or none that is known.
    Instruction(String),
    /// The trampoline or the shim is too far away.
    TooFar,
    /// Its first instructions do not fit into a trampoline.
    TooLong,
}

impl fmt::Display for NotMovable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort => f.write_str("it is shorter than a jump"),
            Self::JumpedInto => f.write_str("the kernel's code jumps to its first instructions"),
            Self::Instruction(what) => write!(f, "it begins with `{what}`"),
            Self::TooFar => f.write_str("there was no room near it"),
            Self::TooLong => f.write_str("its first instructions are too long"),
        }
    }
}

/// Code of the kernel's image, at the address where the process has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text<'a> {
    /// The bytes, as the kernel made them.
    pub bytes: &'a [u8],
    /// The address of the first.
    pub base: u64,
    /// Where code begins and how long it is, as offsets: functions, and what lies between them.
    pub code: &'a [(u64, u64)],
}

/// Where the code of an image begins; at its first function, if it has no table of sections.
pub(super) fn text_start(image: &Image) -> Option<u64> {
    let section = image.sections().iter().find(|section| section.name == ".text");
    let first = image.functions().map(|symbol| symbol.offset).min();
    section.map(|section| section.offset).or(first)
}

/// The pieces of an image's code, each of which begins with an instruction: the functions, and what is
/// between them from `first` on. Offset and size.
pub(super) fn pieces(functions: impl Iterator<Item = (u64, u64)>, first: u64) -> Vec<(u64, u64)> {
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

/// A function that can be redirected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Redirected {
    /// Address of the function.
    pub start: u64,
    /// What stood there.
    pub original: [u8; JUMP],
    /// What is written there.
    pub jump: [u8; JUMP],
    /// Address of the trampoline.
    pub trampoline: u64,
    /// Its bytes.
    pub code: Vec<u8>,
    /// Addresses of displaced instructions, the first included, and where they are in the
    /// trampoline, as far as each is one instruction there.
    moved: Vec<(u64, u64)>,
}

impl Redirected {
    /// True if the address lies inside the jump, so that nobody may go on there.
    pub(super) fn covers(&self, address: u64) -> bool {
        address > self.start && address < self.start + JUMP as u64
    }

    /// Where the instruction at an address is in the trampoline.
    pub(crate) fn to_trampoline(&self, address: u64) -> Option<u64> {
        self.moved.iter().find(|(from, _)| *from == address).map(|(_, to)| *to)
    }

    /// Where the instruction at an address in the trampoline has come from.
    pub(crate) fn to_function(&self, address: u64) -> Option<u64> {
        self.moved.iter().find(|(_, to)| *to == address).map(|(from, _)| *from)
    }
}

/// Finds out how the function at `start`, of `size` bytes, is sent to `target`.
///
/// # Errors
///
/// See [`NotMovable`].
pub(super) fn redirect(
    text: Text<'_>,
    (start, size): (u64, u64),
    target: u64,
    trampoline: u64,
) -> Result<Redirected, NotMovable> {
    let displaced = displaced(text, start, size)?;
    if is_jumped_into(text, start) {
        return Err(NotMovable::JumpedInto);
    }
    let mut instructions = displaced.clone();
    let last = displaced.last().ok_or(NotMovable::TooShort)?;
    if !ends(last) {
        let back = Instruction::with_branch(Code::Jmp_rel32_64, last.next_ip());
        instructions.push(back.map_err(|_| NotMovable::TooFar)?);
    }
    let encoded = BlockEncoder::encode(
        64,
        InstructionBlock::new(&instructions, trampoline),
        BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS,
    )
    .map_err(|_| NotMovable::TooFar)?;
    let offsets = encoded.new_instruction_offsets.iter();
    let moved = displaced
        .iter()
        .zip(offsets)
        .filter(|(_, offset)| **offset != u32::MAX)
        .map(|(instruction, offset)| (instruction.ip(), trampoline + u64::from(*offset)))
        .collect();
    let original = slice(text, start, JUMP).and_then(|bytes| bytes.try_into().ok());
    Ok(Redirected {
        start,
        original: original.ok_or(NotMovable::TooShort)?,
        jump: jump(start, target).ok_or(NotMovable::TooFar)?,
        trampoline,
        code: encoded.code_buffer,
        moved,
    })
}

/// A near jump from one address to another, if it reaches.
pub(super) fn jump(from: u64, to: u64) -> Option<[u8; JUMP]> {
    let distance = to.wrapping_sub(from + JUMP as u64).cast_signed();
    let [a, b, c, d] = i32::try_from(distance).ok()?.to_le_bytes();
    Some([0xe9, a, b, c, d])
}

/// Where a near jump at `from` goes, if these bytes are one.
pub(super) fn jump_target(from: u64, bytes: [u8; JUMP]) -> Option<u64> {
    let [0xe9, a, b, c, d] = bytes else { return None };
    let distance = i64::from(i32::from_le_bytes([a, b, c, d]));
    Some((from + JUMP as u64).wrapping_add_signed(distance))
}

fn slice(text: Text<'_>, start: u64, length: usize) -> Option<&[u8]> {
    let at = usize::try_from(start.checked_sub(text.base)?).ok()?;
    text.bytes.get(at..at.checked_add(length)?)
}

fn ends(instruction: &Instruction) -> bool {
    matches!(
        instruction.flow_control(),
        FlowControl::Return | FlowControl::UnconditionalBranch | FlowControl::IndirectBranch
    )
}

/// The instructions that the jump would cover, wholly or in part.
fn displaced(text: Text<'_>, start: u64, size: u64) -> Result<Vec<Instruction>, NotMovable> {
    let length = usize::try_from(size).map_err(|_| NotMovable::TooShort)?;
    let code = slice(text, start, length).ok_or(NotMovable::TooShort)?;
    let mut instructions = Vec::new();
    let mut covered = 0;
    for instruction in Decoder::with_ip(64, code, start, DecoderOptions::NONE).iter() {
        let may_move = matches!(
            instruction.flow_control(),
            FlowControl::Next
                | FlowControl::ConditionalBranch
                | FlowControl::UnconditionalBranch
                | FlowControl::Return
        );
        if instruction.is_invalid() || !may_move || instruction.code() == Code::Syscall {
            return Err(NotMovable::Instruction(instruction.to_string()));
        }
        instructions.push(instruction);
        covered += instruction.len();
        if covered >= JUMP {
            return Ok(instructions);
        }
        if ends(&instruction) {
            // What follows is covered too, which does no harm if it is padding.
            let rest = slice(text, start, JUMP).and_then(|bytes| bytes.get(covered..));
            let is_padding = rest.is_some_and(|rest| rest.iter().all(|byte| is_pad(*byte)));
            return if is_padding { Ok(instructions) } else { Err(NotMovable::TooShort) };
        }
    }
    Err(NotMovable::TooShort)
}

/// Fillers of one byte; longer ones are rarely found behind so short a function.
fn is_pad(byte: u8) -> bool {
    matches!(byte, 0x90 | 0xcc | 0x00)
}

/// True if any instruction of the image jumps into the bytes that the jump would cover, as far as is known.
fn is_jumped_into(text: Text<'_>, start: u64) -> bool {
    let inside = |target: u64| target > start && target < start + JUMP as u64;
    text.code.iter().any(|(offset, size)| {
        let from = text.base + offset;
        let Some(code) = usize::try_from(*size).ok().and_then(|size| slice(text, from, size))
        else {
            return true;
        };
        Decoder::with_ip(64, code, from, DecoderOptions::NONE)
            .iter()
            .any(|instruction| inside(instruction.near_branch_target()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clockscope_sys::own_vdso;
    use iced_x86::{Formatter, NasmFormatter};

    const BASE: u64 = 0x7f00_0000_0000;
    const IMAGE: u64 = BASE - 0x10_0000;

    fn redirect_at(bytes: &[u8], size: u64) -> Result<Redirected, NotMovable> {
        let code = [(0, bytes.len() as u64)];
        redirect(Text { bytes, base: BASE, code: &code }, (BASE, size), IMAGE, IMAGE + 0x1000)
    }

    fn lines(code: &[u8], at: u64) -> Vec<String> {
        let mut formatter = NasmFormatter::new();
        Decoder::with_ip(64, code, at, DecoderOptions::NONE)
            .iter()
            .map(|instruction| {
                let mut line = String::new();
                formatter.format(&instruction, &mut line);
                line
            })
            .collect()
    }

    #[test]
    fn every_function_of_this_kernel_can_be_redirected() {
        let Some(own) = own_vdso::read() else { return skips::skip("this kernel has no vDSO") };
        let image = Image::parse(&own.bytes).unwrap();
        let functions = image.functions().map(|symbol| (symbol.offset, symbol.size));
        let code = pieces(functions, text_start(&image).unwrap());
        let text = Text { bytes: &own.bytes, base: BASE, code: &code };
        for symbol in image.functions().filter(|symbol| symbol.defined) {
            let start = BASE + symbol.offset;
            let trampoline = IMAGE + 0x1000;
            let redirected = redirect(text, (start, symbol.size), IMAGE, trampoline).unwrap();
            assert_eq!(jump_target(start, redirected.jump), Some(IMAGE), "{}", symbol.name);
            let before = lines(slice(text, start, 16).unwrap(), start);
            let after = lines(&redirected.code, trampoline);
            let first = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
            assert_eq!(first(&before[0]), first(&after[0]), "{before:?} {after:?}");
            let back = after.last().unwrap();
            assert!(back.starts_with("jmp 00007F0000"), "{after:?}");
        }
    }

    #[test]
    fn what_refers_to_its_own_address_still_means_the_same_there() {
        // cmp dword [rip - 0x1000], 0x7fffffff
        let mut bytes = vec![0x81, 0x3d, 0x00, 0xf0, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
        bytes.extend([0x48, 0x31, 0xc0, 0xc3]);
        let redirected = redirect_at(&bytes, 14).unwrap();
        let there =
            Decoder::with_ip(64, &redirected.code, IMAGE + 0x1000, DecoderOptions::NONE).decode();
        assert_eq!(there.ip_rel_memory_address(), BASE + 10 - 0x1000);
        assert_eq!(redirected.to_trampoline(BASE), Some(IMAGE + 0x1000));
        assert_eq!(redirected.to_trampoline(BASE + 10), None);
    }

    #[test]
    fn a_short_branch_reaches_from_the_trampoline_too() {
        // cmp edi, 0x17; ja +0x20; ...
        let mut bytes = vec![0x83, 0xff, 0x17, 0x77, 0x20];
        bytes.resize(64, 0x90);
        let redirected = redirect_at(&bytes, 64).unwrap();
        let code = lines(&redirected.code, IMAGE + 0x1000);
        assert_eq!(code[1], "ja near 00007F0000000025h", "{code:?}");
        assert_eq!(code[2], "jmp 00007F0000000005h", "{code:?}");
        assert_eq!(redirected.to_trampoline(BASE + 3), Some(IMAGE + 0x1003));
        assert_eq!(redirected.to_function(IMAGE + 0x1003), Some(BASE + 3));
        assert!(redirected.covers(BASE + 3) && !redirected.covers(BASE));
    }

    #[test]
    fn a_function_shorter_than_a_jump_needs_padding_behind_it() {
        // xor eax, eax; ret, and then the next function
        let followed = [0x31, 0xc0, 0xc3, 0x55, 0x48];
        assert_eq!(redirect_at(&followed, 3), Err(NotMovable::TooShort));
        let padded = [0x31, 0xc0, 0xc3, 0x90, 0x90, 0x90];
        let code = redirect_at(&padded, 3).unwrap().code;
        assert_eq!(lines(&code, IMAGE), ["xor eax,eax", "ret"]);
        assert_eq!(redirect_at(&[0x31, 0xc0, 0xc3], 3), Err(NotMovable::TooShort));
    }

    #[test]
    fn code_that_is_jumped_into_stays() {
        // push rbp; mov rbp, rsp; push rbx; then a loop back to the second instruction
        let mut bytes = vec![0x55, 0x48, 0x89, 0xe5, 0x53, 0x90, 0xeb];
        bytes.push((-7_i8).cast_unsigned());
        bytes.push(0xc3);
        assert_eq!(redirect_at(&bytes, 9), Err(NotMovable::JumpedInto));
        assert_eq!(pieces([(9, 3), (2, 4)].into_iter(), 0), [(0, 2), (2, 4), (6, 3), (9, 3)]);
        bytes[7] = (-8_i8).cast_unsigned(); // to the first instruction, where the jump stands
        assert!(redirect_at(&bytes, 9).is_ok());
    }

    #[test]
    fn calls_and_system_calls_stay_where_they_are() {
        let call = [0xe8, 0, 0x10, 0, 0, 0xc3];
        assert!(matches!(redirect_at(&call, 6), Err(NotMovable::Instruction(_))));
        let syscall = [0x31, 0xc0, 0x0f, 0x05, 0xc3, 0x90];
        assert!(matches!(redirect_at(&syscall, 6), Err(NotMovable::Instruction(_))));
    }

    #[test]
    fn what_is_too_far_is_declined() {
        assert_eq!(jump(0x1000, 0x1_0000_1000), None);
        let text = Text { bytes: &[0x90; 16], base: BASE, code: &[(0, 16)] };
        let far = redirect(text, (BASE, 16), BASE + (3 << 30), BASE + (3 << 30));
        assert_eq!(far, Err(NotMovable::TooFar));
    }
}
