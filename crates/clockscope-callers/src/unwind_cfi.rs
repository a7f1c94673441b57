//! Call frame information: from a function's registers to those of its caller.
//!
//! The compiler's rules are followed exactly, or not at all. An address that no frame description
//! covers has no answer, and no rule is guessed for it: a profiler that falls back to frame
//! pointers there finds callers that never called.
//!
//! # References
//!
//! - DWARF 5, 6.4 "Call Frame Information"
//! - System V ABI, AMD64 supplement 1.0, 3.6 "DWARF definition", 4.2.4 `.eh_frame`

use std::collections::HashMap;
use std::rc::Rc;

use gimli::{
    BaseAddresses, CfaRule, CieOrFde, DebugFrame, EhFrame, EhFrameHdr, Encoding, EndianSlice,
    Evaluation, EvaluationResult, FrameDescriptionEntry, LittleEndian, Location, ParsedEhFrameHdr,
    Register, RegisterRule, UnwindContext, UnwindExpression, UnwindOffset, UnwindSection, Value,
};

use super::arch::registers::{self, LINK, PRESERVED, RETURN, VENDOR};
use super::module_file::{Elf, Section};
use super::sample::{GENERAL, Registers, SP};

type Bytes<'a> = EndianSlice<'a, LittleEndian>;
type Rule = RegisterRule<usize>;

/// Most bytes of one frame description; real ones have less than ten thousand.
const DESCRIPTION_MAX: usize = 1 << 20;
/// Most frame descriptions that are indexed if the linker made no index.
const INDEX_MAX: usize = 4 << 20;
/// Most steps of an expression.
const EXPRESSION_STEPS: u32 = 1000;
/// Rows that are kept, for each module.
const CACHE_MAX: usize = 8192;

/// The bytes of a stack from the stack pointer on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stack<'a> {
    /// Address of the first byte.
    pub(super) start: u64,
    pub(super) bytes: &'a [u8],
}

impl Stack<'_> {
    /// The word at an address, if it was copied.
    pub(super) fn word(self, address: u64) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.start)?).ok()?;
        let word = self.bytes.get(at..at.checked_add(8)?)?;
        Some(u64::from_le_bytes(word.try_into().ok()?))
    }
}

/// Reason why there is no caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// This is the first function of its thread.
    Outermost,
    /// No frame description covers the address.
    Uncovered,
    /// A description covers the address, but it makes no sense.
    Damaged,
    /// A necessary word lies on the stack, behind the copied part.
    NotCopied,
    /// A necessary word lies outside of the stack.
    Elsewhere,
}

/// The unwind rules for one place in the code.
#[derive(Clone, Debug)]
struct Row {
    /// Start of the function.
    start: u64,
    frame: CfaRule<usize>,
    registers: Vec<(usize, Rule)>,
    /// `None`: this is the outermost function.
    caller: Option<Rule>,
    encoding: Encoding,
    is_signal: bool,
}

/// The frame information of a module: `.eh_frame`, with the linker's index if that is sound,
/// otherwise with our own index; or `.debug_frame`.
pub(super) struct Frames {
    is_debug: bool,
    frames: Section,
    table: Option<Vec<u8>>,
    index: Vec<(u64, usize)>,
    bases: BaseAddresses,
    context: UnwindContext<usize>,
    rows: HashMap<u64, Result<Rc<Row>, Stop>>,
}

