//! Symbol tables of ELF files.

use std::ops::Range;

use object::LittleEndian as LE;
use object::elf::{STT_FUNC, STT_GNU_IFUNC, Sym64};
use object::pod;

use super::module_file::Elf;

/// Most bytes of a name; C++ names can have some thousands.
const NAME_MAX: usize = 1 << 16;

/// The bytes of a symbol table and of its names.
#[derive(Clone, Debug)]
pub(super) struct SymbolTable {
    symbols: Vec<u8>,
    names: Vec<u8>,
}

/// A symbol that the file itself defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Symbol<'a> {
    pub(super) name: &'a [u8],
    /// Address in the file (its virtual addresses).
    pub(super) start: u64,
    /// In bytes; 0 if unknown.
    pub(super) size: u64,
    pub(super) is_function: bool,
}

impl SymbolTable {
    /// The file's exported symbols (`.dynsym`).
    pub(super) fn exported(elf: &Elf) -> Option<SymbolTable> {
        SymbolTable::read(elf, ".dynsym", ".dynstr")
    }

    /// All symbols (`.symtab`), which stripped files lack.
    pub(super) fn full(elf: &Elf) -> Option<SymbolTable> {
        SymbolTable::read(elf, ".symtab", ".strtab")
    }

    fn read(elf: &Elf, symbols: &str, names: &str) -> Option<SymbolTable> {
        let (symbols, names) = (elf.section(symbols)?.bytes, elf.section(names)?.bytes);
        Some(SymbolTable { symbols, names })
    }

    #[cfg(test)]
    pub(super) fn of(symbols: Vec<u8>, names: Vec<u8>) -> SymbolTable {
        SymbolTable { symbols, names }
    }

    /// The symbols with their indexes in the table. Symbols with damaged names are left out.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, Symbol<'_>)> {
        let count = self.symbols.len() / size_of::<Sym64<LE>>();
        (0..count).filter_map(|index| Some((index, self.symbol(index)?)))
    }

    /// The symbol at an index of the table.
    pub(super) fn symbol(&self, index: usize) -> Option<Symbol<'_>> {
        let bytes = self.symbols.get(index.checked_mul(size_of::<Sym64<LE>>())?..)?;
        let (symbol, _) = pod::from_bytes::<Sym64<LE>>(bytes).ok()?;
        let rest = self.names.get(symbol.st_name.get(LE) as usize..)?;
        let end = memchr::memchr(0, &rest[..rest.len().min(NAME_MAX)])?;
        let kind = symbol.st_type();
        (symbol.st_shndx.get(LE).0 != 0).then_some(Symbol {
            name: &rest[..end],
            start: symbol.st_value.get(LE),
            size: symbol.st_size.get(LE),
            is_function: kind == STT_FUNC || kind == STT_GNU_IFUNC,
        })
    }
}

impl Elf {
    /// The addresses in the file of exported variables; `None` if one is missing.
    pub(super) fn exported<const N: usize>(&self, names: &[&str; N]) -> Option<[u64; N]> {
        let mut found = [None; N];
        for (_, symbol) in SymbolTable::exported(self)?.iter() {
            if let Some(index) = names.iter().position(|name| name.as_bytes() == symbol.name) {
                found[index] = Some(symbol.start);
            }
        }
        let found: Vec<u64> = found.into_iter().collect::<Option<_>>()?;
        found.try_into().ok()
    }

    /// The values of exported four-byte constants whose names begin with `prefix`: the rest of each
    /// name, and the value.
    pub(super) fn constants(&self, prefix: &[u8]) -> Vec<(Vec<u8>, i32)> {
        let Some(table) = SymbolTable::exported(self) else { return Vec::new() };
        let constant = |(_, symbol): (usize, Symbol<'_>)| {
            let name = symbol.name.strip_prefix(prefix)?.to_vec();
            let bytes = self.at(symbol.start, 4)?;
            Some((name, i32::from_le_bytes(bytes.try_into().ok()?)))
        };
        table.iter().filter_map(constant).collect()
    }

    /// The addresses in the file of an exported function's code.
    pub(super) fn exported_function(&self, name: &str) -> Option<Range<u64>> {
        let table = SymbolTable::exported(self)?;
        let (_, symbol) = table.iter().find(|(_, symbol)| symbol.name == name.as_bytes())?;
        Some(symbol.start..symbol.start.checked_add(symbol.size)?)
    }
}
