//! Reads executable segments and functions from an ELF file.

use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

use gimli::UnwindSection as _;
use object::read::elf::{FileHeader as _, ProgramHeader as _, SectionHeader as _, Sym as _};
use object::{Endianness, ReadCache, elf};

use crate::site::Segment;

/// Why a file was not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unreadable {
    /// Not an ELF file for x86-64, or damaged.
    #[error("it is no ELF file for x86-64, or damaged")]
    NotElf,
}

/// Bytes of a page.
pub(crate) const PAGE: u64 = 4096;
/// Longest code behind the named end of a function, in bytes.
const REST: u64 = 64;

/// A function that a symbol or an unwind table names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Function {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// The code may go on up to here: unwind tables end before the `syscall` of glibc's `clone3`, whose child has no
    /// caller.
    pub(crate) limit: u64,
}

/// The code of a file.
#[derive(Debug, Default)]
pub(crate) struct Code {
    pub(crate) segments: Vec<Segment>,
    /// Functions, from unwind tables and symbols, in ascending order and without duplicates.
    pub(crate) functions: Vec<Function>,
    /// Addresses of all symbols in code, of any type, in ascending order.
    pub(crate) labels: Vec<u64>,
    /// Address ranges of the sections with code; `None` if the file has no section headers.
    sections: Option<Vec<Range<u64>>>,
    /// The table of addresses that code loads one by one, `.got`; empty without section headers.
    pub(crate) addresses: Range<u64>,
    /// The table of relocations, `.rela.dyn`; empty without section headers.
    pub(crate) relocations: Range<u64>,
    /// Whether the file is loaded at the addresses that it names itself: instructions may hold addresses.
    pub(crate) is_fixed: bool,
    /// Begins of functions with landing pads.
    pub(crate) landing: HashSet<u64>,
    /// Addresses of the functions that other files may call; `None` if the file has no section headers.
    pub(crate) exported: Option<HashSet<u64>>,
    /// Whether the file has restartable sequences, or no section headers to tell.
    pub(crate) may_restart: bool,
    /// Whether whole pages of data are only to be read once the file is relocated (`PT_GNU_RELRO`).
    pub(crate) has_relro: bool,
    /// Whether the file is a dynamic loader, and whether other files call `mprotect` in it.
    pub(crate) loads: bool,
    pub(crate) gives_mprotect: bool,
    /// All loaded segments, executable or not.
    loaded: Vec<Segment>,
}

impl Code {
    /// Whether the file says that these bytes are code.
    pub(crate) fn is_code(&self, range: &Range<u64>) -> bool {
        let holds = |of: &Range<u64>| of.start <= range.start && range.end <= of.end;
        self.sections.as_ref().is_none_or(|sections| sections.iter().any(holds))
    }

    /// Adds functions with these begins, none longer than `longest`.
    pub(crate) fn add_functions(&mut self, starts: &BTreeSet<u64>, longest: u64) {
        let mut begins: Vec<u64> = self.functions.iter().map(|function| function.start).collect();
        begins.extend(starts);
        begins.sort_unstable();
        self.functions.extend(starts.iter().map(|start| {
            let end = start.saturating_add(longest);
            Function { start: *start, end: start + 1, limit: end }
        }));
        for function in &mut self.functions {
            let next = begins.get(begins.partition_point(|begin| *begin < function.end));
            function.limit = next.map_or(function.limit, |next| function.limit.min(*next));
            if starts.contains(&function.start) {
                function.end = function.limit;
            }
        }
        self.functions.sort_unstable();
        self.labels.extend(starts);
        self.labels.sort_unstable();
    }

    /// Which of these addresses, in ascending order, eight bytes of the file may point to: relocations, and tables of
    /// addresses.
    pub(crate) fn named(&self, file: &[u8], addresses: &[u64]) -> HashSet<u64> {
        let (Some(first), Some(last)) = (addresses.first(), addresses.last()) else {
            return HashSet::new();
        };
        let words = self.words(file).map(|(_, word)| word);
        words
            .filter(|word| (first..=last).contains(&word) && addresses.binary_search(word).is_ok())
            .collect()
    }

    /// All aligned words of eight bytes in the loaded segments, with their addresses.
    pub(crate) fn words<'a>(&'a self, file: &'a [u8]) -> impl Iterator<Item = (u64, u64)> + 'a {
        self.loaded.iter().flat_map(|segment| {
            let bytes = segment.bytes(file, &segment.range()).unwrap_or_default();
            let skipped = segment.address.wrapping_neg() % 8;
            let from = usize::try_from(skipped).unwrap_or(0);
            let words = bytes.get(from..).unwrap_or_default().as_chunks::<8>().0;
            let words = words.iter().map(|word| u64::from_le_bytes(*word));
            let address = segment.address.wrapping_add(skipped);
            words.enumerate().map(move |(at, word)| (address.wrapping_add(8 * at as u64), word))
        })
    }

