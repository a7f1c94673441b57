//! The demands of each reader.

use object::elf;

use super::reason::{Reason, Table};
use super::tables::{find, hash_count};
use super::unwind;
use super::{Reader, Wants};
use crate::{Binding, Class, Image, SegmentKind, Symbol, SymbolKind};

/// The dynamic entries that Abseil asserts, with their names.
const ABSEIL_ENTRIES: [(elf::DynamicTag, &str); 7] = [
    (elf::DT_HASH, "DT_HASH"),
    (elf::DT_SYMTAB, "DT_SYMTAB"),
    (elf::DT_STRTAB, "DT_STRTAB"),
    (elf::DT_STRSZ, "DT_STRSZ"),
    (elf::DT_VERSYM, "DT_VERSYM"),
    (elf::DT_VERDEF, "DT_VERDEF"),
    (elf::DT_VERDEFNUM, "DT_VERDEFNUM"),
];

/// The types of symbols that most readers take.
const CODE: [SymbolKind; 2] = [SymbolKind::Func, SymbolKind::NoType];

/// What this reader dislikes about this image.
pub(super) fn reasons(image: &Image, reader: Reader, wants: &Wants) -> Vec<Reason> {
    let mut reasons = match reader {
        Reader::Glibc => glibc(image, wants),
        Reader::Musl => musl(image, wants),
        Reader::Go => go(image, wants),
        Reader::Rustix => rustix(image, wants),
        Reader::Kernel => kernel(image, wants),
        Reader::KernelOld => kernel_old(image, wants),
        Reader::Abseil => abseil(image, wants),
        Reader::Asan => asan(image),
        Reader::Gdb => gdb(image),
        Reader::Unwinders => unwind::reasons(image),
    };
    let mut seen = Vec::new();
    reasons.retain(|reason| {
        let new = !seen.contains(reason);
        seen.push(reason.clone());
        new
    });
    reasons
}

fn has(image: &Image, tag: elf::DynamicTag) -> bool {
    image.dynamic_value(tag).is_some()
}

/// Looks up all wanted functions as a reader does that takes `DT_GNU_HASH`, by its chains or also its
/// filter, and `DT_HASH` only where there is no other. `others` says whether programs look up more
/// functions with it.
fn look_up_preferred(
    image: &Image,
    wants: &Wants,
    gnu: Table,
    types: &[SymbolKind],
    others: bool,
) -> Vec<Reason> {
    let table = if has(image, elf::DT_GNU_HASH) {
        gnu
    } else if has(image, elf::DT_HASH) {
        Table::Hash
    } else {
        return vec![Reason::NoHash];
    };
    let mut reasons = look_up(image, wants, table, types, true);
    if others {
        reasons.extend(look_up_others(image, wants, table, types));
    }
    reasons
}

/// Looks up all wanted functions in `table`, and says what is wrong with each.
///
/// `types` are the symbol types that the reader takes; `hashed` says whether it also compares the
/// version's hash.
fn look_up(
    image: &Image,
    wants: &Wants,
    table: Table,
    types: &[SymbolKind],
    hashed: bool,
) -> Vec<Reason> {
    let versioned = has(image, elf::DT_VERSYM) && has(image, elf::DT_VERDEF);
    let mut reasons = Vec::new();
    for (place, name) in wants.names.iter().enumerate() {
        let Some(exported) = image.function(name) else {
            if place == 0 {
                reasons.push(Reason::Missing((*name).to_owned()));
            }
            continue;
        };
        if !types.contains(&exported.kind) {
            reasons.push(Reason::Type((*name).to_owned()));
            continue;
        }
        let named = |symbol: &Symbol| fits(symbol, name, types);
        match find(image, table, name, named) {
            Err(reason) => reasons.push(reason),
            Ok(symbol) if !versioned || symbol.version.as_deref() == Some(wants.version) => {}
            Ok(_) => reasons.push(Reason::Version((*name).to_owned(), wants.version)),
        }
    }
    if hashed && versioned {
        reasons.extend(version_hash(image, wants.version));
    }
    reasons
}

/// Looks up all other exported functions of these types in `table`, for readers that many programs
/// use with names of their own choice.
fn look_up_others(image: &Image, wants: &Wants, table: Table, types: &[SymbolKind]) -> Vec<Reason> {
    let others = image.functions().filter(|symbol| {
        !wants.names.contains(&symbol.name.as_str()) && types.contains(&symbol.kind)
    });
    let lost = |symbol: &Symbol| {
        let name = &symbol.name;
        find(image, table, name, |found| fits(found, name, types)).err()
    };
    others.filter_map(lost).collect()
}

