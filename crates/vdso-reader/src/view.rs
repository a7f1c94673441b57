//! Everything that `clockscope vdso` shows, as plain data: this is the JSON schema.

use serde::Serialize;

use super::accepts::{ReaderOutcome, ReaderVerdict};
use super::disassembly::Piece;
use super::maps::Mapping;
use super::{Class, Image, Note};
use clockscope_text::foreign::Foreign;

/// The version of the JSON; it grows when a key changes its meaning or goes.
pub const SCHEMA: u32 = 1;

/// What is known about an image and, if it lies in a process, about its place there.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct View {
    /// The version of the document: [`SCHEMA`].
    pub schema: u32,
    /// Where the image was found.
    pub source: ImageOrigin,
    /// The address of the image in the process, in hexadecimal.
    pub address: Option<Hex>,
    /// The address of the kernel's own image, `[vdso]`; another one than `address` if somebody gave
    /// the process another image.
    pub kernel_address: Option<Hex>,
    /// The bytes from the start of the image to the end of its mapping or file.
    pub size_bytes: u64,
    /// How many of these mean something; the rest of the last page is free.
    pub content_bytes: u64,
    /// The processor family, such as `x86-64`.
    pub machine: String,
    /// The width of addresses, 32 or 64.
    pub address_bits: u8,
    /// The name of the image (`DT_SONAME`).
    pub soname: Option<Foreign>,
    /// The kernel's version by its note in the image.
    pub linux_version: Option<String>,
    /// The build salt by its note in the image.
    pub build_salt: Option<Foreign>,
    /// The build id by its note in the image.
    pub build_id: Option<Foreign>,
    /// The versions that symbols can have.
    pub versions: Vec<Foreign>,
    /// The process's mappings that belong to the vDSO: `[vvar]`, `[vvar_vclock]`, `[vdso]`, and the
    /// one that holds the image.
    pub mappings: Vec<MappingView>,
    /// The program headers, in their order.
    pub segments: Vec<SegmentView>,
    /// The dynamic symbols by offset.
    pub symbols: Vec<SymbolView>,
    /// What each function costs now; absent if it was not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub costs: Option<Vec<CostView>>,
    /// Why it was not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub costs_decline: Option<String>,
    /// What each known reader makes of the image; only with `--check`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<Vec<VerdictView>>,
    /// The code; only with `--disassemble`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disassembly: Option<Vec<Piece>>,
}

/// Where an image was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum ImageOrigin {
    /// In clockscope's own process.
    Own {
        /// Its process id.
        pid: u32,
    },
    /// In another process, which runs or is stopped.
    Process {
        /// Its process id.
        pid: u32,
    },
    /// In a file, such as one that `--dump` wrote.
    File {
        /// The path, as it was given.
        path: Foreign,
    },
}

/// A number that is written in hexadecimal, because it is an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hex(pub u64);

/// A mapping of the process that belongs to the vDSO.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MappingView {
    /// Its name, for example `[vvar]`; empty if it has none.
    pub name: Foreign,
    /// The address of its first byte.
    pub start: Hex,
    /// The address behind its last byte.
    pub end: Hex,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Permissions as in `/proc/PID/maps`.
    pub perms: String,
}

/// A program header, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SegmentView {
    /// Its type without `PT_`.
    pub kind: String,
    /// Where its bytes start.
    pub offset: u64,
    /// The address it was linked for.
    pub vaddr: Hex,
    /// Its size in the file.
    pub file_bytes: u64,
    /// Its size in memory.
    pub memory_bytes: u64,
    /// Its permissions, such as `r-x`.
    pub flags: String,
}

/// A dynamic symbol, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SymbolView {
    /// The name, without its version.
    pub name: Foreign,
    /// Where it lies, in bytes from the start of the image; a plain number if `absolute`.
    pub offset: u64,
    /// Its size in bytes, as the image states it.
    pub size_bytes: u64,
    /// `FUNC`, `OBJECT`, `NOTYPE` or a number.
    pub kind: String,
    /// `GLOBAL`, `WEAK`, `LOCAL` or a number.
    pub binding: String,
    /// The version that it belongs to, such as `LINUX_2.6`.
    pub version: Option<Foreign>,
    /// Whether the image defines it.
    pub defined: bool,
    /// Whether its value is no place in the image.
    pub absolute: bool,
    /// Its address in the process: the image's plus the offset.
    pub address: Option<Hex>,
}

/// What a function costs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CostView {
    /// The function's name in C.
    pub function: String,
    /// The clock that it was asked for.
    pub clock: Option<String>,
    /// One call of the vDSO's function, in picoseconds: the minimum over short batches.
    pub vdso_ps: u64,
    /// The same by system call.
    pub syscall_ps: u64,
    /// How many times dearer the system call is.
    pub ratio: f64,
    /// `fast` if the function answers by itself, `syscall` if it makes the system call.
    pub path: &'static str,
}

/// What a reader makes of the image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VerdictView {
    /// The short name of the reader, such as `glibc`.
    pub reader: &'static str,
    /// What the reader is, in words.
    pub description: &'static str,
    /// `accepts`, `rejects` or `not judged`.
    pub outcome: &'static str,
    /// Why it rejects the image.
    pub reasons: Vec<Foreign>,
}

