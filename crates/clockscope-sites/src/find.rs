//! Finds the `syscall` instructions of a file, and decides whether their calls can be counted.

use std::fmt;
use std::ops::Range;

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic,
    OpAccess, OpKind, Register, RflagsBits,
};

use crate::branches::{Functions, in_parts, reached};
use crate::elf::{self, Unreadable};
use crate::site::{Behind, JUMP, NUMBERS, Segment, Site, is_plain};

/// `rt_sigreturn(2)` on x86-64.
const SYS_RT_SIGRETURN: u32 = 15;
/// `exit(2)` and `exit_group(2)`.
const ENDS: [u32; 2] = [60, 231];

/// A `syscall` instruction whose calls cannot be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// Its address, in the file's own numbers.
    pub syscall: u64,
    /// Why.
    pub why: Why,
}

/// Why calls of a `syscall` instruction cannot be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Why {
    /// No function in the file's tables contains the bytes: they may be data.
    NoFunction,
    /// The function contains bytes that do not decode.
    NotDecoded,
    /// Code branches to the `syscall` or to an instruction shortly before.
    JumpedTo,
    /// The function jumps to computed addresses, perhaps to this one.
    JumpsAnywhere,
    /// An instruction shortly before cannot be moved: a call, or another `syscall`.
    Immovable,
    /// There is no room for code near the file, or writing the code failed.
    TooFar,
    /// The process's bytes differ from the file's.
    Changed,
    /// The return trampoline of signal handlers, which debuggers and unwinders recognise by its bytes.
    SignalReturn,
    /// A thread stood at these instructions, or was to return to them, when clockscope attached.
    Occupied,
    /// A program without a dynamic linker has mapped the file. Such a program may translate the code or inspect it, as
    /// valgrind's tools do.
    Foreign,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoFunction => "which may be data: no function of the file has them",
            Self::NotDecoded => "in functions with bytes that are no instructions",
            Self::JumpedTo => "code jumps there",
            Self::JumpsAnywhere => "in functions that jump to computed addresses",
            Self::Immovable => "behind instructions that cannot be moved",
            Self::TooFar => "with no room for code near them",
            Self::Changed => "in code that was changed",
            Self::SignalReturn => "where handlers of signals return",
            Self::Occupied => "where a thread stood when counting began",
            Self::Foreign => "which a program without a dynamic linker has mapped",
        })
    }
}

/// The system-call instructions of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Executable segments.
    pub segments: Vec<Segment>,
    /// Instructions that can be counted, in ascending order.
    pub sites: Vec<Site>,
    /// Instructions that cannot be counted, in ascending order.
    pub left: Vec<Left>,
}

/// Finds the `syscall` instructions of an ELF file for x86-64.
///
/// # Errors
///
/// [`Unreadable`] for a damaged file, or one that is no ELF file for x86-64.
pub fn find(file: &[u8]) -> Result<Found, Unreadable> {
    looked_into(file, false)
}

/// Like [`find`], but faster where another CPU is free: a second thread takes half of a large file. An additional
/// thread may reserve as much as 128 MiB of addresses (`HEAP_MAX_SIZE`, malloc/arena.c, glibc 2.36).
///
/// # Errors
///
/// As for [`find`].
pub fn find_by_two(file: &[u8]) -> Result<Found, Unreadable> {
    looked_into(file, true)
}

