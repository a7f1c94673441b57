//! The data that `clockscope vdso` shows; this is its JSON schema.

use serde::Serialize;

use super::maps::Mapping;
use super::{Binding, Hex, Image, Machine, Note, Symbol};
use clockscope_text::foreign::Foreign;

/// The version of the JSON document; incremented when a key is removed or changes its meaning.
pub const SCHEMA: u32 = 3;

/// The data of an image and, if it lies in a process, of its mapping there.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct View<'a> {
    /// The version of the document: [`SCHEMA`].
    pub schema: u32,
    /// The origin of the image.
    pub source: ImageOrigin,
    /// The address of the image in the process, in hexadecimal.
    pub address: Option<Hex>,
    /// The address of the kernel's own image, `[vdso]`; differs from `address` if another image was installed in the
    /// process.
    pub kernel_address: Option<Hex>,
    /// The bytes from the start of the image to the end of its mapping or file.
    pub size_bytes: u64,
    /// The processor family, such as `x86-64`.
    pub machine: Machine,
    /// The width of addresses, 32 or 64.
    pub address_bits: u8,
    /// The name of the image (`DT_SONAME`).
    pub soname: Option<&'a str>,
    /// The kernel's version by its note in the image.
    pub linux_version: Option<String>,
    /// The build id by its note in the image.
    pub build_id: Option<&'a str>,
    /// The versions that symbols can have.
    pub versions: Vec<&'a str>,
    /// The dynamic symbols by offset.
    pub symbols: Vec<PlacedSymbol<'a>>,
}

/// The origin of an image.
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

/// A dynamic symbol and its place in the process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlacedSymbol<'a> {
    /// The symbol.
    #[serde(flatten)]
    pub symbol: &'a Symbol,
    /// The symbol's address in the process: the image's address plus the offset.
    pub address: Option<Hex>,
}

impl<'a> View<'a> {
    /// The view of an image, which in a process lies at `address` among `mappings`.
    pub fn new(
        image: &'a Image,
        source: ImageOrigin,
        address: Option<u64>,
        mappings: &[Mapping],
    ) -> Self {
        let placed = |symbol: &'a Symbol| {
            let base = address.filter(|_| symbol.defined && !symbol.absolute);
            PlacedSymbol { symbol, address: base.map(|base| Hex(base.wrapping_add(symbol.offset))) }
        };
        let mut symbols: Vec<_> = image.symbols.iter().map(placed).collect();
        symbols.sort_by_key(|PlacedSymbol { symbol, .. }| {
            (symbol.absolute, symbol.offset, symbol.binding != Binding::Global)
        });
        let kernels = mappings.iter().find(|mapping| mapping.name == "[vdso]");
        let versions = image.versions.iter().filter(|version| !version.base);
        Self {
            schema: SCHEMA,
            source,
            address: address.map(Hex),
            kernel_address: kernels.map(|mapping| Hex(mapping.start)),
            size_bytes: image.bytes.len() as u64,
            machine: image.machine,
            address_bits: image.class as u8,
            soname: image.soname.as_deref(),
            linux_version: image.notes.iter().find_map(|note| match note {
                Note::LinuxVersion(major, minor, patch) => Some(format!("{major}.{minor}.{patch}")),
                Note::BuildId(_) => None,
            }),
            build_id: image.build_id(),
            versions: versions.map(|version| version.name.as_str()).collect(),
            symbols,
        }
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
        let find = |name: &str| view.symbols.iter().find(|one| one.symbol.name == name).unwrap();
        assert_eq!(find("__vdso_time").address, Some(Hex(0x7fff_0000_0ac0)));
        assert_eq!(find("LINUX_2.6").address, None);
        let file = View::new(&image, ImageOrigin::File { path: "x".into() }, None, &[]);
        assert!(file.symbols.iter().all(|symbol| symbol.address.is_none()));
    }

    #[test]
    fn the_kernels_own_image_is_known_beside_another() {
        let text = "3000-5000 r-xp 0 00:00 0 [vdso]\n6000-7000 r-xp 0 00:00 0 \n";
        let image = Image::parse(X86_64).unwrap();
        let source = ImageOrigin::Process { pid: 7 };
        let view = View::new(&image, source, Some(0x6000), &maps::parse(text));
        assert_eq!(view.kernel_address, Some(Hex(0x3000)));
    }
}
