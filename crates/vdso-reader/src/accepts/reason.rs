//! Why a reader rejects an image.

use std::fmt;

use crate::SegmentKind;

/// Why a reader rejects an image; prints as a lower-case clause.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The dynamic table lacks this entry.
    NoEntry(&'static str),
    /// The dynamic table has neither `DT_HASH` nor `DT_GNU_HASH`.
    NoHash,
    /// A hash table has no buckets or lies, in part, outside of the image.
    TableBroken(Table),
    /// `DT_HASH` counts more symbols than there are: the first number against the second.
    TooManySymbols(u32, usize),
    /// The image does not export this function, and the reader needs it.
    Missing(String),
    /// The image exports this function, but this table does not lead to it.
    NotFound(String, Table),
    /// The function has not the version that the reader asks for.
    Version(String, &'static str),
    /// The version's hash is not the hash of its name: the first number should be the second.
    VersionHash(&'static str, u32, u32),
    /// No version definition has the name that the reader asks for.
    NoVersion(&'static str),
    /// The version definitions are not in the order of their numbers or not as the reader needs.
    VersionShape(String),
    /// The function's symbol has a type that the reader passes over.
    Type(String),
    /// The function lies, in part, outside of the first `PT_LOAD` segment.
    Outside(String),
    /// The image has a segment that the reader takes as a sign of another kind of file.
    Segment(SegmentKind),
    /// The first `PT_LOAD` segment is not both readable and executable.
    FirstLoadFlags(u32),
    /// The address of the dynamic table does not match its offset.
    DynamicMoved,
    /// The program headers or the dynamic table are said to lie within the ELF header.
    InHeader,
    /// It is not a shared object (`ET_DYN`) but of this type.
    FileType(u16),
    /// The header's OS ABI and ABI version are neither System V's nor Linux's.
    OsAbi(u8, u8),
    /// The header states a wrong size of itself.
    HeaderSize(u16),
    /// `DT_SYMENT` is not the size of a symbol.
    SymbolSize(u64),
    /// The name of the image (`DT_SONAME`) does not start as the reader knows it.
    Soname(String),
    /// There are no section headers within the mapped bytes.
    NoSectionHeaders,
    /// There is no section with one of these names within the mapped bytes.
    NoSection(&'static str),
    /// There is no `PT_GNU_EH_FRAME` segment.
    NoUnwindIndex,
    /// The index of the unwind tables is not of the form that all unwinders know, or not sorted.
    UnwindIndex,
    /// No unwind table covers this function.
    NotUnwound(String),
}

/// Where a reader looks for symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// `DT_HASH`, by its chains.
    Hash,
    /// `DT_GNU_HASH`, by its chains.
    GnuHash,
    /// `DT_GNU_HASH`, by its filter and then its chains.
    GnuHashFilter,
    /// The symbol table from its start to the number of symbols in `DT_HASH`.
    Symbols,
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hash => "DT_HASH",
            Self::GnuHash => "DT_GNU_HASH",
            Self::GnuHashFilter => "DT_GNU_HASH with its filter",
            Self::Symbols => "the number of symbols in DT_HASH",
        })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoEntry(tag) => write!(f, "it has no {tag}"),
            Self::NoHash => f.write_str("it has neither DT_HASH nor DT_GNU_HASH"),
            Self::TableBroken(table) => {
                write!(f, "{table} has no buckets or leaves the image")
            }
            Self::TooManySymbols(said, real) => {
                write!(f, "DT_HASH counts {said} symbols where there are {real}")
            }
            Self::Missing(name) => write!(f, "it does not export {name}"),
            Self::NotFound(name, table) => write!(f, "{table} does not lead to {name}"),
            Self::Version(name, want) => write!(f, "{name} has not the version {want}"),
            Self::VersionHash(version, is, should) => {
                write!(f, "the hash of {version} is {is:#x} instead of {should:#x}")
            }
            Self::NoVersion(version) => write!(f, "it does not define the version {version}"),
            Self::VersionShape(name) => {
                write!(f, "the version of {name} is not defined in the place or form expected")
            }
            Self::Type(name) => write!(f, "the symbol {name} has another type"),
            Self::Outside(name) => write!(f, "{name} lies outside of the first PT_LOAD segment"),
            Self::Segment(kind) => write!(f, "it has a {kind} segment"),
            Self::FirstLoadFlags(flags) => {
                write!(f, "its first PT_LOAD segment is {}, not R+X", flag_letters(*flags))
            }
            Self::DynamicMoved => {
                f.write_str("the address of its dynamic table does not match the offset")
            }
            Self::InHeader => {
                f.write_str("its program headers or dynamic table lie within the ELF header")
            }
            Self::FileType(kind) => write!(f, "its ELF type is {kind} and not ET_DYN"),
            Self::OsAbi(abi, version) => {
                write!(f, "its OS ABI is {abi}.{version}, neither System V nor Linux")
            }
            Self::HeaderSize(size) => write!(f, "its ELF header says that it has {size} bytes"),
            Self::SymbolSize(size) => write!(f, "its DT_SYMENT is {size}"),
            Self::Soname(name) => write!(f, "its SONAME {name:?} does not start with \"linux-\""),
            Self::NoSectionHeaders => {
                f.write_str("it has no section headers within the mapped bytes")
            }
            Self::NoSection(name) => write!(f, "it has no section {name}"),
            Self::NoUnwindIndex => f.write_str("it has no PT_GNU_EH_FRAME segment"),
            Self::UnwindIndex => {
                f.write_str("the index of its unwind tables is not sorted or not in the usual form")
            }
            Self::NotUnwound(name) => write!(f, "no unwind table covers {name}"),
        }
    }
}

/// Segment flags as letters, for example `R+W`.
fn flag_letters(flags: u32) -> String {
    let letters = [(4, "R"), (2, "W"), (1, "X")];
    let set: Vec<&str> =
        letters.iter().filter(|letter| flags & letter.0 != 0).map(|letter| letter.1).collect();
    if set.is_empty() { "without access".to_owned() } else { set.join("+") }
}
