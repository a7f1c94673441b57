//! The parts of an image.

use std::fmt;

use object::elf;
use serde::{Serialize, Serializer};

/// A parsed vDSO image, with its bytes.
///
/// All offsets count bytes from the start of the image, which is both the start of the file and,
/// in a process, the address in `AT_SYSINFO_EHDR`.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Image {
    /// The bytes passed to [`Image::parse`].
    pub bytes: Vec<u8>,
    /// The width of its addresses.
    pub class: Class,
    /// The processor family that it is for.
    pub machine: Machine,
    /// Its program headers, in their order.
    pub segments: Vec<Segment>,
    /// Its section headers, in their order; empty if there are none within the bytes.
    pub sections: Vec<Section>,
    /// Its dynamic table as pairs of tag and value, in their order, without the final `DT_NULL`.
    pub dynamic: Vec<(i64, u64)>,
    /// Its dynamic symbols in the order of the table, without the empty first entry.
    pub symbols: Vec<Symbol>,
    /// The versions that it defines, in their order.
    pub versions: Vec<Version>,
    /// What its notes say, in their order.
    pub notes: Vec<Note>,
    /// Its own name, `linux-vdso.so.1` for the kernel's images.
    pub soname: Option<String>,
    /// The offset after the last byte in use.
    ///
    /// Headers, the file part of all segments, all sections and the section headers end before it. From here to the end
    /// of the last page the bytes are unused.
    pub content_end: u64,
}

/// A number shown in hexadecimal, because it is an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hex(pub u64);

impl fmt::Display for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:#x}", self.0))
    }
}

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The width of addresses in an image, in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Addresses of 32 bits (`ELFCLASS32`).
    Elf32 = 32,
    /// Addresses of 64 bits (`ELFCLASS64`).
    Elf64 = 64,
}

/// Defines an enum for a numeric ELF field. Each variant has the name that text and JSON show, as in the ELF headers or
/// specific to the field.
macro_rules! elf_numbers {
    (
        $(#[$about:meta])*
        $enum:ident($raw:ty = $elf:path), others $others:literal:
        $($(#[$meaning:meta])* $variant:ident = $number:ident $name:literal,)*
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum $enum {
            $($(#[$meaning])* $variant,)*
            /// Any other number.
            Other($raw),
        }

        impl $enum {
            pub(super) fn from_raw(raw: $elf) -> Self {
                match raw {
                    $(elf::$number => Self::$variant,)*
                    _ => Self::Other(raw.0),
                }
            }
        }

        impl fmt::Display for $enum {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$variant => f.pad($name),)*
                    Self::Other(raw) => write!(f, $others, raw),
                }
            }
        }

        impl Serialize for $enum {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    };
}

elf_numbers! {
    /// The processor family that an image is for.
    Machine(u16 = elf::Machine), others "machine {}":
    /// x86-64, also with 32-bit addresses (x32).
    X86_64 = EM_X86_64 "x86-64",
    /// x86 with 32 bits; 64-bit kernels have such an image too.
    I386 = EM_386 "i386",
    /// ARM with 64 bits, either byte order.
    Aarch64 = EM_AARCH64 "aarch64",
    /// ARM with 32 bits, either byte order.
    Arm = EM_ARM "arm",
}

elf_numbers! {
    /// The kind of object that a symbol names.
    SymbolKind(u8 = elf::SymbolType), others "{}":
    /// `STT_FUNC`: a function.
    Func = STT_FUNC "FUNC",
    /// `STT_OBJECT`: data, such as version symbols.
    Object = STT_OBJECT "OBJECT",
    /// `STT_NOTYPE`: unspecified; arm64's `__kernel_rt_sigreturn` has this type.
    NoType = STT_NOTYPE "NOTYPE",
}

elf_numbers! {
    /// The visibility of a symbol to other objects.
    Binding(u8 = elf::SymbolBind), others "{}":
    /// `STB_LOCAL`: visible in this object only.
    Local = STB_LOCAL "LOCAL",
    /// `STB_GLOBAL`: visible to all objects, with precedence over weak ones.
    Global = STB_GLOBAL "GLOBAL",
    /// `STB_WEAK`: used if there is no global symbol of this name.
    Weak = STB_WEAK "WEAK",
}

/// A program header, with its numbers as in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The segment's type, such as `PT_LOAD`.
    pub kind: elf::ProgramType,
    /// Offset of its bytes in the file.
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

/// A section header, with its numbers as in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// The section's name; empty if the section names cannot be read.
    pub name: String,
    /// Offset of its bytes in the file.
    pub offset: u64,
    /// Its size in bytes; 0 if it takes no space in the file.
    pub size: u64,
    /// The address it was linked for; 0 if it is not loaded.
    pub vaddr: u64,
}

/// An entry of the dynamic symbol table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Symbol {
    /// Index in the symbol table.
    #[serde(skip)]
    pub index: usize,
    /// Its name without the version.
    pub name: String,
    /// Offset in bytes from the start of the image; for an absolute symbol, its value.
    pub offset: u64,
    /// Its size in bytes.
    #[serde(rename = "size_bytes")]
    pub size: u64,
    /// The symbol's type: function, data or unspecified.
    pub kind: SymbolKind,
    /// The symbol's visibility to other objects.
    pub binding: Binding,
    /// The symbol's version, for example `LINUX_2.6`.
    pub version: Option<String>,
    /// Whether the image defines the symbol; otherwise the image imports it.
    pub defined: bool,
    /// Whether its value is a plain number instead of an offset in the image.
    pub absolute: bool,
}

/// A version that the image defines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Index in the table of symbol versions.
    pub index: u16,
    /// Its name, for example `LINUX_2.6`.
    pub name: String,
    /// The hash of the name as the image states it.
    pub hash: u32,
    /// Whether the entry names the image itself instead of a version of symbols.
    pub base: bool,
}

