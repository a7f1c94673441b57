//! Plans the redirection of a function: the bytes that become a jump, and a trampoline with the displaced instructions.
//! Pure.
//!
//! A context may be suspended at any instruction of the function and for any time, by a signal handler that switches
//! stacks. So the jump must lie inside one instruction. Most functions begin with instructions that are shorter than a
//! near jump. These are of kinds that can be undone (`push rbp` by `pop rbp`). The jump stands at the first place
//! behind them where it fits: a near jump inside an instruction of five bytes, or a short jump to a near jump in the
//! padding between two functions. The trampoline undoes the instructions in front of the jump before it enters the
//! shim.

use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, Decoder, DecoderOptions, FlowControl, Instruction,
    InstructionBlock, Mnemonic, OpKind, Register,
};

use crate::attach::redirected::{Change, NotMovable, Redirected, Text, slice};

/// Bytes of a near jump.
pub(crate) const JUMP: usize = 5;
/// Bytes of a short jump.
const SHORT: usize = 2;
/// Registers that a clock function may change and that hold no argument.
const SCRATCH: [Register; 3] = [Register::RAX, Register::R10, Register::R11];

/// Padding that can hold jumps: address, and bytes left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Padding(Vec<Run>);

impl Padding {
    /// Finds the padding between the functions of an image: no-operations that no instruction falls through to and that
    /// no branch leads to.
    pub(crate) fn of(text: Text<'_>) -> Self {
        let mut runs: Vec<Run> = Vec::new();
        let mut targets = Vec::new();
        let mut ended_at = None;
        for instruction in instructions(text) {
            targets.push(instruction.near_branch_target());
            let at = instruction.ip();
            let pads = matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Int3);
            match runs.last_mut() {
                _ if !pads => ended_at = ends(&instruction).then(|| instruction.next_ip()),
                Some((run, size)) if *run + *size as u64 == at => *size += instruction.len(),
                _ if ended_at == Some(at) => runs.push((at, instruction.len())),
                _ => {}
            }
        }
        runs.retain(|(at, size)| !targets.iter().any(|to| to.wrapping_sub(*at) < *size as u64));
        Self(runs)
    }

    /// Places for jumps that lead on from a short jump at `from`: a near jump, or a short jump to a near jump. The near
    /// jump comes first.
    fn way(&self, from: u64) -> Option<Vec<Place>> {
        let reached = |from, least| {
            let all = self.0.iter().enumerate();
            let reached =
                move |(_, (at, left)): &(usize, &Run)| *left >= least && short(from, *at).is_some();
            all.filter(reached).map(|(run, (at, _))| Place { run, at: *at })
        };
        let near = |from| reached(from, JUMP).next();
        near(from)
            .map(|near| vec![near])
            .or_else(|| reached(from, SHORT).find_map(|hop| Some(vec![near(hop.at)?, hop])))
    }

    fn take(&mut self, place: Place, bytes: usize) {
        if let Some((at, left)) = self.0.get_mut(place.run) {
            (*at, *left) = (*at + bytes as u64, *left - bytes);
        }
    }
}

/// Address and length of padding.
type Run = (u64, usize);

/// A place in the padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    run: usize,
    at: u64,
}