fn looked_into(file: &[u8], by_two: bool) -> Result<Found, Unreadable> {
    let code = elf::read(file)?;
    let mut syscalls = Vec::new();
    for segment in &code.segments {
        let whole = segment.address..segment.address + segment.size;
        let bytes = segment.bytes(file, &whole).unwrap_or_default();
        let places = memchr::memmem::find_iter(bytes, &[0x0f, 0x05]);
        syscalls.extend(places.map(|at| segment.address + at as u64));
    }
    let judged = in_parts(&syscalls, by_two, |syscalls| {
        let mut functions = Functions::new(file, &code);
        syscalls.iter().map(|syscall| site(&mut functions, *syscall)).collect::<Vec<_>>()
    });
    let mut found = Found { segments: code.segments.clone(), ..Found::default() };
    for (syscall, judged) in syscalls.into_iter().zip(judged.into_iter().flatten()) {
        match judged {
            Ok(Some(site)) => found.sites.push(site),
            Ok(None) => {}
            Err(why) => found.left.push(Left { syscall, why }),
        }
    }
    // The segments, and so the sites, need not be in order.
    found.sites.sort_by_key(|site| site.syscall);
    let reached = reached(file, &code.segments, &ranges(&found.sites), by_two);
    let (windows, behind) = reached.split_at(found.sites.len());
    keep_apart(&mut found.sites, behind);
    let mut windows = windows.iter();
    found.sites.retain(|site| {
        let is_reached = windows.next() != Some(&false);
        if is_reached {
            found.left.push(Left { syscall: site.syscall, why: Why::JumpedTo });
        }
        !is_reached
    });
    found.left.sort_unstable_by_key(|left| left.syscall);
    Ok(found)
}

/// The ranges that no near branch may enter: first the displaced instructions before each `syscall`, then those behind
/// each. In the latter the first address counts as well.
fn ranges(sites: &[Site]) -> Vec<Range<u64>> {
    let behind = |site: &Site| site.after() - 1..site.after() + JUMP as u64 - 1;
    sites.iter().map(Site::closed).chain(sites.iter().map(behind)).collect()
}

/// Leaves the instructions behind a `syscall` in place if a near branch enters them, or if the next site displaces
/// them.
fn keep_apart(sites: &mut [Site], reached: &[bool]) {
    let windows: Vec<u64> = sites.iter().skip(1).map(|site| site.window).collect();
    let mut next = windows.into_iter();
    for (site, is_reached) in sites.iter_mut().zip(reached) {
        let is_free = next.next().is_none_or(|window| {
            site.behind
                .as_ref()
                .is_none_or(|behind| site.after() + behind.original.len() as u64 <= window)
        });
        if *is_reached || !is_free {
            site.behind = None;
        }
    }
}

/// The site at an address; `None` if the bytes there are no instruction of their own.
fn site(functions: &mut Functions<'_>, syscall: u64) -> Result<Option<Site>, Why> {
    // Whichever instruction sets the number: debuggers and unwinders recognise these bytes.
    let before = syscall.checked_sub(4).and_then(|start| functions.bytes(&(start..syscall)));
    if before == Some(&SYS_RT_SIGRETURN.to_le_bytes()) {
        return Err(Why::SignalReturn);
    }
    let around = functions.with(syscall);
    if !around.is_empty() {
        return within(functions, &around, syscall);
    }
    behind_its_number(functions, syscall).map(Some).or_else(|why| {
        // Without symbols or unwind info, the whole gap between two functions must decode.
        let between = functions.between(syscall);
        let between = between.filter(|range| !functions.decoded(range).is_damaged);
        between.map_or(Err(why), |range| within(functions, &[range], syscall))
    })
}

