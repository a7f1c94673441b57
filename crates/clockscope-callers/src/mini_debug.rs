//! Names of functions in stripped files that carry a `.gnu_debugdata` section ("`MiniDebugInfo`").
//!
//! The section is an ELF file compressed by xz. Its symbol table has the functions that the
//! stripped file's `.dynsym` lacks. Fedora's programs and libraries have this section.
//!
//! # References
//!
//! GDB manual, "Debugging information in a special section"

use std::io::Read as _;

use clockscope_text::foreign::Foreign;
use lzma_rust2::XzReader;

use super::demangle::demangled;
use super::module_file::{Bytes, Elf};
use super::symbol_table::SymbolTable;

/// The section's name.
const SECTION: &str = ".gnu_debugdata";
/// Most bytes to which one section is unpacked. A browser's section has 20 MB.
pub(super) const UNPACKED_MAX: u64 = 64 << 20;
/// Most bytes to which all sections are unpacked in one run: some seconds of work.
pub(super) const ALL_MAX: u64 = 256 << 20;
/// Memory for the dictionary of xz, in KiB: the size for `xz -9`, and the decoder's overhead.
const DICTIONARY_MAX_KIB: u32 = 65 << 10;
/// Most overlapping functions that are searched for one that covers an address.
const OVERLAPS_MAX: usize = 64;

/// The functions of a stripped file.
pub(super) struct Functions {
    tables: Vec<SymbolTable>,
    /// Address of the first byte, address behind the last, table, and index in the table; sorted.
    index: Vec<(u64, u64, usize, usize)>,
}

impl Functions {
    /// Reads the section of a file that has no symbol table of its own. `left` is the number of
    /// bytes that may still be unpacked; it is reduced.
    pub(super) fn read(elf: &Elf, left: &mut u64) -> Option<Functions> {
        if elf.has_section(".symtab") {
            return None;
        }
        let packed = elf.section(SECTION)?.bytes;
        // If the section is damaged, the exported functions still have names.
        let tables = symbols_in(&packed, left).into_iter().chain(SymbolTable::exported(elf));
        Some(Functions::of(tables.collect()))
    }

    /// Reads the section alone.
    #[cfg(fuzzing)]
    pub(super) fn of_section(packed: &[u8], left: &mut u64) -> Option<Functions> {
        Some(Functions::of(vec![symbols_in(packed, left)?]))
    }

    fn of(tables: Vec<SymbolTable>) -> Functions {
        let mut index = Vec::new();
        for (number, table) in tables.iter().enumerate() {
            let functions = table.iter().filter(|(_, symbol)| symbol.is_function);
            // A function of unknown size would name all code behind it.
            let sized = functions.filter_map(|(place, symbol)| {
                let end = symbol.start.checked_add(symbol.size)?;
                (symbol.size > 0).then_some((symbol.start, end, number, place))
            });
            index.extend(sized);
        }
        index.sort_unstable();
        Functions { tables, index }
    }

    /// The function whose code is at an address in the file, demangled.
    pub(super) fn at(&self, address: u64) -> Option<Foreign> {
        let behind = self.index.partition_point(|(start, ..)| *start <= address);
        let before = self.index[..behind].iter().rev().take(OVERLAPS_MAX);
        let (.., table, place) = *before.into_iter().find(|(_, end, ..)| address < *end)?;
        let symbol = self.tables.get(table)?.symbol(place)?;
        Some(demangled(&String::from_utf8_lossy(symbol.name)))
    }
}

/// The symbol table in a section.
fn symbols_in(packed: &[u8], left: &mut u64) -> Option<SymbolTable> {
    let bytes = unpacked(packed, UNPACKED_MAX, left)?;
    SymbolTable::full(&Elf::read(Bytes::Memory(bytes.into()))?)
}

/// The unpacked content of a section; `None` if the section is damaged or has more than `most` or
/// `left` bytes.
fn unpacked(packed: &[u8], most: u64, left: &mut u64) -> Option<Vec<u8>> {
    let limit = most.min(*left);
    let mut bytes = Vec::new();
    let mut reader = XzReader::new_mem_limit(packed, false, DICTIONARY_MAX_KIB).take(limit + 1);
    let read = reader.read_to_end(&mut bytes);
    *left -= limit.min(bytes.len() as u64);
    (read.is_ok() && bytes.len() as u64 <= limit).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lzma_rust2::{XzOptions, XzWriter};
    use std::io::Write as _;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut writer = XzWriter::new(Vec::new(), XzOptions::with_preset(1)).unwrap();
        writer.write_all(bytes).unwrap();
        writer.finish().unwrap()
    }

    #[test]
    fn a_bomb_stops_at_the_limit_and_uses_up_what_is_left() {
        const MOST: u64 = 1 << 20;
        let zeros = vec![0; 4 << 20];
        let bomb = packed(&zeros);
        assert!(bomb.len() < 4096, "{} bytes are no bomb", bomb.len());
        let mut left = ALL_MAX;
        assert_eq!(unpacked(&bomb, MOST, &mut left), None);
        assert_eq!(left, ALL_MAX - MOST);
        let mut left = 99;
        assert_eq!(unpacked(&packed(&zeros[..100]), MOST, &mut left), None);
        assert_eq!(left, 0);
        let mut left = 150;
        let bytes = unpacked(&packed(&zeros[..100]), MOST, &mut left);
        assert_eq!(bytes.as_deref(), Some(&zeros[..100]));
        assert_eq!(left, 50);
    }

    #[test]
    fn damage_is_no_panic() {
        const TEXT: &[u8] = b"\x7fELF and what follows it";
        let sound = packed(TEXT);
        for at in 0..sound.len() {
            let mut damaged = sound.clone();
            damaged[at] ^= 0x55;
            let found = unpacked(&damaged, 100, &mut 100);
            assert!(found.is_none_or(|bytes| bytes == TEXT), "byte {at}");
            assert_eq!(unpacked(&sound[..at], 100, &mut 100), None, "{at} bytes");
        }
    }

    /// A table of functions with these names, first addresses and sizes.
    fn table(functions: &[(&str, u64, u64)]) -> SymbolTable {
        let (mut symbols, mut names) = (Vec::new(), vec![0]);
        for (name, start, size) in functions {
            symbols.extend(u32::try_from(names.len()).unwrap().to_le_bytes());
            symbols.extend([2, 0, 1, 0]);
            symbols.extend(start.to_le_bytes());
            symbols.extend(size.to_le_bytes());
            names.extend(name.bytes().chain([0]));
        }
        SymbolTable::of(symbols, names)
    }

    #[test]
    fn the_innermost_function_that_covers_an_address_names_it() {
        let functions = Functions::of(vec![
            table(&[("outer", 0x100, 0x100), ("_ZN3app4postEv", 0x140, 0x10), ("bare", 0x300, 0)]),
            table(&[("exported", 0x200, 0x10)]),
        ]);
        let at = |address| functions.at(address).map(|name| name.verbatim().to_owned());
        assert_eq!(at(0xff), None);
        assert_eq!(at(0x100).as_deref(), Some("outer"));
        assert_eq!(at(0x14f).as_deref(), Some("app::post()"));
        assert_eq!(at(0x150).as_deref(), Some("outer"));
        assert_eq!(at(0x20f).as_deref(), Some("exported"));
        assert_eq!(at(0x210), None);
        assert_eq!(at(0x300), None, "of unknown size");
    }
}
