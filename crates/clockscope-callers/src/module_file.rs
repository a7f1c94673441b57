//! Opens the file behind a mapping, and reads the parts of an ELF file that unwinding needs.
//!
//! Files are read by offset and in limited pieces. If a traced program changes its files meanwhile,
//! the worst result is that its code stays unknown.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use object::LittleEndian as LE;
use object::elf::{
    ELFCLASS64, ELFDATA2LSB, ELFMAG, FileHeader64, PF_X, PT_GNU_EH_FRAME, PT_LOAD, ProgramHeader64,
    SHF_COMPRESSED, SHT_NOBITS, SectionHeader64,
};
use object::pod;

use super::arch::registers::MACHINE;
use super::sample::Mapping;

/// Largest section that is read; the largest seen, of a browser, has 40 MB.
const SECTION_MAX: u64 = 256 << 20;
/// Most program or section headers.
const HEADERS_MAX: usize = 4096;
/// Most bytes of section names.
const NAMES_MAX: u64 = 1 << 20;

/// Source of a module's bytes.
#[derive(Clone, Debug)]
pub(super) enum Bytes {
    /// An open file; it stays readable if the path does not.
    File(Rc<File>),
    /// In memory.
    Memory(Rc<[u8]>),
}

impl Bytes {
    /// Exactly `length` bytes from `offset`, or `None` if the file has fewer or `length` is too
    /// large.
    pub(super) fn read(&self, offset: u64, length: u64) -> Option<Vec<u8>> {
        let end = offset.checked_add(length).filter(|_| length <= SECTION_MAX)?;
        match self {
            Self::Memory(bytes) => {
                let range = usize::try_from(offset).ok()?..usize::try_from(end).ok()?;
                bytes.get(range).map(<[u8]>::to_vec)
            }
            Self::File(file) => {
                // A file may be smaller than its headers state: nothing is allocated for missing
                // bytes.
                file.metadata().ok().filter(|data| end <= data.len())?;
                let mut bytes = vec![0; usize::try_from(length).ok()?];
                file.read_exact_at(&mut bytes, offset).ok()?;
                Some(bytes)
            }
        }
    }
}

/// Opens the file of a mapping, in any mount namespace, deleted or not.
///
/// The device is not compared: layered file systems report another one in `maps` than by `stat`.
pub(super) fn open(pid: i32, mapping: &Mapping) -> Option<File> {
    let is_it = |file: &File| {
        file.metadata().is_ok_and(|data| data.is_file() && data.ino() == mapping.inode.1)
    };
    let path = without_deleted(&mapping.name);
    let root = PathBuf::from(format!("/proc/{pid}/root"));
    let inside = path.strip_prefix("/").ok().map(|path| root.join(path));
    let candidates = [
        Some(PathBuf::from(format!("/proc/{pid}/map_files/{:x}-{:x}", mapping.start, mapping.end))),
        inside,
        Some(PathBuf::from(format!("/proc/{pid}/exe"))),
        path.is_absolute().then_some(path),
    ];
    candidates.into_iter().flatten().filter_map(|path| open_unhurt(&path).ok()).find(is_it)
}

/// Opens without waiting for a FIFO's other end or acquiring a controlling terminal.
fn open_unhurt(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)
}

/// The path without the kernel's suffix for deleted files.
pub(super) fn without_deleted(path: &Path) -> PathBuf {
    path.to_str().and_then(|path| path.strip_suffix(" (deleted)")).map_or(path.into(), Into::into)
}

/// A section: its address in the file, and its bytes.
#[derive(Clone, Debug)]
pub(super) struct Section {
    pub(super) address: u64,
    pub(super) bytes: Vec<u8>,
}

/// Headers of an ELF file for this processor.
#[derive(Clone, Debug)]
pub(super) struct Elf {
    bytes: Bytes,
    /// Address of the entry point.
    pub(super) entry: u64,
    segments: Vec<ProgramHeader64<LE>>,
    sections: Vec<(Vec<u8>, SectionHeader64<LE>)>,
}

impl Elf {
    /// Reads the headers; `None` if the file is no ELF file for this processor.
    pub(super) fn read(bytes: Bytes) -> Option<Elf> {
        let start = bytes.read(0, size_of::<FileHeader64<LE>>() as u64)?;
        let (header, _) = pod::from_bytes::<FileHeader64<LE>>(&start).ok()?;
        let ident = header.e_ident;
        let right = ident.magic == ELFMAG
            && ident.class == ELFCLASS64
            && ident.data == ELFDATA2LSB
            && header.e_machine.get(LE) == MACHINE;
        let segments =
            right.then(|| table(&bytes, header.e_phoff.get(LE), header.e_phnum.get(LE)))??;
        let sections =
            table::<SectionHeader64<LE>>(&bytes, header.e_shoff.get(LE), header.e_shnum.get(LE))
                .unwrap_or_default();
        let names = sections
            .get(usize::from(header.e_shstrndx.get(LE).0))
            .filter(|names| names.sh_size.get(LE) <= NAMES_MAX)
            .and_then(|names| bytes.read(names.sh_offset.get(LE), names.sh_size.get(LE)))
            .unwrap_or_default();
        let name = |section: &SectionHeader64<LE>| -> Vec<u8> {
            let rest = names.get(section.sh_name.get(LE) as usize..).unwrap_or_default();
            rest.iter().take(64).take_while(|byte| **byte != 0).copied().collect()
        };
        let sections = sections.into_iter().map(|section| (name(&section), section)).collect();
        Some(Elf { bytes, entry: header.e_entry.get(LE), segments, sections })
    }