/// Plans how the function at `start`, of `size` bytes, is redirected to `target`.
///
/// # Errors
///
/// [`NotMovable`] if the function must stay unchanged.
pub(crate) fn redirect(
    text: Text<'_>,
    padding: &mut Padding,
    (start, size): (u64, u64),
    target: u64,
    trampoline: u64,
) -> Result<Redirected, NotMovable> {
    let (displaced, way) = displaced(text, padding, start, size)?;
    let (last, before) = displaced.split_last().ok_or(NotMovable::TooShort)?;
    let at = last.ip();
    let length = if way.is_empty() { JUMP } else { SHORT };
    if is_jumped_into(text, start, at + length as u64) {
        return Err(NotMovable::JumpedInto);
    }
    let mut code = moved(&displaced, trampoline)?;
    let undo_at = trampoline + code.len() as u64;
    let undo: Vec<Instruction> = before.iter().rev().filter_map(undone).collect();
    let undo = if undo.is_empty() { Vec::new() } else { encoded(undo, undo_at, Some(target))? };
    let enters = if undo.is_empty() { target } else { undo_at };
    code.extend(&undo);
    let change = |at, jump: Vec<u8>, stays| {
        let original = slice(text, at, jump.len() as u64).ok_or(NotMovable::TooShort)?.to_vec();
        Ok(Change { at, original, jump, stays })
    };
    let mut changes = Vec::new();
    let mut to = enters;
    for (index, from) in way.iter().map(|place| place.at).chain([at]).enumerate() {
        let near = || jump(from, to).map(Vec::from).ok_or(NotMovable::TooFar);
        let short = || short(from, to).map(Vec::from).ok_or(NotMovable::NoPlace);
        let bytes = if index == 0 { near()? } else { short()? };
        if let Some(place) = way.get(index) {
            padding.take(*place, bytes.len());
        }
        changes.push(change(from, bytes, from != at)?);
        to = from;
    }
    Ok(Redirected { changes, trampoline, code, undo })
}

/// Whether the CPU guards the functions of a process's vDSO: never on x86-64, because no kernel asks for it.
pub(crate) fn is_guarded(_pid: i32) -> bool {
    false
}

/// A near jump from one address to another, if it reaches.
pub(crate) fn jump(from: u64, to: u64) -> Option<[u8; JUMP]> {
    let distance = to.wrapping_sub(from + JUMP as u64).cast_signed();
    let [a, b, c, d] = i32::try_from(distance).ok()?.to_le_bytes();
    Some([0xe9, a, b, c, d])
}

/// A short jump from one address to another, if it reaches.
fn short(from: u64, to: u64) -> Option<[u8; SHORT]> {
    let distance = to.wrapping_sub(from + SHORT as u64).cast_signed();
    Some([0xeb, i8::try_from(distance).ok()?.cast_unsigned()])
}

/// Target of the near jump at `from`; `None` if these bytes are no near jump.
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

