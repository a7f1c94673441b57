//! Loads an eBPF program that was compiled with clockscope: relocates it for the running kernel and makes its maps.

use std::collections::{HashMap, HashSet};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};

use aya_obj::btf::Btf;
use aya_obj::{EbpfSectionKind, Object};

use super::decline::BpfDecline;
use super::kernel_types::Types;
use clockscope_sys::bpf::maps::{Map, Shape};
use clockscope_sys::bpf::programs::{Program, Purpose};

/// The ELF parser needs aligned words.
#[cfg(have_bpf)]
#[repr(align(8))]
pub(crate) struct Aligned<T: ?Sized>(pub(crate) T);

/// A relocated program that the kernel has not verified yet.
pub(crate) struct Loaded {
    object: Object,
    /// The maps by name.
    pub(crate) maps: HashMap<String, Map>,
}

impl Loaded {
    /// Parses the object, relocates it for this kernel, sets its constants and makes its maps. Maps named in `entries`
    /// get that many entries.
    ///
    /// # Errors
    /// The reason, as a clause.
    pub(crate) fn load(
        bytes: &[u8],
        types: &Types<'_>,
        globals: &[(&str, &[u8])],
        entries: &[(&str, u32)],
    ) -> Result<Self, BpfDecline> {
        fn refused<E: std::error::Error + 'static>(error: E) -> BpfDecline {
            BpfDecline::from_error("load the eBPF program", &error)
        }
        let mut object = Object::parse(bytes).map_err(refused)?;
        let globals = globals.iter().map(|(name, value)| (*name, (*value, true)));
        object.patch_map_data(globals.collect()).map_err(refused)?;
        let own = object.btf.as_ref().map(Btf::to_bytes).unwrap_or_default();
        let own = Types::parse(&own).ok_or(BpfDecline::NotBuilt)?;
        let needed = types.reduced_to(&own).ok_or(BpfDecline::NoBtf)?;
        let needed = Btf::parse(&needed, object.endianness).map_err(refused)?;
        object.relocate_btf(&needed).map_err(refused)?;
        let maps = make_maps(&object, entries).map_err(refused)?;
        let text_sections: HashSet<usize> =
            object.functions.keys().map(|(section, _)| *section).collect();
        let described = std::mem::take(&mut object.maps);
        let numbers = maps.iter().filter_map(|(name, map)| {
            Some((name.as_str(), map.as_fd().as_raw_fd(), described.get(name)?))
        });
        object.relocate_maps(numbers, &text_sections).map_err(refused)?;
        object.relocate_calls(&text_sections).map_err(refused)?;
        Ok(Self { object, maps })
    }

    /// Has the kernel verify and compile a program of the object; `purpose` is `None` if this kernel has no such hook.
    ///
    /// # Errors
    /// The reason, as a clause.
    pub(crate) fn program(
        &self,
        name: &str,
        purpose: Option<Purpose>,
    ) -> Result<Program, BpfDecline> {
        let load = || {
            let missing = || io::Error::other("this kernel has no place for it");
            let program = self.object.programs.get(name).ok_or_else(missing)?;
            let function =
                self.object.functions.get(&program.function_key()).ok_or_else(missing)?;
            let license: &CStr = &program.license;
            Program::load(name, purpose.ok_or_else(missing)?, &function.instructions, license)
        };
        load().map_err(|error| BpfDecline::from_error(&format!("load `{name}`"), &error))
    }
}

/// Makes the maps, and stores the initial values of constants and variables.
fn make_maps(object: &Object, entries: &[(&str, u32)]) -> io::Result<HashMap<String, Map>> {
    let mut maps = HashMap::new();
    for (name, described) in &object.maps {
        let wanted = entries.iter().find(|(of, _)| of == name).map(|(_, entries)| *entries);
        let shape = Shape {
            kind: described.map_type(),
            key_bytes: described.key_size(),
            value_bytes: described.value_size(),
            entries: wanted.unwrap_or_else(|| described.max_entries()),
            flags: described.map_flags(),
        };
        let map = Map::new(name, &shape)?;
        if !described.data().is_empty() {
            map.set(&0_u32.to_ne_bytes(), described.data())?;
        }
        if described.section_kind() == EbpfSectionKind::Rodata {
            map.freeze()?;
        }
        maps.insert(name.clone(), map);
    }
    Ok(maps)
}

/// Calls `show` with the key and value of each entry of a map.
///
/// # Errors
/// The kernel's.
pub(crate) fn each_entry(map: &Map, mut show: impl FnMut(&[u8], &[u8])) -> io::Result<()> {
    let mut last: Option<Vec<u8>> = None;
    while let Some(key) = map.next_key(last.as_deref())? {
        if let Some(value) = map.get(&key)? {
            show(&key, &value);
        }
        last = Some(key);
    }
    Ok(())
}

/// A count in the map `notes`, summed over all CPUs.
pub(crate) fn note(notes: &Map, which: u32) -> io::Result<u64> {
    let note = notes.get(&which.to_ne_bytes())?;
    Ok(note.map_or(0, |note| words(&note).sum()))
}

/// The 64-bit words of a value.
pub(crate) fn words(value: &[u8]) -> impl Iterator<Item = u64> {
    value.as_chunks().0.iter().map(|bytes| u64::from_ne_bytes(*bytes))
}

/// The 32-bit words of a key.
pub(crate) fn numbers<const N: usize>(key: &[u8]) -> [u32; N] {
    let mut numbers = key.as_chunks().0.iter().map(|bytes| u32::from_ne_bytes(*bytes));
    std::array::from_fn(|_| numbers.next().unwrap_or(0))
}
