//! Code made by Go's compiler.
//!
//! Go writes its own table of functions, which its runtime needs. A stripped program keeps this
//! table.
//!
//! # References
//!
//! Go 1.18 to 1.26: `src/internal/abi/symtab.go`, `pcHeader` and `step` in `src/runtime/symtab.go`,
//! `_func` in `src/runtime/runtime2.go`

use super::arch::go::FIRST;
use super::module_file::Elf;

/// Magic number of Go 1.18 and 1.19.
const MAGIC_18: u32 = 0xffff_fff0;
/// Magic number of Go 1.20 and later.
const MAGIC_20: u32 = 0xffff_fff1;
/// Most bytes of a name.
const NAME_MAX: usize = 4096;
/// Most steps in the table of one function.
const STEPS_MAX: usize = 1 << 16;

/// Reason why the frame record at a frame pointer does not give the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoRecord {
    /// The record lies at this address, outside of the copied stack.
    NotCopied(u64),
    /// The record may be another function's.
    Unsound,
}

/// The table by which Go's own runtime unwinds. It is empty if it cannot be read.
#[derive(Default)]
pub(super) struct GoTable {
    bytes: Vec<u8>,
    text: u64,
    functions: usize,
    names: usize,
    steps: usize,
    index: usize,
    /// Addresses of code are multiples of this many bytes.
    quantum: u64,
    /// Offset of `funcID` and the flags in a function's record.
    flags: usize,
}

/// A function of Go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GoFunction {
    /// The function's name, as in `main.(*queue).post`.
    pub(super) name: String,
    /// Whether a stack ends with this function.
    pub(super) is_first: bool,
    entry: u64,
    heights: usize,
}

impl GoTable {
    /// Reads the table; `None` if the file is no Go program.
    pub(super) fn read(elf: &Elf) -> Option<GoTable> {
        let names = [".gopclntab", ".data.rel.ro.gopclntab"];
        let section = names.iter().find_map(|name| elf.section(name));
        if section.is_none() && !elf.has_section(".go.buildinfo") {
            return None;
        }
        let text = elf.address_of_section(".text");
        let table = section.and_then(|section| GoTable::of(section.bytes, text, elf.entry));
        Some(table.unwrap_or_default())
    }

    /// The table in `bytes`, of a program whose code begins at `text`.
    #[cfg(fuzzing)]
    pub(super) fn of_bytes(bytes: Vec<u8>, text: u64) -> GoTable {
        GoTable::of(bytes, Some(text), text).unwrap_or_default()
    }

    fn of(bytes: Vec<u8>, text: Option<u64>, entry: u64) -> Option<GoTable> {
        let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let flags = match number(&bytes, 0)? {
            MAGIC_18 => 37,
            MAGIC_20 => 41,
            _ => return None,
        };
        let offset = |at: usize| usize::try_from(word(at)?).ok();
        let told = word(24)?;
        let mut table = GoTable {
            functions: offset(8)?,
            text: told,
            names: offset(32)?,
            steps: offset(56)?,
            index: offset(64)?,
            quantum: u64::from(*bytes.get(6)?),
            flags,
            bytes,
        };
        if told == 0 {
            // Go 1.26 does not store the start of its code. The linker puts Go's code first, unless
            // another linker runs after it; the program's entry point shows which.
            table.text = text?;
            table.function(entry).filter(|f| f.entry == entry && f.name == FIRST)?;
        }
        Some(table)
    }

    /// The function at an address.
    pub(super) fn function(&self, at: u64) -> Option<GoFunction> {
        let wanted = u32::try_from(at.checked_sub(self.text)?).ok()?;
        let start =
            |index: usize| number(&self.bytes, index.checked_mul(8)?.checked_add(self.index)?);
        let (mut low, mut high) = (0, self.functions.min(self.bytes.len() / 8));
        if start(high)? <= wanted {
            return None;
        }
        while low + 1 < high {
            let middle = low.midpoint(high);
            if start(middle)? <= wanted { low = middle } else { high = middle }
        }
        if start(low)? > wanted {
            return None;
        }
        let record = number(&self.bytes, self.index.checked_add(low * 8 + 4)?)?;
        let record = self.index.checked_add(usize::try_from(record).ok()?)?;
        let field = |at: usize| number(&self.bytes, record.checked_add(at)?);
        let name = self.names.checked_add(usize::try_from(field(4)?).ok()?)?;
        let name = self.bytes.get(name..)?;
        let length = name.iter().take(NAME_MAX).position(|byte| *byte == 0)?;
        Some(GoFunction {
            name: String::from_utf8_lossy(&name[..length]).into_owned(),
            is_first: self.bytes.get(record.checked_add(self.flags)?)? & 1 != 0,
            entry: self.text + u64::from(start(low)?),
            heights: usize::try_from(field(16)?).ok()?,
        })
    }

    /// Distance of the stack pointer below the function's return address or, if that is in a
    /// register, below the caller's stack pointer.
    pub(super) fn height(&self, function: &GoFunction, at: u64) -> Option<u64> {
        let mut rest = self.bytes.get(self.steps.checked_add(function.heights)?..)?;
        let (mut value, mut end) = (-1_i64, function.entry);
        for step in 0..STEPS_MAX {
            let delta = varint(&mut rest)?;
            if delta == 0 && step > 0 {
                return None;
            }
            let change = i64::try_from(delta >> 1).ok()?;
            value += if delta & 1 == 0 { change } else { -change - 1 };
            end = end.checked_add(varint(&mut rest)?.checked_mul(self.quantum)?)?;
            if at < end {
                return u64::try_from(value).ok();
            }
        }
        None
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..35).step_by(7) {
        let (byte, behind) = rest.split_first()?;
        *rest = behind;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}