impl Frames {
    /// Reads the frame information of a file; `None` if it has none.
    ///
    /// `with_debug` if `.debug_frame`, which is meant for debuggers, may be used. Go's does not
    /// describe changes to another stack.
    pub(super) fn read(elf: &Elf, with_debug: bool) -> Option<Frames> {
        let start = |name: &str| elf.address_of_section(name).unwrap_or_default();
        let mut bases = BaseAddresses::default().set_text(start(".text")).set_got(start(".got"));
        let table = elf.frame_table().or_else(|| elf.section(".eh_frame_hdr"));
        if let Some(table) = &table {
            bases = bases.set_eh_frame_hdr(table.address);
        }
        let frames = elf
            .section(".eh_frame")
            .or_else(|| elf.rest_from(frames_by_table(table.as_ref()?, &bases)?));
        let frames = frames.filter(|frames| frames.bytes.len() > 4);
        let is_debug = frames.is_none();
        let debug = || with_debug.then(|| elf.section(".debug_frame")).flatten();
        let frames = frames.or_else(debug)?;
        if !is_debug {
            bases = bases.set_eh_frame(frames.address);
        }
        let table = table.filter(|_| !is_debug).map(|table| table.bytes);
        let table = table.filter(|table| is_sound(table, &bases));
        let index = match (&table, is_debug) {
            (Some(_), _) => Vec::new(),
            (None, true) => index_of(&debug_frame(&frames.bytes), &bases),
            (None, false) => index_of(&eh_frame(&frames.bytes), &bases),
        };
        let (context, rows) = (UnwindContext::new(), HashMap::new());
        Some(Frames { is_debug, frames, table, index, bases, context, rows })
    }

    /// The caller's registers for the code at `at` (an address in the file).
    ///
    /// `stack` is the readable memory.
    pub(super) fn caller(
        &mut self,
        at: u64,
        registers: &Registers,
        stack: Stack<'_>,
    ) -> Result<(Registers, bool), Stop> {
        let row = self.cached_row(at)?;
        let frames = &self.frames.bytes;
        let caller = row.apply(&Frame { registers, stack, frames, encoding: row.encoding })?;
        Ok((caller, row.is_signal))
    }

    /// Whether signal handlers return to the code at `at`: its caller is the interrupted function.
    pub(super) fn is_signal(&mut self, at: u64) -> bool {
        self.cached_row(at).is_ok_and(|row| row.is_signal)
    }

    /// Whether a description covers the code at `at`.
    pub(super) fn covers(&mut self, at: u64) -> bool {
        !matches!(self.cached_row(at), Err(Stop::Uncovered))
    }

    fn cached_row(&mut self, at: u64) -> Result<Rc<Row>, Stop> {
        if self.rows.len() >= CACHE_MAX {
            self.rows.clear();
        }
        if let Some(row) = self.rows.get(&at) {
            return row.clone();
        }
        let row = self.row(at).map(Rc::new);
        self.rows.insert(at, row.clone());
        row
    }

    /// Start of the function whose code is at `at`.
    pub(super) fn function_start(&mut self, at: u64) -> Option<u64> {
        self.cached_row(at).ok().map(|row| row.start)
    }

    /// Offset of the description that may cover the code at `at`.
    fn offset(&self, at: u64) -> Option<usize> {
        let by_table = self.table.as_deref().and_then(|table| {
            let table = parsed(table, &self.bases)?;
            let found = table.table()?.lookup(at, &self.bases).ok()?;
            // The table's own start of the frames may be damaged, so it is not used.
            let offset = found.direct().ok()?.checked_sub(self.frames.address)?;
            usize::try_from(offset).ok()
        });
        by_table.or_else(|| by_index(&self.index, at))
    }

    fn row(&mut self, at: u64) -> Result<Row, Stop> {
        let offset = self.offset(at).ok_or(Stop::Uncovered)?;
        let (bytes, bases, context) = (&self.frames.bytes, &self.bases, &mut self.context);
        if self.is_debug {
            row_of(&debug_frame(bytes), bases, offset, at, context)
        } else {
            row_of(&eh_frame(bytes), bases, offset, at, context)
        }
    }
}

fn eh_frame(bytes: &[u8]) -> EhFrame<Bytes<'_>> {
    let mut section = EhFrame::new(bytes, LittleEndian);
    section.set_address_size(8);
    section.set_vendor(VENDOR);
    section
}

fn debug_frame(bytes: &[u8]) -> DebugFrame<Bytes<'_>> {
    let mut section = DebugFrame::new(bytes, LittleEndian);
    section.set_address_size(8);
    section.set_vendor(VENDOR);
    section
}

fn parsed<'a>(table: &'a [u8], bases: &BaseAddresses) -> Option<ParsedEhFrameHdr<Bytes<'a>>> {
    EhFrameHdr::new(table, LittleEndian).parse(bases, 8).ok()
}

