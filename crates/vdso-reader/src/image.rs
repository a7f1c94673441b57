//! What an image consists of.

use std::fmt;

use object::elf;

use super::ImageError;

/// A vDSO image that has been read: its bytes and what they mean.
///
/// All offsets count bytes from the start of the image, which is both the start of the file and,
/// in a process, the address in `AT_SYSINFO_EHDR`.
#[derive(Clone, PartialEq, Eq)]
pub struct Image {
    pub(super) bytes: Vec<u8>,
    pub(super) header: Header,
    pub(super) segments: Vec<Segment>,
    pub(super) sections: Vec<Section>,
    pub(super) dynamic: Vec<(i64, u64)>,
    pub(super) symbols: Vec<Symbol>,
    pub(super) versions: Vec<Version>,
    pub(super) notes: Vec<Note>,
    pub(super) soname: Option<String>,
    pub(super) content_end: u64,
}

/// The fields of the ELF header that somebody asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) class: Class,
    pub(super) little_endian: bool,
    pub(super) machine: Machine,
    pub(super) os_abi: u8,
    pub(super) abi_version: u8,
    pub(super) header_size: u16,
    pub(super) file_type: u16,
    pub(super) program_header_offset: u64,
    /// Where the section headers are said to start, and how many bytes they take.
    pub(super) section_table: (u64, u64),
}

/// The width of addresses in an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// 32 bits.
    Elf32,
    /// 64 bits.
    Elf64,
}

/// The processor family that an image is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Machine {
    /// x86-64, also with 32-bit addresses (x32).
    X86_64,
    /// 32-bit x86.
    I386,
    /// 64-bit ARM.
    Aarch64,
    /// 32-bit ARM.
    Arm,
    /// RISC-V, 32 or 64 bits.
    Riscv,
    /// `PowerPC`, 64 bits.
    Ppc64,
    /// IBM Z.
    S390,
    /// `LoongArch`.
    LoongArch,
    /// Another one, by its number in the ELF header.
    Other(u16),
}

/// A program header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// What it is for.
    pub kind: SegmentKind,
    /// Where its bytes start in the file.
    pub offset: u64,
    /// The address it was linked for.
    pub vaddr: u64,
    /// Its size in the file, in bytes.
    pub file_size: u64,
    /// Its size in memory, in bytes.
    pub mem_size: u64,
    /// `PF_R` = 4, `PF_W` = 2, `PF_X` = 1.
    pub flags: u32,
}

/// The type of a program header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SegmentKind {
    /// `PT_LOAD`: bytes to be in memory.
    Load,
    /// `PT_DYNAMIC`: the dynamic table.
    Dynamic,
    /// `PT_INTERP`: the path of a program interpreter.
    Interp,
    /// `PT_NOTE`: notes.
    Note,
    /// `PT_PHDR`: the program headers themselves.
    Phdr,
    /// `PT_TLS`: thread-local storage.
    Tls,
    /// `PT_GNU_EH_FRAME`: the index of the unwind tables.
    GnuEhFrame,
    /// `PT_GNU_STACK`: whether the stack is executable.
    GnuStack,
    /// `PT_GNU_RELRO`: what becomes read-only after relocation.
    GnuRelro,
    /// `PT_GNU_PROPERTY`: properties such as branch protection.
    GnuProperty,
    /// Another one, by its number.
    Other(u32),
}

/// A section header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Its name; empty where the section names cannot be read.
    pub name: String,
    /// Where its bytes start in the file.
    pub offset: u64,
    /// Its size in bytes; 0 if it takes no space in the file.
    pub size: u64,
    /// The address it was linked for; 0 if it is not loaded.
    pub vaddr: u64,
}

/// An entry of the dynamic symbol table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its place in the symbol table.
    pub index: usize,
    /// Its name without the version.
    pub name: String,
    /// Where it lies, in bytes from the start of the image; for an absolute symbol, its value.
    pub offset: u64,
    /// Its size in bytes.
    pub size: u64,
    /// What it names.
    pub kind: SymbolKind,
    /// Who may use it.
    pub binding: Binding,
    /// The version it belongs to, for example `LINUX_2.6`.
    pub version: Option<String>,
    /// Whether the image defines it; otherwise it asks for it.
    pub defined: bool,
    /// Whether its value is a number and not a place in the image.
    pub absolute: bool,
}

