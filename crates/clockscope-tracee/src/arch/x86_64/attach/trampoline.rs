//! Redirecting a function: what its first bytes become, and a trampoline with the instructions that
//! stood there. Pure.

use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, Decoder, DecoderOptions, FlowControl, Instruction,
    InstructionBlock,
};

use crate::attach::redirected::{NotMovable, Redirected, Text, slice};

/// Bytes of a near jump, which is what is written.
pub(crate) const JUMP: usize = 5;

/// Finds out how the function at `start`, of `size` bytes, is sent to `target`.
///
/// # Errors
///
/// See [`NotMovable`].
pub(crate) fn redirect(
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

/// Whether the CPU guards the functions of a process's vDSO: no kernel asks for that.
pub(crate) fn is_guarded(_pid: i32) -> bool {
    false
}

/// A near jump from one address to another, if it reaches.
pub(crate) fn jump(from: u64, to: u64) -> Option<[u8; JUMP]> {
    let distance = to.wrapping_sub(from + JUMP as u64).cast_signed();
    let [a, b, c, d] = i32::try_from(distance).ok()?.to_le_bytes();
    Some([0xe9, a, b, c, d])
}

/// Where a near jump at `from` goes, if these bytes are one.
pub(crate) fn jump_target(from: u64, bytes: [u8; JUMP]) -> Option<u64> {
    let [0xe9, a, b, c, d] = bytes else { return None };
    let distance = i64::from(i32::from_le_bytes([a, b, c, d]));
    Some((from + JUMP as u64).wrapping_add_signed(distance))
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
    use crate::attach::redirected::{pieces, text_start};
    use clockscope_sys::own_vdso;
    use iced_x86::{Formatter, NasmFormatter};
    use vdso_reader::Image;

    const BASE: u64 = 0x7f00_0000_0000;
    const IMAGE: u64 = BASE - 0x10_0000;

    fn redirect_at(bytes: &[u8], size: u64) -> Result<Redirected, NotMovable> {
        let code = [(0, bytes.len() as u64)];
        redirect(
            Text { bytes, base: BASE, code: &code, is_guarded: false },
            (BASE, size),
            IMAGE,
            IMAGE + 0x1000,
        )
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
        let text = Text { bytes: &own.bytes, base: BASE, code: &code, is_guarded: false };
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
        let text = Text { bytes: &[0x90; 16], base: BASE, code: &[(0, 16)], is_guarded: false };
        let far = redirect(text, (BASE, 16), BASE + (3 << 30), BASE + (3 << 30));
        assert_eq!(far, Err(NotMovable::TooFar));
    }
}
