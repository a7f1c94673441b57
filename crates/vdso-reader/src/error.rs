//! Why bytes are not a vDSO image.

use std::fmt;

/// Why bytes cannot be read as a vDSO image; prints as a lower-case clause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImageError {
    /// There are no bytes.
    Empty,
    /// The first four bytes are not those of an ELF file.
    NotElf,
    /// The file ends within the ELF header.
    HeaderCut,
    /// The header's class, byte order or version has no meaning.
    HeaderInvalid,
    /// The program headers lie outside of the file or have another size than the class demands.
    SegmentTableOutside,
    /// A segment's bytes lie outside of the file; the number is its place in the table.
    SegmentOutside(usize),
    /// There is no `PT_LOAD` segment.
    NoLoad,
    /// There is no `PT_DYNAMIC` segment, so no program can look up anything.
    NoDynamic,
    /// The dynamic table does not end with `DT_NULL` within its segment.
    DynamicEndless,
    /// The dynamic table names no symbol table (`DT_SYMTAB`).
    NoSymbolTable,
    /// The dynamic table names no string table (`DT_STRTAB`), or one outside of the file.
    NoStrings,
    /// Neither a hash table nor the section headers say how many symbols there are.
    SymbolCountUnknown,
    /// The symbol table lies outside of the file.
    SymbolsOutside,
    /// The name of a symbol lies outside of the string table; the number is the symbol's index.
    SymbolName(usize),
    /// The value of a symbol lies outside of the file; the number is the symbol's index.
    SymbolOutside(usize),
    /// The table of symbol versions (`DT_VERSYM`) lies outside of the file.
    VersionIndexOutside,
    /// A version definition (`DT_VERDEF`) lies outside of the file or does not end.
    VersionInvalid,
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("it is empty"),
            Self::NotElf => f.write_str("it is not an ELF file"),
            Self::HeaderCut => f.write_str("it ends within the ELF header"),
            Self::HeaderInvalid => f.write_str("its ELF class, byte order or version is unknown"),
            Self::SegmentTableOutside => {
                f.write_str("its program headers lie outside of the file or have a wrong size")
            }
            Self::SegmentOutside(at) => write!(f, "segment {at} lies outside of the file"),
            Self::NoLoad => f.write_str("it has no PT_LOAD segment"),
            Self::NoDynamic => f.write_str("it has no PT_DYNAMIC segment, so it exports nothing"),
            Self::DynamicEndless => f.write_str("its dynamic table has no end"),
            Self::NoSymbolTable => f.write_str("its dynamic table names no symbol table"),
            Self::NoStrings => f.write_str("its dynamic table names no string table in the file"),
            Self::SymbolCountUnknown => {
                f.write_str("neither a hash table nor section headers tell its number of symbols")
            }
            Self::SymbolsOutside => f.write_str("its symbol table lies outside of the file"),
            Self::SymbolName(at) => {
                write!(f, "the name of symbol {at} lies outside of the string table")
            }
            Self::SymbolOutside(at) => write!(f, "symbol {at} lies outside of the file"),
            Self::VersionIndexOutside => {
                f.write_str("its table of symbol versions lies outside of the file")
            }
            Self::VersionInvalid => {
                f.write_str("a version definition lies outside of the file or does not end")
            }
        }
    }
}

impl std::error::Error for ImageError {}