/// What a symbol names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SymbolKind {
    /// `STT_FUNC`: a function.
    Func,
    /// `STT_OBJECT`: data.
    Object,
    /// `STT_NOTYPE`: not said; arm64's `__kernel_rt_sigreturn` is one.
    NoType,
    /// Another one, by its number.
    Other(u8),
}

/// Who may use a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Binding {
    /// `STB_LOCAL`: nobody outside.
    Local,
    /// `STB_GLOBAL`: everybody.
    Global,
    /// `STB_WEAK`: everybody who finds no global one.
    Weak,
    /// Another one, by its number.
    Other(u8),
}

/// A version that the image defines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Its number in the table of symbol versions.
    pub index: u16,
    /// Its name, for example `LINUX_2.6`.
    pub name: String,
    /// The hash of the name as the image states it.
    pub hash: u32,
    /// Whether it names the image itself and no version of symbols.
    pub base: bool,
}

/// What the image's notes say.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// `NT_GNU_BUILD_ID`, as lower-case hexadecimal digits.
    BuildId(String),
    /// The kernel's version code as major, minor and patch.
    LinuxVersion(u32, u32, u32),
    /// The kernel's build salt, usually the distribution's package version.
    BuildSalt(String),
    /// Another note: its owner, its type and its size in bytes.
    Other(String, u32, usize),
}

impl fmt::Debug for Image {
    /// The bytes are left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Image")
            .field("header", &self.header)
            .field("segments", &self.segments)
            .field("dynamic", &self.dynamic)
            .field("symbols", &self.symbols)
            .field("versions", &self.versions)
            .field("notes", &self.notes)
            .finish_non_exhaustive()
    }
}

impl Image {
    /// Reads an image from its bytes.
    ///
    /// The bytes may be followed by others, as they are in the last page of a mapping.
    ///
    /// # Errors
    ///
    /// If the bytes are no ELF file or if what a program needs at run time (segments, dynamic
    /// table, symbols, strings, versions) lies outside of them. Broken section headers and notes
    /// are no error: no program reads them at run time.
    pub fn parse(bytes: &[u8]) -> Result<Self, ImageError> {
        super::parse::parse(bytes)
    }

    /// The bytes that were read.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The width of its addresses.
    #[must_use]
    pub fn class(&self) -> Class {
        self.header.class
    }

    /// Whether its numbers have their lowest byte first.
    #[must_use]
    pub(crate) fn is_little_endian(&self) -> bool {
        self.header.little_endian
    }

    /// The processor family that it is for.
    #[must_use]
    pub fn machine(&self) -> Machine {
        self.header.machine
    }

    /// Its program headers, in their order.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Its section headers, in their order; empty if there are none within the bytes.
    #[must_use]
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// Its dynamic table as pairs of tag and value, in their order, without the final `DT_NULL`.
    #[must_use]
    pub fn dynamic(&self) -> &[(i64, u64)] {
        &self.dynamic
    }

    /// The value of the last entry of the dynamic table with this tag, which is the one that counts.
    #[must_use]
    pub(crate) fn dynamic_value(&self, tag: i64) -> Option<u64> {
        self.dynamic.iter().rev().find(|entry| entry.0 == tag).map(|entry| entry.1)
    }

    /// Its dynamic symbols in the order of the table, without the empty first one.
    #[must_use]
    pub fn symbols(&self) -> &[Symbol] {
        &self.symbols
    }

    /// The functions that programs can call: defined, not absolute, global or weak.
    ///
    /// Symbols without a type count, because arm64's `__kernel_rt_sigreturn` is one.
    pub fn functions(&self) -> impl Iterator<Item = &Symbol> {
        self.symbols.iter().filter(|symbol| symbol.is_function())
    }

    /// The function with this name, whatever its version.
    #[must_use]
    pub fn function(&self, name: &str) -> Option<&Symbol> {
        self.functions().find(|symbol| symbol.name == name)
    }

    /// The versions that it defines, in their order.
    #[must_use]
    pub fn versions(&self) -> &[Version] {
        &self.versions
    }