    /// The address whose relocation has its addend at `at`: `Elf64_Rela`, elf(5).
    pub(crate) fn relocated(&self, file: &[u8], at: u64) -> Option<u64> {
        let entry = at.checked_sub(16).filter(|entry| self.relocations.contains(entry))?;
        Some(u64::from_le_bytes(*self.bytes_from(file, entry)?.first_chunk()?))
    }

    /// Offset and size in the file of an address range within one segment, as far as the file has it.
    pub(crate) fn place(&self, range: &Range<u64>) -> Option<(u64, u64)> {
        let mut segments = self.segments.iter();
        let segment = segments.find(|segment| segment.range().contains(&range.start))?;
        let offset = segment.offset.checked_add(range.start - segment.address)?;
        Some((offset, range.end.min(segment.range().end) - range.start))
    }

    /// The file's bytes that are mapped at an address, up to the end of the segment.
    fn bytes_from<'a>(&self, file: &'a [u8], address: u64) -> Option<&'a [u8]> {
        let segment = self.loaded.iter().find(|segment| segment.range().contains(&address))?;
        segment.bytes(file, &(address..u64::MAX))
    }
}

type Header = elf::FileHeader64<Endianness>;

/// Reads a file for [`crate::find`]: headers, loaded segments, unwind tables and symbols at their offsets, and zeros
/// elsewhere. What debuggers read takes no memory.
///
/// # Errors
///
/// Those of reading, and `InvalidData` for a file that is no ELF file of 64 bits, or not whole.
pub fn read_parts(file: &File, length: u64) -> std::io::Result<Vec<u8>> {
    let ranges = parts(&ReadCache::new(file), true).map_err(|_| damaged())?;
    let mut bytes = vec![0; usize::try_from(length).map_err(|_| damaged())?];
    read_into(&mut bytes, file, ranges)?;
    Ok(bytes)
}

pub(crate) fn damaged() -> std::io::Error {
    std::io::ErrorKind::InvalidData.into()
}

/// Reads parts of a file, given by offset and size, to where they stand in it.
pub(crate) fn read_into(
    bytes: &mut [u8],
    file: &File,
    ranges: Vec<(u64, u64)>,
) -> std::io::Result<()> {
    for (offset, size) in ranges {
        let range = usize::try_from(offset).ok().zip(usize::try_from(size).ok());
        let part = range.and_then(|(at, size)| bytes.get_mut(at..at.checked_add(size)?));
        file.read_exact_at(part.ok_or_else(damaged)?, offset)?;
    }
    Ok(())
}

/// Offsets and sizes of the parts of a file that are looked at; the loaded segments only if `segments`.
pub(crate) fn parts(
    file: &ReadCache<&File>,
    segments: bool,
) -> object::read::Result<Vec<(u64, u64)>> {
    let header = Header::parse(file)?;
    let endian = header.endian()?;
    let programs = header.program_headers(endian, file)?;
    let headers = header.section_headers(endian, file).unwrap_or_default();
    let sections = header.sections(endian, file).unwrap_or_default();
    let looked_at = |section: &&elf::SectionHeader64<Endianness>| {
        let kind = section.sh_type(endian);
        matches!(kind, elf::SHT_SYMTAB | elf::SHT_DYNSYM)
            || sections.section_name(endian, section) == Ok(b".eh_frame")
    };
    let names = header.shstrndx(endian, file).ok().and_then(|names| headers.get(names as usize));
    let sections = sections.iter().filter(looked_at).chain(names);
    let sections = sections.filter_map(|section| section.file_range(endian));
    let headers = [
        (0, size_of::<Header>() as u64),
        (header.e_phoff(endian), size_of_val(programs) as u64),
        (header.e_shoff(endian), size_of_val(headers) as u64),
    ];
    let is_wanted = |kind| kind == elf::PT_GNU_EH_FRAME || segments && kind == elf::PT_LOAD;
    let loaded = programs.iter().filter(|program| is_wanted(program.p_type(endian)));
    let loaded = loaded.map(|program| program.file_range(endian));
    Ok(headers.into_iter().chain(loaded).chain(sections).collect())
}