/// Whether a reader that takes these types takes this symbol for this name.
fn fits(symbol: &Symbol, name: &str, types: &[SymbolKind]) -> bool {
    symbol.name == name
        && symbol.defined
        && types.contains(&symbol.kind)
        && matches!(symbol.binding, Binding::Global | Binding::Weak)
}

/// What is wrong with the definition of this version.
fn version_hash(image: &Image, version: &'static str) -> Option<Reason> {
    let found = image.versions().iter().find(|found| !found.base && found.name == version);
    let Some(found) = found else { return Some(Reason::NoVersion(version)) };
    let should = elf::hash(version.as_bytes());
    (found.hash != should).then_some(Reason::VersionHash(version, found.hash, should))
}

/// The wanted functions that are not, whole, in the first `PT_LOAD` segment.
fn outside_first_load(image: &Image, wants: &Wants) -> Vec<Reason> {
    let Some(load) = image.first_load() else { return Vec::new() };
    let range = load.offset..=load.offset.saturating_add(load.mem_size);
    let functions = wants.names.iter().filter_map(|name| image.function(name));
    let outside = functions.filter(|symbol| {
        let end = symbol.offset.saturating_add(symbol.size.max(1));
        !range.contains(&symbol.offset) || !range.contains(&end)
    });
    outside.map(|symbol| Reason::Outside(symbol.name.clone())).collect()
}

/// glibc adds the load address to the address of the dynamic table, others to its offset.
fn dynamic_moved(image: &Image) -> Option<Reason> {
    let dynamic = image.segments().iter().rfind(|segment| segment.kind == SegmentKind::Dynamic)?;
    (image.offset_of(dynamic.vaddr) != dynamic.offset).then_some(Reason::DynamicMoved)
}

fn has_segment(image: &Image, kind: SegmentKind) -> Option<Reason> {
    let found = image.segments().iter().any(|segment| segment.kind == kind);
    found.then_some(Reason::Segment(kind))
}

/// glibc to 2.30 looked names up after it had read the versions and so compared them; newer ones
/// look up before that and take any version. The stricter one counts.
fn glibc(image: &Image, wants: &Wants) -> Vec<Reason> {
    let mut reasons = Vec::new();
    reasons.extend(has_segment(image, SegmentKind::Tls));
    reasons.extend(dynamic_moved(image));
    let types = [SymbolKind::Func, SymbolKind::NoType, SymbolKind::Object];
    reasons.extend(look_up_preferred(image, wants, Table::GnuHashFilter, &types, true));
    reasons
}

/// musl takes the number of symbols from `DT_HASH` and then looks at one symbol after the other.
fn musl(image: &Image, wants: &Wants) -> Vec<Reason> {
    let Some(count) = hash_count(image) else { return vec![Reason::NoEntry("DT_HASH")] };
    let real = image.symbols().len() + 1;
    if usize::try_from(count).is_ok_and(|count| count > real) {
        return vec![Reason::TooManySymbols(count, real)];
    }
    let types = [SymbolKind::Func, SymbolKind::NoType, SymbolKind::Object];
    look_up(image, wants, Table::Symbols, &types, false)
}

/// Go reads the version definitions without asking whether there are any, and takes only code in
/// the first `PT_LOAD` segment for the vDSO when a signal interrupts it.
fn go(image: &Image, wants: &Wants) -> Vec<Reason> {
    let mut reasons = Vec::new();
    if !has(image, elf::DT_VERDEF) {
        reasons.push(Reason::NoEntry("DT_VERDEF"));
    }
    reasons.extend(look_up_preferred(image, wants, Table::GnuHash, &CODE, false));
    reasons.extend(outside_first_load(image, wants));
    reasons
}

fn rustix(image: &Image, wants: &Wants) -> Vec<Reason> {
    let mut reasons = rustix_header(image);
    if let Some(load) = image.first_load()
        && !load.has_flags(elf::PF_R.0 | elf::PF_X.0)
    {
        reasons.push(Reason::FirstLoadFlags(load.flags));
    }
    reasons.extend(has_segment(image, SegmentKind::Interp));
    reasons.extend(has_segment(image, SegmentKind::GnuRelro));
    let symbol_size = match image.class() {
        Class::Elf32 => 16,
        Class::Elf64 => 24,
    };
    let other_size = image.dynamic_value(elf::DT_SYMENT).filter(|size| *size != symbol_size);
    reasons.extend(other_size.map(Reason::SymbolSize));
    reasons.extend(look_up_preferred(image, wants, Table::GnuHash, &CODE, false));
    reasons.extend(outside_first_load(image, wants));
    reasons
}

