//! Parses bytes into an [`Image`], with the ELF structures of the `object` crate.

use object::Endianness;
use object::elf::{self, FileHeader32, FileHeader64};
use object::read::ReadRef;
use object::read::elf::{
    Dyn as _, FileHeader, NoteIterator, ProgramHeader as _, SectionHeader, Sym as _,
};

use super::ImageError;
use super::image::{
    Binding, Class, Image, Machine, Note, Section, Segment, Symbol, SymbolKind, Version,
};

/// Maximum number of versions; a longer table may be endless.
const VERSIONS_MAX: usize = 1 << 10;

impl Image {
    /// Reads an image from its bytes.
    ///
    /// More bytes may follow the image, such as the rest of the last page of a mapping.
    ///
    /// # Errors
    ///
    /// If the bytes are no ELF file, or if a part that programs need at run time (segments, dynamic table, symbols,
    /// strings, versions) lies outside of them. Broken section headers and notes are no error, because no program reads
    /// them at run time.
    pub fn parse(bytes: &[u8]) -> Result<Self, ImageError> {
        if bytes.is_empty() {
            return Err(ImageError::Empty);
        }
        if !bytes.starts_with(&elf::ELFMAG) {
            return Err(ImageError::NotElf);
        }
        let class = *bytes.get(4).ok_or(ImageError::HeaderCut)?;
        match elf::FileClass(class) {
            elf::ELFCLASS32 => Parser::<FileHeader32<Endianness>>::new(bytes)?.image(Class::Elf32),
            elf::ELFCLASS64 => Parser::<FileHeader64<Endianness>>::new(bytes)?.image(Class::Elf64),
            _ => Err(ImageError::HeaderInvalid),
        }
    }
}

/// The state shared by all steps of parsing.
struct Parser<'a, Elf: FileHeader<Endian = Endianness>> {
    bytes: &'a [u8],
    endian: Endianness,
    header: &'a Elf,
    /// Added to a linked address to get an offset.
    to_offset: u64,
    strings: &'a [u8],
}

impl<'a, Elf: FileHeader<Endian = Endianness>> Parser<'a, Elf> {
    fn new(bytes: &'a [u8]) -> Result<Self, ImageError> {
        let header = bytes.read_at::<Elf>(0).map_err(|()| ImageError::HeaderCut)?;
        if !header.is_supported() {
            return Err(ImageError::HeaderInvalid);
        }
        let endian = header.endian().map_err(|_| ImageError::HeaderInvalid)?;
        Ok(Self { bytes, endian, header, to_offset: 0, strings: &[] })
    }

    fn image(mut self, class: Class) -> Result<Image, ImageError> {
        let segments = self.segments()?;
        let load = segments.iter().find(|segment| segment.kind == elf::PT_LOAD);
        let load = load.ok_or(ImageError::NoLoad)?;
        self.to_offset = load.offset.wrapping_sub(load.vaddr);
        let dynamic = self.dynamic(&segments)?;
        self.strings = self.strings(&dynamic)?;
        let versions = self.versions(&dynamic)?;
        let symbols = self.symbols(&dynamic, &versions)?;
        let soname = dynamic_value(&dynamic, elf::DT_SONAME).and_then(|at| self.string(at));
        let sections = self.sections();
        let content_end = self.content_end(&segments, &sections);
        let notes = self.notes(&segments);
        Ok(Image {
            bytes: self.bytes.to_vec(),
            class,
            machine: Machine::from_raw(self.header.e_machine(self.endian)),
            segments,
            sections,
            dynamic,
            symbols,
            versions,
            notes,
            soname,
            content_end,
        })
    }