impl View {
    /// What is known about this image, which lies at `address` among `mappings` if in a process.
    #[must_use]
    pub fn new(
        image: &Image,
        source: ImageOrigin,
        address: Option<u64>,
        mappings: &[Mapping],
    ) -> Self {
        let mut symbols: Vec<SymbolView> =
            image.symbols().iter().map(|symbol| symbol_view(symbol, address)).collect();
        symbols.sort_by_key(|symbol| (symbol.absolute, symbol.offset, symbol.binding != "GLOBAL"));
        let versions = image.versions().iter().filter(|version| !version.base);
        Self {
            schema: SCHEMA,
            source,
            address: address.map(Hex),
            kernel_address: mappings
                .iter()
                .find(|mapping| mapping.name == "[vdso]")
                .map(|mapping| Hex(mapping.start)),
            size_bytes: image.bytes().len() as u64,
            content_bytes: image.content_end(),
            machine: image.machine().to_string(),
            address_bits: match image.class() {
                Class::Elf32 => 32,
                Class::Elf64 => 64,
            },
            soname: image.soname().map(Foreign::from),
            linux_version: image.notes().iter().find_map(|note| match note {
                Note::LinuxVersion(major, minor, patch) => Some(format!("{major}.{minor}.{patch}")),
                _ => None,
            }),
            build_salt: image.notes().iter().find_map(|note| match note {
                Note::BuildSalt(salt) if !salt.is_empty() => Some(salt.as_str().into()),
                _ => None,
            }),
            build_id: image.build_id().map(Foreign::from),
            versions: versions.map(|version| version.name.as_str().into()).collect(),
            mappings: mapping_views(mappings, address),
            segments: image.segments().iter().map(segment_view).collect(),
            symbols,
            costs: None,
            costs_decline: None,
            check: None,
            disassembly: None,
        }
    }
}

fn mapping_views(mappings: &[Mapping], address: Option<u64>) -> Vec<MappingView> {
    let belongs = |mapping: &&Mapping| {
        mapping.name.starts_with("[vvar")
            || mapping.name == "[vdso]"
            || address.is_some_and(|address| mapping.contains(address))
    };
    let view = |mapping: &Mapping| MappingView {
        name: mapping.name.as_str().into(),
        start: Hex(mapping.start),
        end: Hex(mapping.end),
        size_bytes: mapping.size(),
        perms: mapping.perms.clone(),
    };
    mappings.iter().filter(belongs).map(view).collect()
}

fn segment_view(segment: &super::Segment) -> SegmentView {
    let letter = |flag, letter| if segment.has_flags(flag) { letter } else { '-' };
    SegmentView {
        kind: segment.kind.to_string(),
        offset: segment.offset,
        vaddr: Hex(segment.vaddr),
        file_bytes: segment.file_size,
        memory_bytes: segment.mem_size,
        flags: [letter(4, 'r'), letter(2, 'w'), letter(1, 'x')].iter().collect(),
    }
}

fn symbol_view(symbol: &super::Symbol, address: Option<u64>) -> SymbolView {
    let in_image = symbol.defined && !symbol.absolute;
    SymbolView {
        name: symbol.name.as_str().into(),
        offset: symbol.offset,
        size_bytes: symbol.size,
        kind: symbol.kind.to_string(),
        binding: symbol.binding.to_string(),
        version: symbol.version.as_deref().map(Foreign::from),
        defined: symbol.defined,
        absolute: symbol.absolute,
        address: address.filter(|_| in_image).map(|base| Hex(base.wrapping_add(symbol.offset))),
    }
}

impl From<&ReaderVerdict> for VerdictView {
    fn from(verdict: &ReaderVerdict) -> Self {
        Self {
            reader: verdict.reader.name(),
            description: verdict.reader.describe(),
            outcome: match verdict.outcome {
                ReaderOutcome::Accepts => "accepts",
                ReaderOutcome::Rejects(_) => "rejects",
                ReaderOutcome::NotJudged => "not judged",
            },
            reasons: verdict.reasons().iter().map(|reason| reason.to_string().into()).collect(),
        }
    }
}

impl std::fmt::Display for Hex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&format!("{:#x}", self.0))
    }
}

impl Serialize for Hex {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image_tests::X86_64;
    use crate::maps;

    #[test]
    fn a_symbol_in_a_process_has_base_plus_offset() {
        let image = Image::parse(X86_64).unwrap();
        let source = ImageOrigin::Process { pid: 7 };
        let view = View::new(&image, source, Some(0x7fff_0000_0000), &[]);
        let find = |name: &str| view.symbols.iter().find(|symbol| symbol.name == name).unwrap();
        assert_eq!(find("__vdso_time").address, Some(Hex(0x7fff_0000_0ac0)));
        assert_eq!(find("LINUX_2.6").address, None);
        let file = View::new(&image, ImageOrigin::File { path: "x".into() }, None, &[]);
        assert!(file.symbols.iter().all(|symbol| symbol.address.is_none()));
    }

    #[test]
    fn only_mappings_of_the_vdso_are_kept() {
        let text = "1000-2000 r--p 0 00:00 0 [vvar]\n2000-3000 r--p 0 00:00 0 [vvar_vclock]\n\
                    3000-5000 r-xp 0 00:00 0 [vdso]\n6000-7000 r-xp 0 00:00 0 \n7000-8000 rw-p 0 00:00 0 [stack]";
        let image = Image::parse(X86_64).unwrap();
        let source = ImageOrigin::Process { pid: 7 };
        let view = View::new(&image, source, Some(0x6000), &maps::parse(text));
        let names: Vec<&str> =
            view.mappings.iter().map(|mapping| mapping.name.verbatim()).collect();
        assert_eq!(names, ["[vvar]", "[vvar_vclock]", "[vdso]", ""]);
        assert_eq!(view.kernel_address, Some(Hex(0x3000)));
    }
}