/// Address of the frames by the index.
fn frames_by_table(table: &Section, bases: &BaseAddresses) -> Option<u64> {
    parsed(&table.bytes, bases)?.eh_frame_ptr().direct().ok()
}

/// Whether the linker's index can be used.
fn is_sound(table: &[u8], bases: &BaseAddresses) -> bool {
    // Linkers write counts of four bytes; a damaged one of eight could overflow the search.
    const COUNT_OF_FOUR_BYTES: u8 = 3;
    table.get(2) == Some(&COUNT_OF_FOUR_BYTES)
        && parsed(table, bases).is_some_and(|table| {
            table.table().is_some_and(|table| table.iter(bases).next().is_ok_and(|e| e.is_some()))
        })
}

/// First addresses and offsets of all frame descriptions, in order.
fn index_of<'a, S: UnwindSection<Bytes<'a>>>(
    section: &S,
    bases: &BaseAddresses,
) -> Vec<(u64, usize)> {
    let mut index = Vec::new();
    let mut entries = section.entries(bases);
    let mut last_cie: Option<gimli::CommonInformationEntry<Bytes<'a>>> = None;
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else { continue };
        let parsed = partial.parse(|section, bases, offset| {
            if let Some(cie) =
                last_cie.as_ref().filter(|cie| cie.offset() == UnwindOffset::into(offset))
            {
                return Ok(cie.clone());
            }
            let cie = section.cie_from_offset(bases, offset)?;
            last_cie = Some(cie.clone());
            Ok(cie)
        });
        if let Ok(fde) = parsed {
            index.push((fde.initial_address(), fde.offset()));
        }
        if index.len() >= INDEX_MAX {
            break;
        }
    }
    index.sort_unstable();
    index
}

fn by_index(index: &[(u64, usize)], at: u64) -> Option<usize> {
    let behind = index.partition_point(|(start, _)| *start <= at);
    Some(index.get(behind.checked_sub(1)?)?.1)
}

fn row_of<'a, S: UnwindSection<Bytes<'a>>>(
    section: &S,
    bases: &BaseAddresses,
    offset: usize,
    at: u64,
    context: &mut UnwindContext<usize>,
) -> Result<Row, Stop> {
    let fde: FrameDescriptionEntry<Bytes<'a>> = section
        .fde_from_offset(bases, S::Offset::from(offset), S::cie_from_offset)
        .map_err(|_| Stop::Damaged)?;
    if !fde.contains(at) {
        return Err(Stop::Uncovered);
    }
    if fde.entry_len() > DESCRIPTION_MAX || fde.cie().entry_len() > DESCRIPTION_MAX {
        return Err(Stop::Damaged);
    }
    let row =
        fde.unwind_info_for_address(section, bases, context, at).map_err(|_| Stop::Damaged)?;
    let mut registers = Vec::new();
    for (register, rule) in row.registers() {
        if let Ok(number) = general(*register) {
            if let RegisterRule::Register(other) = rule {
                general(*other)?;
            }
            registers.push((number, rule.clone()));
        }
    }
    let caller = match row.register(RETURN) {
        Some(RegisterRule::Undefined) => None,
        // The return address is still in its register, if the architecture has one.
        None if LINK.is_some() => Some(RegisterRule::SameValue),
        None => return Err(Stop::Damaged),
        found => found,
    };
    let (encoding, is_signal) = (fde.cie().encoding(), fde.is_signal_trampoline());
    let (start, frame) = (fde.initial_address(), row.cfa().clone());
    Ok(Row { start, frame, registers, caller, encoding, is_signal })
}

fn general(register: Register) -> Result<usize, Stop> {
    Some(usize::from(register.0)).filter(|number| *number < GENERAL).ok_or(Stop::Damaged)
}

