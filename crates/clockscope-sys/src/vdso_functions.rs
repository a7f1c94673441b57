//! Where the functions of the vDSO lie that a program of this process would call: those of the image
//! that `AT_SYSINFO_EHDR` names, which under another clockscope is not the kernel's.

use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

use object::{Object as _, ObjectSymbol as _};
use vdso_reader::maps::{self, Mapping};

use super::proc_text;
use super::vdso_call::{self, Call};

/// The functions that the image exports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Functions {
    /// Where the image lies in this process.
    pub range: Range<u64>,
    /// Name of the symbol and its address in this process.
    addresses: Vec<(String, usize)>,
}

/// Why there are no functions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoFunctions {
    /// The kernel gave this process no vDSO.
    #[error("this process has no vDSO (no AT_SYSINFO_EHDR; the kernel was started with vdso=0?)")]
    NoImage,
    /// There is one but it could not be read.
    #[error("this process's vDSO cannot be read: {0}")]
    Unreadable(String),
}

impl Functions {
    /// Those of this process's own image.
    ///
    /// # Errors
    ///
    /// When there is no image, or none that can be read.
    pub fn own() -> Result<Self, NoFunctions> {
        let base = vdso_call::own_base().ok_or(NoFunctions::NoImage)?;
        let unreadable = |why: &dyn fmt::Display| NoFunctions::Unreadable(why.to_string());
        let maps = proc_text::read("/proc/self/maps").map_err(|error| unreadable(&error))?;
        let end = end_of(&maps, base).ok_or_else(|| unreadable(&"it is not mapped"))?;
        let mut image = vec![0; usize::try_from(end - base).map_err(|error| unreadable(&error))?];
        File::open("/proc/self/mem")
            .and_then(|memory| memory.read_exact_at(&mut image, base))
            .map_err(|error| unreadable(&error))?;
        let file = object::File::parse(&image[..]).map_err(|error| unreadable(&error))?;
        let address = |symbol: object::Symbol<'_, '_>| {
            let offset = symbol.address().checked_sub(file.relative_address_base())?;
            let inside = symbol.is_definition() && offset < end - base;
            let at = usize::try_from(base.checked_add(offset)?).ok()?;
            inside.then_some((symbol.name().ok()?.to_owned(), at))
        };
        Ok(Self {
            range: base..end,
            addresses: file.dynamic_symbols().filter_map(address).collect(),
        })
    }

    /// The address of the function for this call; `None` if the image does not export it.
    pub(super) fn address(&self, call: Call) -> Option<usize> {
        let wanted = call.symbol();
        self.addresses.iter().find(|(name, _)| *name == wanted).map(|(_, address)| *address)
    }
}

/// Where the mapping that begins at `base`, with those that follow it without a gap, ends; pure.
///
/// An image may consist of more than one mapping; those of other files do not belong to it.
fn end_of(maps: &str, base: u64) -> Option<u64> {
    let mut found: Option<(u64, String)> = None;
    for Mapping { start, end, name, .. } in maps::parse(maps) {
        found = match found {
            None if start == base => Some((end, name)),
            Some((until, of)) if start == until && name == of => Some((end, name)),
            None => None,
            Some(_) => break,
        };
    }
    found.map(|(end, _)| end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_functions_lie_in_the_image() {
        let functions = Functions::own().unwrap();
        for call in [Call::Gettimeofday, Call::ClockGetres] {
            assert!(functions.address(call).is_some(), "{call:?} in {functions:?}");
        }
    }

    #[test]
    fn an_image_ends_where_its_mappings_do() {
        let maps = "1000-2000 r--p 0 00:00 0 [vvar]\n\
                    2000-3000 r-xp 0 00:00 0 [vdso]\n\
                    3000-4000 r--p 0 00:00 0 [vdso]\n\
                    4000-5000 rw-p 0 00:00 0 [stack]\n";
        assert_eq!(end_of(maps, 0x2000), Some(0x4000));
        assert_eq!(end_of(maps, 0x4000), Some(0x5000));
        assert_eq!(end_of(maps, 0x2800), None);
        assert_eq!(end_of("", 0x2000), None);
    }

    #[test]
    fn no_image_is_said_in_words() {
        assert!(NoFunctions::NoImage.to_string().contains("no vDSO"));
    }
}