    fn segments(&self) -> Result<Vec<Segment>, ImageError> {
        let headers = self.header.program_headers(self.endian, self.bytes);
        let headers = headers.map_err(|_| ImageError::SegmentTableOutside)?;
        let len = self.bytes.len() as u64;
        let segment = |(at, raw): (usize, &Elf::ProgramHeader)| {
            let endian = self.endian;
            let segment = Segment {
                kind: raw.p_type(endian),
                offset: raw.p_offset(endian).into(),
                vaddr: raw.p_vaddr(endian).into(),
                file_size: raw.p_filesz(endian).into(),
                mem_size: raw.p_memsz(endian).into(),
                flags: raw.p_flags(endian).0,
            };
            match segment.offset.checked_add(segment.file_size) {
                Some(end) if end <= len || segment.file_size == 0 => Ok(segment),
                _ => Err(ImageError::SegmentOutside(at)),
            }
        };
        headers.iter().enumerate().map(segment).collect()
    }

    /// The dynamic table, which ends at `DT_NULL`.
    fn dynamic(&self, segments: &[Segment]) -> Result<Vec<(i64, u64)>, ImageError> {
        let segment = segments.iter().rfind(|segment| segment.kind == elf::PT_DYNAMIC);
        let segment = segment.ok_or(ImageError::NoDynamic)?;
        let mut entries = Vec::new();
        let mut at = segment.offset;
        let end = segment.offset.saturating_add(segment.mem_size.max(segment.file_size));
        while at < end {
            let entry = self.bytes.read::<Elf::Dyn>(&mut at);
            let entry = entry.map_err(|()| ImageError::DynamicEndless)?;
            let tag = entry.d_tag(self.endian);
            if tag == elf::DT_NULL {
                return Ok(entries);
            }
            entries.push((tag.0, entry.d_val(self.endian).into()));
        }
        Err(ImageError::DynamicEndless)
    }

