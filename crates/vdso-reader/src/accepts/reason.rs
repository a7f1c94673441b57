//! Why a reader rejects an image.

use std::fmt;

use crate::SegmentKind;

/// Why a reader rejects an image; prints as a lower-case clause.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The dynamic table lacks this entry.
    #[error("it has no {0}")]
    NoEntry(&'static str),
    /// The dynamic table has neither `DT_HASH` nor `DT_GNU_HASH`.
    #[error("it has neither DT_HASH nor DT_GNU_HASH")]
    NoHash,
    /// A hash table has no buckets or lies, in part, outside of the image.
    #[error("{0} has no buckets or leaves the image")]
    TableBroken(Table),
    /// `DT_HASH` counts more symbols than there are: the first number against the second.
    #[error("DT_HASH counts {0} symbols where there are {1}")]
    TooManySymbols(u32, usize),
    /// The image does not export this function, and the reader needs it.
    #[error("it does not export {0}")]
    Missing(String),
    /// The image exports this function, but this table does not lead to it.
    #[error("{1} does not lead to {0}")]
    NotFound(String, Table),
    /// The function has not the version that the reader asks for.
    #[error("{0} has not the version {1}")]
    Version(String, &'static str),
    /// The version's hash is not the hash of its name: the first number should be the second.
    #[error("the hash of {0} is {1:#x} instead of {2:#x}")]
    VersionHash(&'static str, u32, u32),
    /// No version definition has the name that the reader asks for.
    #[error("it does not define the version {0}")]
    NoVersion(&'static str),
    /// The version definitions are not in the order of their numbers or not as the reader needs.
    #[error("the version of {0} is not defined in the place or form expected")]
    VersionShape(String),
    /// The function's symbol has a type that the reader passes over.
    #[error("the symbol {0} has another type")]
    Type(String),
    /// The function lies, in part, outside of the first `PT_LOAD` segment.
    #[error("{0} lies outside of the first PT_LOAD segment")]
    Outside(String),
    /// The image has a segment that the reader takes as a sign of another kind of file.
    #[error("it has a {0} segment")]
    Segment(SegmentKind),
    /// The first `PT_LOAD` segment is not both readable and executable.
    #[error("its first PT_LOAD segment is {}, not R+X", flag_letters(*.0))]
    FirstLoadFlags(u32),
    /// The address of the dynamic table does not match its offset.
    #[error("the address of its dynamic table does not match the offset")]
    DynamicMoved,
    /// The program headers or the dynamic table are said to lie within the ELF header.
    #[error("its program headers or dynamic table lie within the ELF header")]
    InHeader,
    /// It is not a shared object (`ET_DYN`) but of this type.
    #[error("its ELF type is {0} and not ET_DYN")]
    FileType(u16),
    /// The header's OS ABI and ABI version are neither System V's nor Linux's.
    #[error("its OS ABI is {0}.{1}, neither System V nor Linux")]
    OsAbi(u8, u8),
    /// The header states a wrong size of itself.
    #[error("its ELF header says that it has {0} bytes")]
    HeaderSize(u16),
    /// `DT_SYMENT` is not the size of a symbol.
    #[error("its DT_SYMENT is {0}")]
    SymbolSize(u64),
    /// The name of the image (`DT_SONAME`) does not start as the reader knows it.
    #[error("its SONAME {0:?} does not start with \"linux-\"")]
    Soname(String),
    /// There are no section headers within the mapped bytes.
    #[error("it has no section headers within the mapped bytes")]
    NoSectionHeaders,
    /// There is no section with one of these names within the mapped bytes.
    #[error("it has no section {0}")]
    NoSection(&'static str),
    /// There is no `PT_GNU_EH_FRAME` segment.
    #[error("it has no PT_GNU_EH_FRAME segment")]
    NoUnwindIndex,
    /// The index of the unwind tables is not of the form that all unwinders know, or not sorted.
    #[error("the index of its unwind tables is not sorted or not in the usual form")]
    UnwindIndex,
    /// No unwind table covers this function.
    #[error("no unwind table covers {0}")]
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

/// Segment flags as letters, for example `R+W`.
fn flag_letters(flags: u32) -> String {
    let letters = [(4, "R"), (2, "W"), (1, "X")];
    let set: Vec<&str> =
        letters.iter().filter(|letter| flags & letter.0 != 0).map(|letter| letter.1).collect();
    if set.is_empty() { "without access".to_owned() } else { set.join("+") }
}