/// Reads the program headers, unwind table and symbols of a file.
pub(crate) fn read(file: &[u8]) -> Result<Code, Unreadable> {
    let header = Header::parse(file).map_err(|_| Unreadable::NotElf)?;
    let endian = header.endian().map_err(|_| Unreadable::NotElf)?;
    if header.e_machine(endian) != elf::EM_X86_64 {
        return Err(Unreadable::NotElf);
    }
    let programs = header.program_headers(endian, file).map_err(|_| Unreadable::NotElf)?;
    let mut code = Code { is_fixed: header.e_type(endian) == elf::ET_EXEC, ..Code::default() };
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
        let end = address.saturating_add(program.p_memsz(endian));
        code.has_relro |=
            program.p_type(endian) == elf::PT_GNU_RELRO && address / PAGE < end / PAGE;
        if program.p_type(endian) == elf::PT_GNU_EH_FRAME {
            unwinding = program.data(endian, file).ok().map(|data| (address, data));
        }
    }
    let sections = header.sections(endian, file).ok().filter(|sections| !sections.is_empty());
    let of_frames = sections.and_then(|sections| {
        let (_, section) = sections.section_by_name(endian, b".eh_frame")?;
        Some((section.sh_addr(endian), section.data(endian, file).ok()?))
    });
    let frames = match unwinding {
        Some((address, table)) => {
            frames_at(address, table).and_then(|at| Some((at, code.bytes_from(file, at)?)))
        }
        None => of_frames,
    };
    if let Some((address, table)) = frames {
        unwound(address, table, &mut code);
    }
    let is_run = |section: &&elf::SectionHeader64<Endianness>| {
        section.sh_flags(endian).0 & elf::SHF_EXECINSTR.0 != 0
    };
    let table = |name: &[u8]| {
        let found = sections.and_then(|sections| sections.section_by_name(endian, name));
        found.map_or(0..0, |(_, section)| range(section, endian))
    };
    (code.addresses, code.relocations) = (table(b".got"), table(b".rela.dyn"));
    code.sections = sections.map(|sections| {
        sections.iter().filter(is_run).map(|section| range(section, endian)).collect()
    });
    let restarts =
        sections.map(|sections| sections.section_by_name(endian, b"__rseq_cs").is_some());
    code.may_restart = restarts.unwrap_or(true);
    code.exported = sections.map(|_| HashSet::new());
    symbols(header, endian, file, &mut code);
    code.functions.sort_unstable();
    code.functions.dedup();
    let starts: Vec<u64> = code.functions.iter().map(|function| function.start).collect();
    for function in &mut code.functions {
        let next = starts.partition_point(|start| *start < function.end);
        let longest = function.end.saturating_add(REST);
        function.limit = starts.get(next).map_or(longest, |next| longest.min(*next));
    }
    code.labels.extend(starts);
    code.labels.sort_unstable();
    code.labels.dedup();
    Ok(code)
}

/// Addresses of a section.
fn range(section: &elf::SectionHeader64<Endianness>, endian: Endianness) -> Range<u64> {
    let address = section.sh_addr(endian);
    address..address.saturating_add(section.sh_size(endian))
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

/// Adds the functions in an unwind table.
fn unwound(address: u64, table: &[u8], code: &mut Code) {
    let frames = gimli::EhFrame::new(table, gimli::LittleEndian);
    let bases = gimli::BaseAddresses::default().set_eh_frame(address);
    let mut entries = frames.entries(&bases);
    // The loop ends at the zero behind the last entry, or at bytes that do not belong to this table.
    while let Ok(Some(entry)) = entries.next() {
        if let gimli::CieOrFde::Fde(partial) = entry
            && let Ok(entry) = partial.parse(gimli::EhFrame::cie_from_offset)
            && let Some(end) = entry.initial_address().checked_add(entry.len())
        {
            // Unwinders look up the byte before a return address, so the entry of the return trampoline of signal
            // handlers begins a byte before the code.
            let start = entry.initial_address() + u64::from(entry.is_signal_trampoline());
            code.functions.extend((start < end).then_some(Function { start, end, limit: end }));
            if entry.lsda().is_some() {
                code.landing.insert(start);
            }
        }
    }
}

/// Adds the functions and labels of both symbol tables.
fn symbols(header: &Header, endian: Endianness, file: &[u8], code: &mut Code) {
    let Ok(sections) = header.sections(endian, file) else { return };
    let segments = &code.segments;
    let is_of_code = |start| segments.iter().any(|segment| segment.range().contains(&start));
    for kind in [elf::SHT_SYMTAB, elf::SHT_DYNSYM] {
        let Ok(table) = sections.symbols(endian, file, kind) else { continue };
        for symbol in table.iter() {
            let (start, size) = (symbol.st_value(endian), symbol.st_size(endian));
            if symbol.st_shndx(endian) == elf::SHN_UNDEF {
                continue;
            }
            if kind == elf::SHT_DYNSYM {
                let name = table.symbol_name(endian, symbol).unwrap_or_default();
                code.loads |= name == b"_r_debug";
                code.gives_mprotect |= name == b"mprotect";
            }
            if !is_of_code(start) {
                continue;
            }
            code.labels.push(start);
            if kind == elf::SHT_DYNSYM
                && let Some(exported) = &mut code.exported
            {
                exported.insert(start);
            }
            if matches!(symbol.st_type(), elf::STT_FUNC | elf::STT_GNU_IFUNC)
                && size > 0
                && let Some(end) = start.checked_add(size)
            {
                code.functions.push(Function { start, end, limit: end });
            }
        }
    }
}