/// The content of a note.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// `NT_GNU_BUILD_ID`, as lower-case hexadecimal digits.
    BuildId(String),
    /// The kernel's version code as major, minor and patch.
    LinuxVersion(u32, u32, u32),
}

impl fmt::Debug for Image {
    /// Leaves out the bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Image").field("machine", &self.machine).finish_non_exhaustive()
    }
}

impl Image {
    /// The functions that programs can call: defined, not absolute, global or weak.
    ///
    /// Symbols without a type are included, because arm64's `__kernel_rt_sigreturn` is one.
    pub fn functions(&self) -> impl Iterator<Item = &Symbol> {
        self.symbols.iter().filter(|symbol| symbol.is_function())
    }

    /// The function with this name, of any version.
    pub fn function(&self, name: &str) -> Option<&Symbol> {
        self.functions().find(|symbol| symbol.name == name)
    }

    /// The build id as lower-case hexadecimal digits, if a note has one.
    pub fn build_id(&self) -> Option<&str> {
        self.notes.iter().find_map(|note| match note {
            Note::BuildId(id) => Some(id.as_str()),
            _ => None,
        })
    }

    /// The offset of an address that the image was linked for.
    pub fn offset_of(&self, vaddr: u64) -> u64 {
        let load = self.segments.iter().find(|segment| segment.kind == elf::PT_LOAD);
        let (offset, base) = load.map_or((0, 0), |load| (load.offset, load.vaddr));
        vaddr.wrapping_add(offset).wrapping_sub(base)
    }
}

impl Symbol {
    /// Whether programs can call it: defined, not absolute, global or weak, function or untyped.
    pub fn is_function(&self) -> bool {
        self.defined
            && !self.absolute
            && matches!(self.kind, SymbolKind::Func | SymbolKind::NoType)
            && matches!(self.binding, Binding::Global | Binding::Weak)
    }
}