/// The site at an address, by the instructions of the functions around it.
fn within(
    functions: &mut Functions<'_>,
    around: &[Range<u64>],
    syscall: u64,
) -> Result<Option<Site>, Why> {
    /// This many instructions, of at least one byte each, always make room for a jump.
    const SHORTLY: usize = JUMP;
    let mut innermost = None;
    let mut starts = None;
    for function in around {
        let decoded = functions.decoded(function);
        let index = decoded.instructions.partition_point(|before| before.ip() < syscall);
        let is_one = decoded.instructions.get(index).is_some_and(|found| found.ip() == syscall);
        // Two functions that decode the bytes shortly before differently disagree on the instructions to displace.
        let shortly = decoded.instructions[..index.min(decoded.instructions.len())].iter().rev();
        let shortly: Vec<u64> = shortly.take(SHORTLY).map(Instruction::ip).collect();
        let agrees = starts.as_ref().is_none_or(|starts: &Vec<u64>| {
            starts.iter().zip(&shortly).all(|(one, other)| one == other)
        });
        if !agrees {
            return Err(Why::NotDecoded);
        }
        starts = Some(shortly);
        if !is_one {
            // The bytes lie inside another instruction, unless the function contains bytes that do not decode.
            return if decoded.is_damaged { Err(Why::NotDecoded) } else { Ok(None) };
        }
        innermost = Some((function, index));
    }
    let Some((function, index)) = innermost else { return Err(Why::NoFunction) };
    let decoded = functions.decoded(function);
    let instructions = &decoded.instructions;
    if instructions[..index].iter().any(Instruction::is_invalid) {
        return Err(Why::NotDecoded);
    }
    let jumps_anywhere = decoded.jumps_anywhere;
    let mut windows = Vec::from_iter(from_its_number(instructions, index));
    windows.extend(before(instructions, index));
    if may_move(instructions, index) {
        windows.extend(around_it(instructions, index));
    }
    // Prefer windows that displace the instruction that sets the number: the number is then known.
    windows.sort_by_key(|displaced| {
        let before = displaced.partition_point(|one| one.ip() < syscall);
        number(&displaced[..before], &[]).is_none()
    });
    let windows: Vec<Vec<Instruction>> = windows.into_iter().map(<[_]>::to_vec).collect();
    let following: Vec<Instruction> =
        instructions[index + 1..].iter().take(JUMP).copied().collect();
    let mut why = Why::Immovable;
    for displaced in windows {
        let mut site = site_of(functions, &displaced, syscall).ok_or(Why::NotDecoded)?;
        if functions.goes_into(&site.closed()) {
            why = Why::JumpedTo;
        } else if jumps_anywhere && !displaced.last().is_some_and(keeps_a_pointer) {
            why = Why::JumpsAnywhere;
        } else {
            if site.stays() && !jumps_anywhere {
                site.behind = behind(functions, &following);
            }
            site.wants_flags = !sets_flags(&following);
            return Ok(Some(site));
        }
    }
    Err(why)
}

/// Without symbols or unwind info, a `mov eax, NUMBER` directly before distinguishes a `syscall` from data.
fn behind_its_number(functions: &mut Functions<'_>, syscall: u64) -> Result<Site, Why> {
    const MOV_EAX: u8 = 0xb8;
    let start = syscall.checked_sub(JUMP as u64).ok_or(Why::NoFunction)?;
    let bytes = functions.bytes(&(start..syscall)).ok_or(Why::NoFunction)?;
    let mov = Decoder::with_ip(64, bytes, start, DecoderOptions::NONE).decode();
    let is_number = usize::try_from(mov.immediate32()).is_ok_and(|number| number < NUMBERS);
    if bytes[0] != MOV_EAX || !is_number {
        return Err(Why::NoFunction);
    }
    let site = site_of(functions, &[mov], syscall).ok_or(Why::NoFunction)?;
    if functions.goes_into(&site.closed()) { Err(Why::JumpedTo) } else { Ok(site) }
}

/// The site of a `syscall` with these displaced instructions.
fn site_of(functions: &Functions<'_>, displaced: &[Instruction], syscall: u64) -> Option<Site> {
    let (window, end) = (displaced.first()?.ip(), displaced.last()?.next_ip());
    let is_plain = displaced.iter().all(is_plain);
    let original = functions.bytes(&(window..end.max(syscall + 2)))?.to_vec();
    // No branch enters these instructions. Other code may run the earlier ones with another number, so only they
    // count.
    let before = displaced.partition_point(|instruction| instruction.ip() < syscall);
    let number = number(&displaced[..before], &[]);
    Some(Site { window, syscall, end, original, number, is_plain, behind: None, wants_flags: true })
}

/// Whether a `syscall` can be executed at another address: calls that do not return (known by their number, or by an
/// endless loop around them), and the `read` at the start of a function, which leaves no room before it
/// (`__read_nocancel`). A call moved by mistake is still made and counted.
fn may_move(instructions: &[Instruction], index: usize) -> bool {
    const SHORTLY: usize = 8;
    let number = number(&instructions[index.saturating_sub(SHORTLY)..index], instructions);
    let is_repeated = instructions.get(index + 1).is_some_and(|behind| {
        behind.flow_control() == FlowControl::UnconditionalBranch
            && (1..16).contains(&instructions[index].ip().wrapping_sub(behind.near_branch_target()))
    });
    match number {
        Some(0) => index == 1,
        Some(number) => ENDS.contains(&number),
        None => is_repeated,
    }
}

