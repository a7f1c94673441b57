//! The reasons why bytes are not a vDSO image.

/// Why bytes cannot be read as a vDSO image; prints as a lower-case clause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// There are no bytes.
    #[error("it is empty")]
    Empty,
    /// The first four bytes are not those of an ELF file.
    #[error("it is not an ELF file")]
    NotElf,
    /// The file ends within the ELF header.
    #[error("it ends within the ELF header")]
    HeaderCut,
    /// The header's class, byte order or version is undefined.
    #[error("its ELF class, byte order or version is unknown")]
    HeaderInvalid,
    /// The program headers lie outside of the file, or their size does not fit the class.
    #[error("its program headers lie outside of the file or have a wrong size")]
    SegmentTableOutside,
    /// A segment's bytes lie outside of the file; the number is its place in the table.
    #[error("segment {0} lies outside of the file")]
    SegmentOutside(usize),
    /// There is no `PT_LOAD` segment.
    #[error("it has no PT_LOAD segment")]
    NoLoad,
    /// There is no `PT_DYNAMIC` segment, so no program can look up anything.
    #[error("it has no PT_DYNAMIC segment, so it exports nothing")]
    NoDynamic,
    /// The dynamic table does not end with `DT_NULL` within its segment.
    #[error("its dynamic table has no end")]
    DynamicEndless,
    /// The dynamic table names no symbol table (`DT_SYMTAB`).
    #[error("its dynamic table names no symbol table")]
    NoSymbolTable,
    /// The dynamic table names no string table (`DT_STRTAB`), or one outside of the file.
    #[error("its dynamic table names no string table in the file")]
    NoStrings,
    /// Neither a hash table nor the section headers give the number of symbols.
    #[error("neither a hash table nor section headers tell its number of symbols")]
    SymbolCountUnknown,
    /// The symbol table lies outside of the file.
    #[error("its symbol table lies outside of the file")]
    SymbolsOutside,
    /// The name of a symbol lies outside of the string table; the number is the symbol's index.
    #[error("the name of symbol {0} lies outside of the string table")]
    SymbolName(usize),
    /// The value of a symbol lies outside of the file; the number is the symbol's index.
    #[error("symbol {0} lies outside of the file")]
    SymbolOutside(usize),
    /// The table of symbol versions (`DT_VERSYM`) lies outside of the file.
    #[error("its table of symbol versions lies outside of the file")]
    VersionIndexOutside,
    /// A version definition (`DT_VERDEF`) lies outside of the file or does not end.
    #[error("a version definition lies outside of the file or does not end")]
    VersionInvalid,
}