/// All instructions of the image's code, in the order of its pieces.
fn instructions(text: Text<'_>) -> impl Iterator<Item = Instruction> + '_ {
    text.code.iter().flat_map(move |(offset, size)| {
        let from = text.base + offset;
        let code = slice(text, from, *size).unwrap_or_default();
        Decoder::with_ip(64, code, from, DecoderOptions::NONE).into_iter()
    })
}

/// The first instructions of a function, up to the one that the jump stands in, and the places in the padding that a
/// short jump needs. A near jump is preferred, because it leaves nothing behind after detaching.
fn displaced(
    text: Text<'_>,
    padding: &Padding,
    start: u64,
    size: u64,
) -> Result<(Vec<Instruction>, Vec<Place>), NotMovable> {
    let code = slice(text, start, size).ok_or(NotMovable::TooShort)?;
    let mut instructions: Vec<Instruction> = Vec::new();
    let mut first_short = None;
    for instruction in Decoder::with_ip(64, code, start, DecoderOptions::NONE).iter() {
        let (at, length) = (instruction.ip(), instruction.len());
        let may_move = may_move(&instruction);
        let is_undone = is_undone(&instruction, &instructions);
        instructions.push(instruction);
        if !may_move && instructions.len() == 1 {
            let bytes = slice(text, at, length as u64).unwrap_or_default();
            let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            return Err(NotMovable::Instruction(bytes.join(" ")));
        }
        if may_move && length >= JUMP {
            return Ok((instructions, Vec::new()));
        }
        if may_move && length >= SHORT && first_short.is_none() {
            first_short = padding.way(at).map(|way| (instructions.len(), way));
        }
        if !is_undone {
            break;
        }
    }
    let (count, way) = first_short.ok_or(NotMovable::NoPlace)?;
    instructions.truncate(count);
    Ok((instructions, way))
}

fn may_move(instruction: &Instruction) -> bool {
    let may_flow = matches!(
        instruction.flow_control(),
        FlowControl::Next
            | FlowControl::ConditionalBranch
            | FlowControl::UnconditionalBranch
            | FlowControl::Return
    );
    may_flow && !instruction.is_invalid() && instruction.code() != Code::Syscall
}

/// Whether undoing this instruction and those before it leaves no effect, except in registers that the caller does not
/// need.
fn is_undone(instruction: &Instruction, before: &[Instruction]) -> bool {
    let pushed = |register| before.iter().any(|it| is_push(it) && it.op0_register() == register);
    match instruction.mnemonic() {
        Mnemonic::Nop | Mnemonic::Endbr64 => true,
        Mnemonic::Push => is_push(instruction),
        Mnemonic::Mov => {
            let to = instruction.op0_register().full_register();
            instruction.op0_kind() == OpKind::Register
                && instruction.op1_kind() == OpKind::Register
                && instruction.op1_register().is_gpr()
                && (SCRATCH.contains(&to) || pushed(to))
        }
        _ => false,
    }
}

fn is_push(instruction: &Instruction) -> bool {
    instruction.code() == Code::Push_r64 && instruction.op0_register() != Register::RSP
}

/// The instruction that undoes an instruction, if one is needed: `pop` for `push`. It also restores a register that a
/// later instruction has changed.
fn undone(instruction: &Instruction) -> Option<Instruction> {
    let register = is_push(instruction).then(|| instruction.op0_register())?;
    Instruction::with1(Code::Pop_r64, register).ok()
}

/// The instructions at another address, with a jump back behind the last of them.
fn moved(displaced: &[Instruction], to: u64) -> Result<Vec<u8>, NotMovable> {
    let back = displaced.last().filter(|last| !ends(last)).map(Instruction::next_ip);
    encoded(displaced.to_vec(), to, back)
}

fn encoded(
    mut instructions: Vec<Instruction>,
    at: u64,
    then_to: Option<u64>,
) -> Result<Vec<u8>, NotMovable> {
    if let Some(to) = then_to {
        let jump = Instruction::with_branch(Code::Jmp_rel32_64, to);
        instructions.push(jump.map_err(|_| NotMovable::TooFar)?);
    }
    let block = InstructionBlock::new(&instructions, at);
    let done = BlockEncoder::encode(64, block, BlockEncoderOptions::NONE);
    done.map(|done| done.code_buffer).map_err(|_| NotMovable::TooFar)
}

/// True if any known instruction of the image branches between the two addresses: such a branch would reach the shim,
/// or the middle of a jump.
fn is_jumped_into(text: Text<'_>, start: u64, end: u64) -> bool {
    let inside = |target: u64| target > start && target < end;
    text.code.iter().any(|(offset, size)| slice(text, text.base + offset, *size).is_none())
        || instructions(text).any(|instruction| inside(instruction.near_branch_target()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::arch::this::launch_code_tests::text;
    use crate::attach::redirected::{pieces, text_start};
    use clockscope_sys::own_vdso;
    use vdso_image::layout::{Function, TRAMPOLINE_SIZE};
    use vdso_reader::Image;

    const BASE: u64 = 0x7f00_0000_0000;
    const IMAGE: u64 = BASE - 0x10_0000;
    const THERE: u64 = IMAGE + 0x1000;

    fn redirect_at(bytes: &[u8], size: u64) -> Result<Redirected, NotMovable> {
        let code = [(0, size), (size, bytes.len() as u64 - size)];
        let text = Text { bytes, base: BASE, code: &code, is_guarded: false };
        redirect(text, &mut Padding::of(text), (BASE, size), IMAGE, THERE)
    }

    fn lines(code: &[u8], at: u64) -> Vec<String> {
        Decoder::with_ip(64, code, at, DecoderOptions::NONE).iter().map(|it| text(&it)).collect()
    }

    /// Follows a context that stands at the jump: along the jumps, and through the code that undoes.
    fn followed(redirected: &Redirected) -> (Vec<String>, u64) {
        let target =
            |change: &Change| jump_target(change.at, change.jump.as_slice().try_into().unwrap());
        let last = redirected.changes.last().unwrap();
        let enters = match redirected.changes.as_slice() {
            [only] => target(only).unwrap(),
            [near, shorts @ ..] => {
                let mut to = near.at;
                for short in shorts {
                    let distance = i64::from(short.jump[1].cast_signed());
                    assert_eq!((short.jump[0], short.jump.len()), (0xeb, 2));
                    assert_eq!((short.at + 2).wrapping_add_signed(distance), to);
                    to = short.at;
                }
                assert!(near.stays && !last.stays && shorts.len() < 3);
                target(near).unwrap()
            }
            [] => panic!("no jump"),
        };
        if redirected.undo.is_empty() {
            return (Vec::new(), enters);
        }
        let undo_at = THERE + (redirected.code.len() - redirected.undo.len()) as u64;
        assert_eq!(enters, undo_at);
        let mut undo = lines(&redirected.undo, undo_at);
        let jump = undo.pop().unwrap();
        let to = jump.strip_prefix("jmp ").unwrap().trim_end_matches('h');
        (undo, u64::from_str_radix(to, 16).unwrap())
    }

    fn hex(text: &str) -> Vec<u8> {
        text.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
    }

    /// Checks the clock functions of an image: no instruction begins inside of a jump, the jump leads to the shim, and
    /// the used padding is between functions. Returns the functions that cannot be redirected.
    fn check(bytes: &[u8]) -> Vec<String> {
        let image = Image::parse(bytes).unwrap();
        let functions = image.functions().map(|symbol| (symbol.offset, symbol.size));
        let code = pieces(functions, text_start(&image).unwrap());
        let text = Text { bytes, base: BASE, code: &code, is_guarded: false };
        let mut padding = Padding::of(text);
        let starts: Vec<u64> = instructions(text).map(|instruction| instruction.ip()).collect();
        let mut changed: Vec<(u64, u64)> = Vec::new();
        let mut left = Vec::new();
        for name in Function::ALL.map(|function| format!("__vdso_{}", function.name())) {
            let found = image.functions().find(|symbol| symbol.name == name);
            let Some(symbol) = found else { continue };
            let start = BASE + symbol.offset;
            let redirected = match redirect(text, &mut padding, (start, symbol.size), IMAGE, THERE)
            {
                Ok(redirected) => redirected,
                Err(why) => {
                    assert_eq!(why, NotMovable::NoPlace, "{name}");
                    left.push(symbol.name.clone());
                    continue;
                }
            };
            for change in &redirected.changes {
                let end = change.at + change.jump.len() as u64;
                let inside = starts.iter().find(|at| **at > change.at && **at < end);
                assert!(change.stays || inside.is_none(), "{name} {change:x?} {inside:x?}");
                assert!(
                    changed.iter().all(|(from, to)| end <= *from || *to <= change.at),
                    "{name}"
                );
                changed.push((change.at, end));
                let own = change.at >= start && end <= start + symbol.size;
                assert_eq!(own, !change.stays, "{name}");
                assert_eq!(
                    change.original,
                    slice(text, change.at, change.jump.len() as u64).unwrap()
                );
            }
            let (undo, to) = followed(&redirected);
            assert_eq!(to, IMAGE, "{name}");
            // The registers pushed in front of the jump, in reverse order.
            let at = usize::try_from(redirected.changes.last().unwrap().at - BASE).unwrap();
            let from = usize::try_from(symbol.offset).unwrap();
            let before = lines(&bytes[from..at], start);
            let pushed = before.iter().rev().filter_map(|line| line.strip_prefix("push "));
            assert_eq!(undo, pushed.map(|r| format!("pop {r}")).collect::<Vec<_>>(), "{name}");
            assert!(redirected.code.len() <= TRAMPOLINE_SIZE, "{name}");
        }
        left
    }

    #[test]
    fn every_function_of_this_kernel_can_be_redirected() {
        let Some(own) = own_vdso::read() else { return skips::skip("this kernel has no vDSO") };
        assert_eq!(check(&own.bytes), [""; 0]);
    }

    #[test]
    fn nearly_every_function_of_other_kernels_can_be_redirected() {
        let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/vdso");
        for (kernel, left) in [
            ("5.10", &["__vdso_clock_getres"][..]),
            ("6.1", &[]),
            ("6.12", &["__vdso_sgx_enter_enclave"]),
            ("6.18", &[]),
            ("7.3", &["__vdso_sgx_enter_enclave"]),
        ] {
            let bytes = std::fs::read(kernels.join(format!("x86_64-{kernel}.so"))).unwrap();
            assert_eq!(check(&bytes), left, "{kernel}");
        }
    }

    #[test]
    fn what_refers_to_its_own_address_still_means_the_same_there() {
        // cmp dword [rip - 0x1000], 0x7fffffff; xor rax, rax; ret
        let bytes = hex("81 3d 00 f0 ff ff ff ff ff 7f 48 31 c0 c3");
        let redirected = redirect_at(&bytes, 14).unwrap();
        let there = Decoder::with_ip(64, &redirected.code, THERE, DecoderOptions::NONE).decode();
        assert_eq!(there.ip_rel_memory_address(), BASE + 10 - 0x1000);
        assert_eq!((redirected.changes[0].at, redirected.changes.len()), (BASE, 1));
        assert_eq!(followed(&redirected), (vec![], IMAGE));
    }

    #[test]
    fn the_jump_stands_behind_what_can_be_undone() {
        // push rbp; mov r10, rdi; mov rbp, rsp; push r12; lea r12, [rip]; ret
        let bytes = hex("55 49 89 fa 48 89 e5 41 54 4c 8d 25 00 00 00 00 c3");
        let redirected = redirect_at(&bytes, 17).unwrap();
        assert_eq!(redirected.changes[0].at, BASE + 9);
        assert_eq!(
            followed(&redirected),
            (vec!["pop r12".to_owned(), "pop rbp".to_owned()], IMAGE)
        );
        let code = lines(&redirected.code, THERE);
        assert_eq!(code[..4], ["push rbp", "mov r10,rdi", "mov rbp,rsp", "push r12"]);
        assert_eq!(code[5], "jmp 00007F0000000010h", "{code:?}");
        // None of these can be undone: a register of the caller's, an argument, memory, the stack pointer.
        for first in ["48 89 fb", "48 89 c7", "48 89 07", "48 83 ec 10", "54", "85 ff"] {
            let bytes = hex(&format!("{first} 4c 8d 25 00 00 00 00 c3"));
            let refused = redirect_at(&bytes, bytes.len() as u64);
            assert_eq!(refused, Err(NotMovable::NoPlace), "{first}");
        }
    }

    #[test]
    fn a_short_jump_goes_to_padding_behind_an_end_that_nothing_branches_to() {
        // cmp edi, 0x17; ja +9; nop; ret, and padding of six bytes
        let function = "83 ff 17 77 01 90 c3";
        let bytes = hex(&format!("{function} 66 0f 1f 44 00 00"));
        let redirected = redirect_at(&bytes, 7).unwrap();
        let ats: Vec<u64> = redirected.changes.iter().map(|change| change.at).collect();
        assert_eq!(ats, [BASE + 7, BASE]);
        assert_eq!(followed(&redirected), (vec![], IMAGE));
        let code = lines(&redirected.code, THERE);
        assert_eq!(code, ["cmp edi,17h", "jmp 00007F0000000003h"]);
        // Refused: padding of four bytes, code, and padding that a branch leads to.
        for (function, behind) in [
            (function, "0f 1f 40 00"),
            (function, "31 c0 31 c0 31 c0"),
            ("83 ff 17 77 04 90 c3", "90 90 90 90 90 90"),
            ("83 ff 17 77 01 90 90", "90 90 90 90 90 90"),
        ] {
            let refused = redirect_at(&hex(&format!("{function} {behind}")), 7);
            assert_eq!(refused, Err(NotMovable::NoPlace), "{function} {behind}");
        }
    }

    #[test]
    fn padding_is_given_once() {
        let bytes = hex("c3 90 90 90 90 90 90 90 90 90 90 90");
        let text = Text { bytes: &bytes, base: BASE, code: &[(0, 12)], is_guarded: false };
        let mut padding = Padding::of(text);
        let mut next = || {
            let way = padding.way(BASE)?;
            padding.take(way[0], JUMP);
            Some(way[0].at)
        };
        assert_eq!([next(), next(), next()], [Some(BASE + 1), Some(BASE + 6), None]);
        assert_eq!(Padding::of(text).way(BASE + 200), None, "too far for a short jump");
    }

    #[test]
    fn two_bytes_of_padding_are_half_way_to_padding_further_away() {
        // cmp edi, 15; ja; ret; padding of two bytes, a hundred bytes of code, and padding of five
        let mut bytes = hex("83 ff 0f 77 00 c3 66 90");
        bytes.extend(hex("31 c0").repeat(62));
        bytes.extend(hex("c3 0f 1f 44 00 00"));
        let redirected = redirect_at(&bytes, 6).unwrap();
        let ats: Vec<u64> = redirected.changes.iter().map(|change| change.at - BASE).collect();
        assert_eq!(ats, [133, 6, 0]);
        let stays: Vec<bool> = redirected.changes.iter().map(|change| change.stays).collect();
        assert_eq!(stays, [true, true, false]);
        assert_eq!(followed(&redirected), (vec![], IMAGE));
    }

    #[test]
    fn code_that_is_jumped_into_stays() {
        // push rbp; push rbx; lea rax, [rip]; then a loop back to the second instruction
        let mut bytes = hex("55 53 48 8d 05 00 00 00 00 eb f6 c3");
        assert_eq!(redirect_at(&bytes, 12), Err(NotMovable::JumpedInto));
        bytes[10] -= 1; // to the first instruction
        assert!(redirect_at(&bytes, 12).is_ok());
        assert_eq!(pieces([(9, 3), (2, 4)].into_iter(), 0), [(0, 2), (2, 4), (6, 3), (9, 3)]);
    }

    #[test]
    fn calls_and_system_calls_stay_where_they_are() {
        let call = hex("e8 00 10 00 00 c3");
        let stays = |bytes: &str| Err(NotMovable::Instruction(bytes.to_owned()));
        assert_eq!(redirect_at(&call, 6), stays("e8 00 10 00 00"));
        let syscall = hex("0f 05 c3 90 90 90 90 90");
        assert_eq!(redirect_at(&syscall, 3), stays("0f 05"));
    }

    #[test]
    fn what_is_too_far_is_declined() {
        assert_eq!(jump(0x1000, 0x1_0000_1000), None);
        let bytes = hex("b8 7b 00 00 00 c3");
        let text = Text { bytes: &bytes, base: BASE, code: &[(0, 6)], is_guarded: false };
        let far =
            redirect(text, &mut Padding::of(text), (BASE, 6), BASE + (3 << 30), BASE + (3 << 30));
        assert_eq!(far, Err(NotMovable::TooFar));
    }
}