    /// The address in the file for an offset in an executable mapping.
    pub(super) fn address_of(&self, offset: u64) -> Option<u64> {
        let loads = self.segments.iter().filter(|segment| segment.p_type.get(LE) == PT_LOAD);
        // Mappings are whole pages: the first page of code may begin before the segment.
        let page_start = |segment: &&ProgramHeader64<LE>| {
            let start = segment.p_offset.get(LE) & !0xfff;
            start <= offset && offset - start <= segment.p_filesz.get(LE).saturating_add(0xfff)
        };
        let segment = loads.filter(page_start).min_by_key(|segment| !is_code(segment))?;
        Some(offset.wrapping_sub(segment.p_offset.get(LE)).wrapping_add(segment.p_vaddr.get(LE)))
    }

    /// A section by name, unpacked if it is compressed.
    pub(super) fn section(&self, name: &str) -> Option<Section> {
        let (_, section) = self.sections.iter().find(|(own, section)| {
            own == name.as_bytes() && section.sh_type.get(LE) != SHT_NOBITS
        })?;
        let bytes = self.bytes.read(section.sh_offset.get(LE), section.sh_size.get(LE))?;
        let packed = section.sh_flags.get(LE).0 & SHF_COMPRESSED.0 != 0;
        let bytes = if packed { unpacked(&bytes)? } else { bytes };
        Some(Section { address: section.sh_addr.get(LE), bytes })
    }

    /// Bytes of the file at an address in the file.
    pub(super) fn at(&self, address: u64, length: u64) -> Option<Vec<u8>> {
        let segment = self.segment(address)?;
        let skip = address - segment.p_vaddr.get(LE);
        self.bytes.read(segment.p_offset.get(LE).checked_add(skip)?, length)
    }

    /// The bytes of code from an address on, at most `most`.
    pub(super) fn code(&self, address: u64, most: u64) -> Option<Vec<u8>> {
        let segment = self.segment(address).filter(|segment| is_code(segment))?;
        let left = segment.p_filesz.get(LE) - (address - segment.p_vaddr.get(LE));
        self.at(address, left.min(most))
    }

    /// The segment that holds an address.
    fn segment(&self, address: u64) -> Option<&ProgramHeader64<LE>> {
        self.segments.iter().find(|segment| {
            let start = segment.p_vaddr.get(LE);
            segment.p_type.get(LE) == PT_LOAD
                && start <= address
                && address - start < segment.p_filesz.get(LE)
        })
    }

    /// The build id, from the note that the linker writes (`--build-id` in ld(1)).
    pub(super) fn build_id(&self) -> Option<Vec<u8>> {
        const OWNER: &[u8] = b"GNU\0";
        const HEADER: usize = 12;
        let note = self.section(".note.gnu.build-id")?.bytes;
        let word = |at: usize| Some(u32::from_le_bytes(note.get(at..at + 4)?.try_into().ok()?));
        let length = usize::try_from(word(4)?).ok()?;
        let is_id = word(0)? == 4 && word(8)? == 3 && note.get(HEADER..HEADER + 4)? == OWNER;
        let id = note.get(HEADER + 4..)?.get(..length)?;
        (is_id && !id.is_empty()).then(|| id.to_vec())
    }

    /// Whether there is a section of this name.
    pub(super) fn has_section(&self, name: &str) -> bool {
        self.sections.iter().any(|(own, _)| own == name.as_bytes())
    }

    /// The address of a section in the file.
    pub(super) fn address_of_section(&self, name: &str) -> Option<u64> {
        let (_, section) = self.sections.iter().find(|(own, _)| own == name.as_bytes())?;
        Some(section.sh_addr.get(LE))
    }

    /// The frame table, from the program headers: they are present even if the section headers are
    /// not.
    pub(super) fn frame_table(&self) -> Option<Section> {
        let is_it = |segment: &&ProgramHeader64<LE>| segment.p_type.get(LE) == PT_GNU_EH_FRAME;
        let segment = self.segments.iter().find(is_it)?;
        let bytes = self.bytes.read(segment.p_offset.get(LE), segment.p_filesz.get(LE))?;
        Some(Section { address: segment.p_vaddr.get(LE), bytes })
    }

    /// The rest of a segment from this address on.
    pub(super) fn rest_from(&self, address: u64) -> Option<Section> {
        let segment = self.segment(address)?;
        let left = segment.p_filesz.get(LE) - (address - segment.p_vaddr.get(LE));
        Some(Section { address, bytes: self.at(address, left)? })
    }
}

/// A table of headers.
fn table<T: pod::Pod>(bytes: &Bytes, offset: u64, count: u16) -> Option<Vec<T>> {
    let count = usize::from(count);
    let size = (count <= HEADERS_MAX).then_some((count * size_of::<T>()) as u64)?;
    let bytes = bytes.read(offset, size)?;
    pod::slice_from_bytes::<T>(&bytes, count).ok().map(|(table, _)| table.to_vec())
}

/// A section that the linker has compressed with zlib.
fn unpacked(bytes: &[u8]) -> Option<Vec<u8>> {
    use std::io::Read as _;
    const HEADER: usize = 24;
    let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let (kind, size) = (word(0)? & 0xffff_ffff, word(8)?);
    if kind != u64::from(object::elf::ELFCOMPRESS_ZLIB.0) || size > SECTION_MAX {
        return None;
    }
    let mut out = Vec::new();
    flate2::read::ZlibDecoder::new(bytes.get(HEADER..)?).take(size).read_to_end(&mut out).ok()?;
    (out.len() as u64 == size).then_some(out)
}

fn is_code(segment: &ProgramHeader64<LE>) -> bool {
    segment.p_flags.get(LE).0 & PF_X.0 != 0
}
