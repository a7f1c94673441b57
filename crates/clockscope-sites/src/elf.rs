//! Reads executable segments and functions from an ELF file.

use std::ops::Range;

use gimli::UnwindSection as _;
use object::read::elf::{FileHeader as _, ProgramHeader as _, SectionHeader as _, Sym as _};
use object::{Endianness, elf};

use crate::site::Segment;

/// Why a file was not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unreadable {
    /// Not an ELF file for x86-64, or damaged.
    #[error("it is no ELF file for x86-64, or damaged")]
    NotElf,
}

/// The code of a file.
#[derive(Debug, Default)]
pub(crate) struct Code {
    pub(crate) segments: Vec<Segment>,
    /// Address ranges of functions, from unwind tables and symbols, in ascending order and without duplicates.
    pub(crate) functions: Vec<Range<u64>>,
    /// Addresses of all symbols in code, of any type, in ascending order.
    pub(crate) labels: Vec<u64>,
    /// All loaded segments, executable or not.
    loaded: Vec<Segment>,
}

impl Code {
    /// The file's bytes that are mapped at an address, up to the end of the segment.
    pub(crate) fn bytes_from<'a>(&self, file: &'a [u8], address: u64) -> Option<&'a [u8]> {
        let segment = self.loaded.iter().find(|segment| segment.holds(address))?;
        segment.bytes(file, &(address..u64::MAX))
    }
}

type Header = elf::FileHeader64<Endianness>;

/// Reads the program headers, unwind table and symbols of a file.
pub(crate) fn read(file: &[u8]) -> Result<Code, Unreadable> {
    let header = Header::parse(file).map_err(|_| Unreadable::NotElf)?;
    let endian = header.endian().map_err(|_| Unreadable::NotElf)?;
    if header.e_machine(endian) != elf::EM_X86_64 {
        return Err(Unreadable::NotElf);
    }
    let programs = header.program_headers(endian, file).map_err(|_| Unreadable::NotElf)?;
    let mut code = Code::default();
    let mut unwinding = None;
    for program in programs {
        let size = program.p_filesz(endian);
        let (address, offset) = (program.p_vaddr(endian), program.p_offset(endian));
        let is_executed = program.p_flags(endian).0 & elf::PF_X.0 != 0;
        if program.p_type(endian) == elf::PT_LOAD && size > 0 {
            address.checked_add(size).ok_or(Unreadable::NotElf)?;
            let segment = Segment { address, offset, size };
            code.loaded.push(segment);
            code.segments.extend(is_executed.then_some(segment));
        }
        if program.p_type(endian) == elf::PT_GNU_EH_FRAME {
            unwinding = program.data(endian, file).ok().map(|data| (address, data));
        }
    }
    if let Some((address, table)) = unwinding {
        let at = frames_at(address, table);
        let frames = at.and_then(|at| Some((at, code.bytes_from(file, at)?)));
        code.functions = frames.map(|(at, frames)| unwound(at, frames)).unwrap_or_default();
    } else if let Ok(sections) = header.sections(endian, file)
        && let Some((_, section)) = sections.section_by_name(endian, b".eh_frame")
        && let Ok(frames) = section.data(endian, file)
    {
        code.functions = unwound(section.sh_addr(endian), frames);
    }
    symbols(header, endian, file, &mut code);
    code.functions.sort_unstable_by_key(|range| (range.start, range.end));
    code.functions.dedup();
    code.labels.extend(code.functions.iter().map(|range| range.start));
    code.labels.sort_unstable();
    code.labels.dedup();
    Ok(code)
}

/// Address of the unwind table that `.eh_frame_hdr` at `address` points to.
fn frames_at(address: u64, table: &[u8]) -> Option<u64> {
    let bases = gimli::BaseAddresses::default().set_eh_frame_hdr(address);
    let header = gimli::EhFrameHdr::new(table, gimli::LittleEndian).parse(&bases, 8).ok()?;
    match header.eh_frame_ptr() {
        gimli::Pointer::Direct(at) => Some(at),
        gimli::Pointer::Indirect(_) => None,
    }
}

/// Address ranges of the functions in an unwind table.
fn unwound(address: u64, table: &[u8]) -> Vec<Range<u64>> {
    let frames = gimli::EhFrame::new(table, gimli::LittleEndian);
    let bases = gimli::BaseAddresses::default().set_eh_frame(address);
    let mut entries = frames.entries(&bases);
    let mut functions = Vec::new();
    // The loop ends at the zero behind the last entry, or at bytes that do not belong to this table.
    while let Ok(Some(entry)) = entries.next() {
        if let gimli::CieOrFde::Fde(partial) = entry
            && let Ok(entry) = partial.parse(gimli::EhFrame::cie_from_offset)
            && let Some(end) = entry.initial_address().checked_add(entry.len())
        {
            // Unwinders look up the byte before a return address, so the entry of the return trampoline of signal
            // handlers begins a byte before the code.
            let start = entry.initial_address() + u64::from(entry.is_signal_trampoline());
            functions.extend((start < end).then_some(start..end));
        }
    }
    functions
}

/// Adds the functions and labels of both symbol tables.
fn symbols(header: &Header, endian: Endianness, file: &[u8], code: &mut Code) {
    let Ok(sections) = header.sections(endian, file) else { return };
    let segments = &code.segments;
    let is_of_code = |start| segments.iter().any(|segment| segment.holds(start));
    for kind in [elf::SHT_SYMTAB, elf::SHT_DYNSYM] {
        let Ok(table) = sections.symbols(endian, file, kind) else { continue };
        for symbol in table.iter() {
            let (start, size) = (symbol.st_value(endian), symbol.st_size(endian));
            if symbol.st_shndx(endian) == elf::SHN_UNDEF || !is_of_code(start) {
                continue;
            }
            code.labels.push(start);
            if matches!(symbol.st_type(), elf::STT_FUNC | elf::STT_GNU_IFUNC)
                && size > 0
                && let Some(end) = start.checked_add(size)
            {
                code.functions.push(start..end);
            }
        }
    }
}