/// The shortest sequence of instructions before the one with this index that makes room for a jump.
fn before(instructions: &[Instruction], index: usize) -> Option<&[Instruction]> {
    let mut first = index;
    while instructions[index].ip() - instructions[first].ip() < JUMP as u64 {
        first = first.checked_sub(1)?;
        is_movable(&instructions[first]).then_some(())?;
    }
    Some(&instructions[first..index])
}

/// The instructions from the one that sets the call's number up to the one with this index, if these are more than a
/// jump needs.
fn from_its_number(instructions: &[Instruction], index: usize) -> Option<&[Instruction]> {
    const SHORTLY: usize = 8;
    let mut info = InstructionInfoFactory::new();
    let shortest = before(instructions, index)?.len();
    let shortly = index.saturating_sub(SHORTLY)..index;
    let sets = |instruction: &Instruction| changes(&mut info, instruction, Register::RAX);
    let first = shortly.start + instructions[shortly].iter().rposition(sets)?;
    let displaced = &instructions[first..index];
    let is_movable =
        displaced.iter().all(|one| is_movable(one) && one.flow_control() == FlowControl::Next);
    (displaced.len() > shortest && is_movable && number(displaced, &[]).is_some())
        .then_some(displaced)
}

/// Sequences that include the instruction with this index and make room for a jump, those with the fewest instructions
/// before it first.
fn around_it(instructions: &[Instruction], index: usize) -> impl Iterator<Item = &[Instruction]> {
    let begins = (0..3).map_while(move |before| {
        let first = index.checked_sub(before)?;
        instructions[first..index].iter().all(is_movable).then_some(first)
    });
    begins.filter_map(move |first| {
        let is_enough =
            |last: &Instruction| last.next_ip() - instructions[first].ip() >= JUMP as u64;
        let last = (index..instructions.len()).find(|last| is_enough(&instructions[*last]))?;
        let can_move = |behind: &Instruction| {
            is_movable(behind) || behind.flow_control() == FlowControl::UnconditionalBranch
        };
        let behind = &instructions[index + 1..=last];
        behind.iter().all(can_move).then_some(&instructions[first..=last])
    })
}

/// The instructions behind a `syscall` that can be displaced.
fn behind(functions: &mut Functions<'_>, following: &[Instruction]) -> Option<Behind> {
    let start = following.first()?.ip();
    let room = start..start + JUMP as u64;
    let leaves = |instruction: &Instruction| {
        matches!(instruction.flow_control(), FlowControl::Return | FlowControl::UnconditionalBranch)
    };
    let mut end = start;
    for instruction in following.iter().take_while(|one| one.ip() < room.end) {
        if !is_movable(instruction) && !leaves(instruction) {
            return None;
        }
        end = instruction.next_ip();
        if leaves(instruction) {
            break;
        }
    }
    let has_room = end >= room.end || is_filling(functions, &(end..room.end));
    if !has_room || end == start {
        return None;
    }
    // No branch may go to the first address either.
    if functions.goes_into(&(start - 1..end.max(room.end) - 1)) {
        return None;
    }
    let original = functions.bytes(&(start..end.max(room.end)))?.to_vec();
    let is_plain = following.iter().take_while(|one| one.ip() < end).all(is_plain);
    let displaced = usize::try_from(end - start).ok()?;
    Some(Behind { displaced, is_plain, wants_flags: !sets_flags(following), original })
}

/// Whether code ignores the flags before it: the code sets all flags before it reads any, or returns, where the calling
/// convention leaves the flags undefined.
fn sets_flags(code: &[Instruction]) -> bool {
    const ALL: u32 = RflagsBits::OF
        | RflagsBits::SF
        | RflagsBits::ZF
        | RflagsBits::AF
        | RflagsBits::CF
        | RflagsBits::PF;
    let mut open = ALL;
    for instruction in code {
        if instruction.rflags_read() & open != 0 {
            return false;
        }
        open &= !instruction.rflags_modified();
        if open == 0 || instruction.flow_control() == FlowControl::Return {
            return true;
        }
        if instruction.flow_control() != FlowControl::Next {
            return false;
        }
    }
    false
}

