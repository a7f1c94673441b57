//! Checks the image for properties that known readers of a vDSO require. A reader that rejects an image does not say
//! so, and every clock read becomes a system call. `crates/clockscope/tests/traced/trace_languages.rs` tries real
//! readers with this machine's image. These tests check every form of the image.

use object::elf::{
    self, DT_GNU_HASH, DT_HASH, DT_STRSZ, DT_STRTAB, DT_SYMENT, DT_SYMTAB, DT_VERDEF, DT_VERDEFNUM,
    DT_VERSYM, DynamicTag,
};
use vdso_reader::{Image, Segment, Symbol, SymbolKind};

const VERSION: &str = "LINUX_2.6";

/// Complaints as clauses; empty if all readers find everything.
pub(super) fn complaints(image: &Image) -> Vec<String> {
    let functions = || image.functions().filter(|symbol| symbol.kind == SymbolKind::Func);
    let mut all = Vec::new();
    // Abseil needs all of these, Go DT_VERDEF, musl to 1.2.5 and old copies of parse_vdso.c DT_HASH.
    for tag in [DT_HASH, DT_SYMTAB, DT_STRTAB, DT_STRSZ, DT_VERSYM, DT_VERDEF, DT_VERDEFNUM] {
        if value(image, tag).is_none() {
            all.push(format!("no entry {}", tag.0));
        }
    }
    // musl and Abseil go through the symbols up to the number in DT_HASH.
    let count = table(image, DT_HASH).and_then(|at| word(image, at, 1)).map(|count| count as usize);
    if count.is_some_and(|count| {
        count > image.symbols.len() + 1 || functions().any(|symbol| symbol.index >= count)
    }) {
        all.push("DT_HASH counts other symbols".to_owned());
    }
    let mut unfound = |name: &str, way: &str| all.push(format!("{way} does not lead to {name}"));
    for symbol in functions() {
        if table(image, DT_HASH).is_some_and(|at| !in_hash(image, at, symbol).unwrap_or(false)) {
            unfound(&symbol.name, "DT_HASH");
        }
        let gnu = table(image, DT_GNU_HASH);
        if gnu.is_some_and(|at| !in_gnu_hash(image, at, symbol).unwrap_or(false)) {
            unfound(&symbol.name, "DT_GNU_HASH");
        }
        if !is_unwound(image, symbol).unwrap_or(false) {
            unfound(&symbol.name, "the index of unwind tables");
        }
        if symbol.version.as_deref() != Some(VERSION) {
            unfound(&symbol.name, VERSION);
        }
    }
    let is_version = |hash| hash == elf::hash(VERSION.as_bytes());
    let version = image.versions.iter().find(|version| !version.base && version.name == VERSION);
    if version.is_none_or(|version| !is_version(version.hash))
        || !image.versions.is_sorted_by_key(|version| version.index)
    {
        all.push("versions are not as Go and Abseil want them".to_owned());
    }
    // rustix rejects an image with these segments; Go and rustix want all code in the first PT_LOAD.
    let segment = |kind| image.segments.iter().find(move |segment| segment.kind == kind);
    let has = |kind| segment(kind).is_some();
    if has(elf::PT_INTERP) || has(elf::PT_GNU_RELRO) || has(elf::PT_TLS) {
        all.push("a segment of another kind of file".to_owned());
    }
    let holds = |load: &Segment| {
        let end = load.offset + load.mem_size;
        functions().all(|one| load.offset <= one.offset && one.offset + one.size <= end)
    };
    if segment(elf::PT_LOAD).is_none_or(|load| load.flags & 5 != 5 || !holds(load)) {
        all.push("not all code is in a first PT_LOAD that is R+X".to_owned());
    }
    // glibc adds the load address to the address of the dynamic table, other readers to its offset.
    let dynamic = segment(elf::PT_DYNAMIC);
    if dynamic.is_none_or(|dynamic| image.offset_of(dynamic.vaddr) != dynamic.offset)
        || value(image, DT_SYMENT).is_some_and(|size| size != 24)
    {
        all.push("a dynamic table that others read elsewhere".to_owned());
    }
    // AddressSanitizer skips the vDSO by its name; gdb reads sections from memory.
    if image.soname.as_deref().is_none_or(|name| !name.starts_with("linux-")) {
        all.push("another SONAME".to_owned());
    }
    for name in [".dynsym", ".text", ".eh_frame"] {
        if !image.sections.iter().any(|section| section.name == name && section.size != 0) {
            all.push(format!("no section {name}"));
        }
    }
    all
}

fn value(image: &Image, tag: DynamicTag) -> Option<u64> {
    image.dynamic.iter().rev().find(|entry| entry.0 == tag.0).map(|entry| entry.1)
}

fn table(image: &Image, tag: DynamicTag) -> Option<u64> {
    value(image, tag).map(|at| image.offset_of(at))
}

/// The 32-bit word number `number` from offset `at` on.
fn word(image: &Image, at: u64, number: u64) -> Option<u32> {
    let at = usize::try_from(at + number * 4).ok()?;
    Some(u32::from_le_bytes(*image.bytes.get(at..)?.first_chunk()?))
}