    /// The string table; without `DT_STRSZ` it extends to the end of the file.
    fn strings(&self, dynamic: &[(i64, u64)]) -> Result<&'a [u8], ImageError> {
        let vaddr = dynamic_value(dynamic, elf::DT_STRTAB).ok_or(ImageError::NoStrings)?;
        let start = self.offset(vaddr);
        let strings = match dynamic_value(dynamic, elf::DT_STRSZ) {
            None => self.from(start),
            Some(size) => self.slice(start, size),
        };
        strings.ok_or(ImageError::NoStrings)
    }

    fn versions(&self, dynamic: &[(i64, u64)]) -> Result<Vec<Version>, ImageError> {
        let mut versions = Vec::new();
        let Some(vaddr) = dynamic_value(dynamic, elf::DT_VERDEF) else { return Ok(versions) };
        let mut at = self.offset(vaddr);
        while versions.len() < VERSIONS_MAX {
            let (version, next) = self.version(at).ok_or(ImageError::VersionInvalid)?;
            versions.push(version);
            if next == 0 {
                return Ok(versions);
            }
            at = at.checked_add(u64::from(next)).ok_or(ImageError::VersionInvalid)?;
        }
        Err(ImageError::VersionInvalid)
    }

    /// The version definition at this offset and the distance to the next one.
    fn version(&self, at: u64) -> Option<(Version, u32)> {
        let definition = self.bytes.read_at::<elf::Verdef<Endianness>>(at).ok()?;
        let endian = self.endian;
        let names = at.checked_add(u64::from(definition.vd_aux.get(endian)))?;
        let first = self.bytes.read_at::<elf::Verdaux<Endianness>>(names).ok()?;
        let version = Version {
            index: definition.vd_ndx.get(endian).0 & elf::VERSYM_VERSION,
            name: self.string(u64::from(first.vda_name.get(endian)))?,
            hash: definition.vd_hash.get(endian),
            base: definition.vd_flags.get(endian).0 & elf::VER_FLG_BASE.0 != 0,
        };
        Some((version, definition.vd_next.get(endian)))
    }

    fn symbols(
        &self,
        dynamic: &[(i64, u64)],
        versions: &[Version],
    ) -> Result<Vec<Symbol>, ImageError> {
        let vaddr = dynamic_value(dynamic, elf::DT_SYMTAB).ok_or(ImageError::NoSymbolTable)?;
        let start = self.offset(vaddr);
        let count = self.symbol_count(dynamic, start)?;
        let table = self.bytes.read_slice_at::<Elf::Sym>(start, count);
        let table = table.map_err(|()| ImageError::SymbolsOutside)?;
        let indices = match dynamic_value(dynamic, elf::DT_VERSYM) {
            Some(vaddr) if !versions.is_empty() => {
                let at = self.offset(vaddr);
                let indices = self.bytes.read_slice_at::<object::U16<Endianness>>(at, count);
                indices.map_err(|()| ImageError::VersionIndexOutside)?
            }
            _ => &[],
        };
        let symbol = |(index, raw): (usize, &Elf::Sym)| {
            let mut symbol = self.symbol(index, raw)?;
            let version = indices.get(index).map(|raw| raw.get(self.endian));
            symbol.version = version.and_then(|version| version_name(versions, version));
            Ok(symbol)
        };
        table.iter().enumerate().skip(1).map(symbol).collect()
    }

    fn symbol(&self, index: usize, raw: &Elf::Sym) -> Result<Symbol, ImageError> {
        let endian = self.endian;
        let name = self.string(u64::from(raw.st_name(endian)));
        let section = raw.st_shndx(endian);
        let absolute = section == elf::SHN_ABS;
        let defined = section != elf::SHN_UNDEF;
        let value: u64 = raw.st_value(endian).into();
        let offset = if absolute || !defined { value } else { self.offset(value) };
        if defined && !absolute && offset > self.bytes.len() as u64 {
            return Err(ImageError::SymbolOutside(index));
        }
        Ok(Symbol {
            index,
            name: name.ok_or(ImageError::SymbolName(index))?,
            offset,
            size: raw.st_size(endian).into(),
            kind: SymbolKind::from_raw(raw.st_type()),
            binding: Binding::from_raw(raw.st_bind()),
            version: None,
            defined,
            absolute,
        })
    }

    /// Number of entries of the symbol table at this offset.
    ///
    /// No dynamic tag gives it. The section header does; without that, `DT_HASH` has the number, and `DT_GNU_HASH` the
    /// last symbol.
    fn symbol_count(&self, dynamic: &[(i64, u64)], start: u64) -> Result<usize, ImageError> {
        let size = size_of::<Elf::Sym>() as u64;
        let section = self.raw_sections().iter().find(|section| {
            section.sh_type(self.endian) == elf::SHT_DYNSYM
                && section.sh_offset(self.endian).into() == start
        });
        let count = section
            .map(|section| section.sh_size(self.endian).into() / size)
            .or_else(|| self.hash_count(dynamic).map(u64::from))
            .or_else(|| self.gnu_hash_count(dynamic).map(u64::from))
            .ok_or(ImageError::SymbolCountUnknown)?;
        let room = (self.bytes.len() as u64).saturating_sub(start) / size;
        if count > room {
            return Err(ImageError::SymbolsOutside);
        }
        usize::try_from(count).map_err(|_| ImageError::SymbolsOutside)
    }

    fn hash_count(&self, dynamic: &[(i64, u64)]) -> Option<u32> {
        let at = self.offset(dynamic_value(dynamic, elf::DT_HASH)?);
        let count = self.bytes.read_at::<object::U32<Endianness>>(at.checked_add(4)?).ok()?;
        Some(count.get(self.endian))
    }

    /// One more than the last symbol in the chains of the GNU hash table.
    fn gnu_hash_count(&self, dynamic: &[(i64, u64)]) -> Option<u32> {
        let at = self.offset(dynamic_value(dynamic, elf::DT_GNU_HASH)?);
        let table = self.from(at)?;
        let table = object::read::elf::GnuHashTable::<Elf>::parse(self.endian, table).ok()?;
        table.symbol_table_length(self.endian)
    }

    fn raw_sections(&self) -> &'a [Elf::SectionHeader] {
        self.header.section_headers(self.endian, self.bytes).unwrap_or(&[])
    }

    fn sections(&self) -> Vec<Section> {
        let raw = self.raw_sections();
        let names = self.header.section_strings(self.endian, self.bytes, raw).unwrap_or_default();
        let section = |section: &Elf::SectionHeader| {
            let name = section.name(self.endian, names).unwrap_or_default();
            let space = section.file_range(self.endian).map_or(0, |(_, size)| size);
            Section {
                name: String::from_utf8_lossy(name).into_owned(),
                offset: section.sh_offset(self.endian).into(),
                size: space,
                vaddr: section.sh_addr(self.endian).into(),
            }
        };
        raw.iter().map(section).collect()
    }

    fn notes(&self, segments: &[Segment]) -> Vec<Note> {
        let mut found = Vec::new();
        for segment in segments.iter().filter(|segment| segment.kind == elf::PT_NOTE) {
            let Some(data) = self.slice(segment.offset, segment.file_size) else { continue };
            // The kernel aligns notes to 4 bytes, even if the segment states another alignment.
            let Ok(mut notes) = NoteIterator::<Elf>::new(self.endian, Elf::Word::default(), data)
            else {
                continue;
            };
            while let Ok(Some(note)) = notes.next() {
                found.extend(self.note(note.name(), note.n_type(self.endian).0, note.desc()));
            }
        }
        found
    }

    fn note(&self, owner: &[u8], kind: u32, data: &[u8]) -> Option<Note> {
        match (owner, kind) {
            (b"GNU", 3) => {
                Some(Note::BuildId(data.iter().map(|byte| format!("{byte:02x}")).collect()))
            }
            (b"Linux", 0) => {
                let code = data.read_at::<object::U32<Endianness>>(0).ok()?.get(self.endian);
                Some(Note::LinuxVersion(code >> 16, code >> 8 & 0xff, code & 0xff))
            }
            _ => None,
        }
    }

    fn content_end(&self, segments: &[Segment], sections: &[Section]) -> u64 {
        let (header, endian) = (self.header, self.endian);
        let table = |start: Elf::Word, count: u16, size: u16| {
            (start.into(), u64::from(count) * u64::from(size))
        };
        let segments = segments.iter().map(|segment| (segment.offset, segment.file_size));
        let sections = sections.iter().map(|section| (section.offset, section.size));
        let tables = [
            (0, size_of::<Elf>() as u64),
            table(header.e_phoff(endian), header.e_phnum(endian), header.e_phentsize(endian)),
            table(header.e_shoff(endian), header.e_shnum(endian), header.e_shentsize(endian)),
        ];
        let end = segments
            .chain(sections)
            .chain(tables)
            .filter(|range| range.1 != 0)
            .map(|(start, size)| start.saturating_add(size))
            .max();
        end.unwrap_or(0).min(self.bytes.len() as u64)
    }

    fn offset(&self, vaddr: u64) -> u64 {
        vaddr.wrapping_add(self.to_offset)
    }

    fn from(&self, offset: u64) -> Option<&'a [u8]> {
        self.bytes.get(usize::try_from(offset).ok()?..)
    }

    fn slice(&self, offset: u64, size: u64) -> Option<&'a [u8]> {
        self.from(offset)?.get(..usize::try_from(size).ok()?)
    }

    /// The string at this offset of the string table.
    fn string(&self, at: u64) -> Option<String> {
        let rest = self.strings.get(usize::try_from(at).ok()?..)?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        Some(String::from_utf8_lossy(&rest[..end]).into_owned())
    }
}

/// The value of the last entry with this tag in a dynamic table; the last one is valid.
fn dynamic_value(dynamic: &[(i64, u64)], tag: elf::DynamicTag) -> Option<u64> {
    dynamic.iter().rev().find(|entry| entry.0 == tag.0).map(|entry| entry.1)
}

/// The version name for a symbol's entry in `DT_VERSYM`.
fn version_name(versions: &[Version], index: u16) -> Option<String> {
    let index = index & elf::VERSYM_VERSION;
    let version = versions.iter().find(|version| !version.base && version.index == index)?;
    Some(version.name.clone())
}