impl Row {
    /// The caller's registers.
    fn apply(&self, frame: &Frame<'_>) -> Result<Registers, Stop> {
        let Some(rule) = &self.caller else { return Err(Stop::Outermost) };
        let registers = frame.registers;
        let cfa = match &self.frame {
            // If the value of the CFA register is unknown, the rules do not fit this frame.
            CfaRule::RegisterAndOffset { register, offset } => {
                let value = registers.general[general(*register)?].ok_or(Stop::Damaged)?;
                value.checked_add_signed(*offset).ok_or(Stop::Damaged)?
            }
            CfaRule::Expression(is) => frame.evaluate(is, None)?,
        };
        let link = LINK.and_then(|number| registers.general[number]);
        let word = frame.value(rule, link, cfa)?.ok_or(Stop::Damaged)?;
        let ip = registers::return_address(word);
        let mut caller = Registers { ip, general: [None; GENERAL] };
        for number in PRESERVED {
            caller.general[number] = registers.general[number];
        }
        caller.general[SP] = Some(cfa);
        for (number, rule) in &self.registers {
            // A register that cannot be read is unknown, which matters only if it is needed.
            caller.general[*number] =
                frame.value(rule, registers.general[*number], cfa).unwrap_or(None);
        }
        // The call has overwritten the register with its own return address.
        if let Some(number) = LINK {
            caller.general[number] = None;
        }
        Ok(caller)
    }
}

/// The input of the rules. `frames` is the section with their expressions.
struct Frame<'a> {
    registers: &'a Registers,
    stack: Stack<'a>,
    frames: &'a [u8],
    encoding: Encoding,
}

impl Frame<'_> {
    /// The value by a rule; `cfa` is the caller's stack pointer. `None`: unknown from here on.
    fn value(&self, rule: &Rule, same: Option<u64>, cfa: u64) -> Result<Option<u64>, Stop> {
        let beside = |offset: i64| cfa.checked_add_signed(offset).ok_or(Stop::Damaged);
        Ok(match rule {
            RegisterRule::SameValue => same,
            RegisterRule::Offset(offset) => Some(self.memory(beside(*offset)?)?),
            RegisterRule::ValOffset(offset) => Some(beside(*offset)?),
            RegisterRule::Register(register) => self.registers.general[general(*register)?],
            RegisterRule::Expression(at) => Some(self.memory(self.evaluate(at, Some(cfa))?)?),
            RegisterRule::ValExpression(is) => Some(self.evaluate(is, Some(cfa))?),
            _ => None,
        })
    }

    fn memory(&self, address: u64) -> Result<u64, Stop> {
        let end = self.stack.start.saturating_add(self.stack.bytes.len() as u64);
        self.stack.word(address).ok_or({
            // No stack is that large: an address farther away is outside of the stack.
            const LARGEST: u64 = 1 << 30;
            let is_behind = address >= self.stack.start && address - self.stack.start < LARGEST;
            if is_behind || address >= end && address - end < LARGEST {
                Stop::NotCopied
            } else {
                Stop::Elsewhere
            }
        })
    }

    /// Runs an expression; `initial` is on the expression's stack at the start.
    fn evaluate(&self, of: &UnwindExpression<usize>, initial: Option<u64>) -> Result<u64, Stop> {
        let bytes = self.frames.get(of.offset..).and_then(|rest| rest.get(..of.length));
        let bytes = EndianSlice::new(bytes.ok_or(Stop::Damaged)?, LittleEndian);
        let mut run = Evaluation::new(bytes, self.encoding);
        run.set_max_iterations(EXPRESSION_STEPS);
        if let Some(value) = initial {
            run.set_initial_value(value);
        }
        let mut state = run.evaluate().map_err(|_| Stop::Damaged)?;
        loop {
            state = match state {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresRegister { register, .. } => {
                    let value = self.registers.general[general(register)?].ok_or(Stop::Damaged)?;
                    run.resume_with_register(Value::Generic(value))
                }
                EvaluationResult::RequiresMemory { address, size: 8, space: None, .. } => {
                    run.resume_with_memory(Value::Generic(self.memory(address)?))
                }
                _ => return Err(Stop::Damaged),
            }
            .map_err(|_| Stop::Damaged)?;
        }
        match run.as_result().last().map(|piece| &piece.location) {
            Some(Location::Address { address }) => Ok(*address),
            _ => Err(Stop::Damaged),
        }
    }
}