/// Whether the bytes are padding between functions, as compilers write it.
fn is_filling(functions: &Functions<'_>, range: &Range<u64>) -> bool {
    const LONGEST: u64 = 15;
    let whole = range.start..range.end + LONGEST;
    let Some(bytes) = functions.bytes(&whole) else { return false };
    let mut at = range.start;
    for instruction in Decoder::with_ip(64, bytes, range.start, DecoderOptions::NONE).iter() {
        if at >= range.end {
            break;
        }
        if !matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Int3) {
            return false;
        }
        at = instruction.next_ip();
    }
    at >= range.end
}

/// Whether this is the instruction before the `syscall` of `__syscall_cp_asm` (musl) and `__syscall_cancel_arch` (glibc
/// from 2.41 on), `mov [rsp+8], r11`. No code branches into these functions, even in a file without symbols.
fn keeps_a_pointer(instruction: &Instruction) -> bool {
    instruction.mnemonic() == Mnemonic::Mov
        && instruction.op0_kind() == OpKind::Memory
        && instruction.memory_base() == Register::RSP
        && instruction.op1_kind() == OpKind::Register
        && instruction.op1_register() == Register::R11
}

fn is_movable(instruction: &Instruction) -> bool {
    let is_short = matches!(
        instruction.mnemonic(),
        Mnemonic::Loop | Mnemonic::Loope | Mnemonic::Loopne | Mnemonic::Jrcxz | Mnemonic::Jecxz
    );
    match instruction.flow_control() {
        FlowControl::Next => !matches!(instruction.code(), Code::Endbr64 | Code::Syscall),
        FlowControl::ConditionalBranch => !is_short,
        _ => false,
    }
}

/// The number in `rax` after these instructions of a function, if it is a known constant.
fn number(behind: &[Instruction], function: &[Instruction]) -> Option<u32> {
    let mut info = InstructionInfoFactory::new();
    for instruction in behind.iter().rev() {
        if !is_movable(instruction) || instruction.flow_control() != FlowControl::Next {
            return None;
        }
        if !changes(&mut info, instruction, Register::RAX) {
            continue;
        }
        return match instruction.mnemonic() {
            Mnemonic::Mov if instruction.op1_kind() == OpKind::Register => {
                only_value(function, instruction.op1_register())
            }
            _ => constant(instruction),
        };
    }
    None
}

/// The constant that an instruction loads into its register, if it does.
fn constant(instruction: &Instruction) -> Option<u32> {
    let is_wide = matches!(instruction.op0_register().size(), 4 | 8);
    let of_itself = instruction.op1_kind() == OpKind::Register
        && instruction.op1_register() == instruction.op0_register();
    match (instruction.mnemonic(), instruction.op1_kind()) {
        (Mnemonic::Mov, OpKind::Immediate32 | OpKind::Immediate32to64 | OpKind::Immediate64)
            if is_wide =>
        {
            u32::try_from(instruction.immediate(1)).ok()
        }
        (Mnemonic::Xor, _) if is_wide && of_itself => Some(0),
        _ => None,
    }
}

/// The value of a register, if the function sets it to no other value and calls no function afterwards.
fn only_value(instructions: &[Instruction], register: Register) -> Option<u32> {
    let mut info = InstructionInfoFactory::new();
    let mut value = None;
    for instruction in instructions {
        let calls =
            matches!(instruction.flow_control(), FlowControl::Call | FlowControl::IndirectCall);
        if changes(&mut info, instruction, register.full_register()) {
            let new = Some(constant(instruction)?);
            if value.is_some() && value != new {
                return None;
            }
            value = new;
        } else if calls && value.is_some() && instruction.code() != Code::Syscall {
            return None;
        }
    }
    value
}

fn changes(info: &mut InstructionInfoFactory, by: &Instruction, register: Register) -> bool {
    info.info(by).used_registers().iter().any(|used| {
        let reads = matches!(used.access(), OpAccess::Read | OpAccess::CondRead | OpAccess::None);
        used.register().full_register() == register && !reads
    })
}

#[cfg(test)]
#[path = "find_tests.rs"]
mod tests;