/// Whether the chain of a name in `DT_HASH` leads to its symbol.
fn in_hash(image: &Image, at: u64, symbol: &Symbol) -> Option<bool> {
    let buckets = word(image, at, 0).filter(|buckets| *buckets != 0)?;
    let mut index = word(image, at, 2 + u64::from(elf::hash(symbol.name.as_bytes()) % buckets))?;
    for _ in 0..=image.symbols.len() {
        if index == 0 || index as usize == symbol.index {
            break;
        }
        index = word(image, at, 2 + u64::from(buckets) + u64::from(index))?;
    }
    Some(index as usize == symbol.index)
}

/// Whether the Bloom filter of `DT_GNU_HASH` lets a name through, and its chain leads to the symbol.
fn in_gnu_hash(image: &Image, at: u64, symbol: &Symbol) -> Option<bool> {
    let [buckets, first, filters, shift] = [0, 1, 2, 3].map(|number| word(image, at, number));
    let (buckets, filters) = (buckets.filter(|count| *count != 0)?, filters?);
    let hash = elf::gnu_hash(symbol.name.as_bytes());
    let filter = 4 + u64::from((hash / 64) & filters.checked_sub(1)?) * 2;
    let bits = u64::from(word(image, at, filter)?) | u64::from(word(image, at, filter + 1)?) << 32;
    let is_let_through = bits >> (hash % 64) & bits >> (hash.checked_shr(shift?)? % 64) & 1 == 1;
    let chains = 4 + u64::from(filters) * 2 + u64::from(buckets);
    let mut index = word(image, at, chains - u64::from(buckets) + u64::from(hash % buckets))?;
    loop {
        let stored = word(image, at, chains + u64::from(index.checked_sub(first?)?))?;
        if index as usize == symbol.index {
            return Some(is_let_through && stored | 1 == hash | 1);
        }
        if stored & 1 != 0 {
            return Some(false);
        }
        index += 1;
    }
}

/// Whether the sorted index of unwind tables has a description that covers the whole function.
fn is_unwound(image: &Image, symbol: &Symbol) -> Option<bool> {
    let segment = image.segments.iter().find(|one| one.kind == elf::PT_GNU_EH_FRAME)?;
    let start = segment.offset;
    let relative =
        |base: u64, at: u64| base.checked_add_signed(i64::from(word(image, at, 0)?.cast_signed()));
    // Version 1, a pointer relative to itself, a 32-bit count, pairs relative to the start of the index.
    let is_usual = word(image, start, 0)? == u32::from_le_bytes([1, 0x1b, 0x03, 0x3b]);
    let entries = (0..u64::from(word(image, start, 2)?)).map(|number| {
        let pair = start + 12 + 8 * number;
        Some((relative(start, pair)?, relative(start, pair + 4)?))
    });
    let entries = entries.collect::<Option<Vec<(u64, u64)>>>()?;
    let (_, description) = *entries.iter().rfind(|entry| entry.0 <= symbol.offset)?;
    let code = relative(description + 8, description + 8)?;
    let end = code + u64::from(word(image, description, 3)?);
    let is_covered = code <= symbol.offset && symbol.offset + symbol.size <= end;
    Some(is_usual && is_covered && entries.is_sorted())
}

/// The offsets are those of `x86_64-6.18.so`.
#[test]
fn damage_is_noticed() {
    let kernel = super::image_tests::KERNEL;
    assert_eq!(complaints(&Image::parse(kernel).unwrap()), [""; 0]);
    for (at, with, wanted) in [
        (0x120 + 4, &[2][..], "DT_HASH counts other symbols"),
        (0x120 + 8 + 4 * 3, &[0; 4 * 14], "DT_HASH does not lead to __vdso_"),
        (0x170 + 16, &[0; 16], "DT_GNU_HASH does not lead to __vdso_"),
        (0x170 + 16 + 16 + 12, &[0xff; 52], "DT_GNU_HASH does not lead to __vdso_"),
        (0x320 + 121 + 8, b"7", "LINUX_2.6 does not lead to __vdso_"),
        (0x408 + 28 + 8, &[1], "versions are not as"),
        (0x40 + 4, &[4], "not all code is in"),
        (0x40 + 2 * 56, &[3, 0, 0, 0], "a segment of another kind"),
        (0x320 + 105, b"librr", "another SONAME"),
        (0x28, &[0; 8], "no section .dynsym"),
        (0x618, &[2], "the index of unwind tables does not lead to __vdso_"),
        (0x618 + 8, &[1], "the index of unwind tables does not lead to __vdso_"),
    ] {
        let mut bytes = kernel.to_vec();
        bytes[at..at + with.len()].copy_from_slice(with);
        let found = complaints(&Image::parse(&bytes).unwrap());
        assert!(found.iter().any(|one| one.starts_with(wanted)), "{at:#x}: {wanted}: {found:?}");
    }
}