/// The checks by which rustix decides that an address is that of a vDSO.
fn rustix_header(image: &Image) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let header = &image.header;
    let size = match header.class {
        Class::Elf32 => 52,
        Class::Elf64 => 64,
    };
    if header.file_type != elf::ET_DYN.0 {
        reasons.push(Reason::FileType(header.file_type));
    }
    let abi = (header.os_abi, header.abi_version);
    if ![elf::ELFOSABI_SYSV.0, elf::ELFOSABI_LINUX.0].contains(&abi.0) || abi.1 != 0 {
        reasons.push(Reason::OsAbi(abi.0, abi.1));
    }
    if header.header_size != size {
        reasons.push(Reason::HeaderSize(header.header_size));
    }
    let dynamic = image.segments().iter().filter(|segment| segment.kind == SegmentKind::Dynamic);
    let mut places = dynamic.map(|segment| segment.offset).chain([header.program_header_offset]);
    if places.any(|offset| offset < u64::from(size)) {
        reasons.push(Reason::InHeader);
    }
    reasons
}

fn kernel(image: &Image, wants: &Wants) -> Vec<Reason> {
    look_up_preferred(image, wants, Table::GnuHash, &CODE, true)
}

fn kernel_old(image: &Image, wants: &Wants) -> Vec<Reason> {
    if !has(image, elf::DT_HASH) {
        return vec![Reason::NoEntry("DT_HASH")];
    }
    let types = [SymbolKind::Func];
    let mut reasons = look_up(image, wants, Table::Hash, &types, true);
    reasons.extend(look_up_others(image, wants, Table::Hash, &types));
    reasons
}

/// Abseil goes through all symbols and gives up the whole process (`ABSL_RAW_CHECK`) if a version
/// is not as it expects: definitions in the order of their numbers, one or two names each.
fn abseil(image: &Image, wants: &Wants) -> Vec<Reason> {
    let lacking = ABSEIL_ENTRIES.iter().filter(|(tag, _)| !has(image, *tag));
    let mut reasons: Vec<Reason> = lacking.map(|(_, name)| Reason::NoEntry(name)).collect();
    if !reasons.is_empty() {
        return reasons;
    }
    reasons.extend(dynamic_moved(image));
    let count = hash_count(image).unwrap_or(0);
    let real = image.symbols().len() + 1;
    if usize::try_from(count).is_ok_and(|count| count > real) {
        reasons.push(Reason::TooManySymbols(count, real));
        return reasons;
    }
    let ordered = image.versions().is_sorted_by_key(|version| version.index);
    let exported = wants.names.iter().filter_map(|name| image.function(name));
    for symbol in exported {
        let name = symbol.name.clone();
        if !ordered {
            reasons.push(Reason::VersionShape(name));
        } else if symbol.version.as_deref() != Some(wants.version) {
            reasons.push(Reason::Version(name, wants.version));
        } else if let Err(reason) = find(image, Table::Symbols, &name, |one| one.name == name) {
            reasons.push(reason);
        }
    }
    reasons
}

/// AddressSanitizer wants to be the first library in the list and passes over the vDSO by name.
fn asan(image: &Image) -> Vec<Reason> {
    match image.soname() {
        Some(name) if !name.is_empty() && !name.starts_with("linux-") => {
            vec![Reason::Soname(name.to_owned())]
        }
        _ => Vec::new(),
    }
}

/// gdb reads the image from memory as if it were a file: what lies behind the mapped bytes, or has
/// no section, is not there.
fn gdb(image: &Image) -> Vec<Reason> {
    let (start, size) = image.header.section_table;
    let mapped = (image.bytes().len() as u64).next_multiple_of(4096);
    if start == 0 || image.sections().is_empty() || start.saturating_add(size) > mapped {
        return vec![Reason::NoSectionHeaders];
    }
    let present = |name: &str| {
        let mut sections = image.sections().iter();
        sections.any(|section| section.name == name && section.size != 0)
    };
    let needed = [
        (".dynsym or .symtab", present(".dynsym") || present(".symtab")),
        (".text", present(".text")),
        (".eh_frame", present(".eh_frame")),
    ];
    let lacking = needed.into_iter().filter(|(_, is_present)| !is_present);
    lacking.map(|(name, _)| Reason::NoSection(name)).collect()
}