    /// What its notes say, in their order.
    #[must_use]
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// Its own name, `linux-vdso.so.1` for the kernel's images.
    #[must_use]
    pub fn soname(&self) -> Option<&str> {
        self.soname.as_deref()
    }

    /// The build id as lower-case hexadecimal digits, if a note has one.
    #[must_use]
    pub(crate) fn build_id(&self) -> Option<&str> {
        self.notes.iter().find_map(|note| match note {
            Note::BuildId(id) => Some(id.as_str()),
            _ => None,
        })
    }

    /// The first offset behind everything that means anything, in bytes.
    ///
    /// Headers, the file part of all segments, all sections and the section headers are before it;
    /// from here to the end of the last page the bytes are free.
    #[must_use]
    pub fn content_end(&self) -> u64 {
        self.content_end
    }

    /// The first segment that is loaded.
    #[must_use]
    pub(crate) fn first_load(&self) -> Option<&Segment> {
        self.segments.iter().find(|segment| segment.kind == SegmentKind::Load)
    }

    /// The offset of an address that the image was linked for.
    #[must_use]
    pub fn offset_of(&self, vaddr: u64) -> u64 {
        let (offset, base) = self.first_load().map_or((0, 0), |load| (load.offset, load.vaddr));
        vaddr.wrapping_add(offset).wrapping_sub(base)
    }
}

impl Symbol {
    /// Whether programs can call it: defined, not absolute, global or weak, function or untyped.
    #[must_use]
    pub fn is_function(&self) -> bool {
        self.defined
            && !self.absolute
            && matches!(self.kind, SymbolKind::Func | SymbolKind::NoType)
            && matches!(self.binding, Binding::Global | Binding::Weak)
    }
}

impl Segment {
    /// Whether all of these flags are set.
    #[must_use]
    pub(crate) fn has_flags(&self, flags: u32) -> bool {
        self.flags & flags == flags
    }
}

impl Machine {
    pub(super) fn from_raw(raw: u16) -> Self {
        match elf::Machine(raw) {
            elf::EM_X86_64 => Self::X86_64,
            elf::EM_386 => Self::I386,
            elf::EM_AARCH64 => Self::Aarch64,
            elf::EM_ARM => Self::Arm,
            elf::EM_RISCV => Self::Riscv,
            elf::EM_PPC64 => Self::Ppc64,
            elf::EM_S390 => Self::S390,
            elf::EM_LOONGARCH => Self::LoongArch,
            _ => Self::Other(raw),
        }
    }

    /// The machine that this program runs on.
    #[must_use]
    pub fn host() -> Option<Self> {
        match std::env::consts::ARCH {
            "x86_64" => Some(Self::X86_64),
            "aarch64" => Some(Self::Aarch64),
            _ => None,
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::X86_64 => "x86-64",
            Self::I386 => "i386",
            Self::Aarch64 => "aarch64",
            Self::Arm => "arm",
            Self::Riscv => "riscv",
            Self::Ppc64 => "ppc64",
            Self::S390 => "s390",
            Self::LoongArch => "loongarch",
            Self::Other(raw) => return write!(f, "machine {raw}"),
        };
        f.write_str(name)
    }
}

impl fmt::Display for SegmentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Load => "LOAD",
            Self::Dynamic => "DYNAMIC",
            Self::Interp => "INTERP",
            Self::Note => "NOTE",
            Self::Phdr => "PHDR",
            Self::Tls => "TLS",
            Self::GnuEhFrame => "GNU_EH_FRAME",
            Self::GnuStack => "GNU_STACK",
            Self::GnuRelro => "GNU_RELRO",
            Self::GnuProperty => "GNU_PROPERTY",
            Self::Other(raw) => return write!(f, "{raw:#x}"),
        };
        f.pad(name)
    }
}

impl fmt::Display for SymbolKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Func => "FUNC",
            Self::Object => "OBJECT",
            Self::NoType => "NOTYPE",
            Self::Other(raw) => return write!(f, "{raw}"),
        };
        f.pad(name)
    }
}

impl fmt::Display for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Local => "LOCAL",
            Self::Global => "GLOBAL",
            Self::Weak => "WEAK",
            Self::Other(raw) => return write!(f, "{raw}"),
        };
        f.pad(name)
    }
}
