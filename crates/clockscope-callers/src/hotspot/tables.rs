//! HotSpot's description of its own structures: every `libjvm.so` exports it for debuggers.
//!
//! # References
//!
//! `src/hotspot/share/runtime/vmStructs.cpp` and `vmStructs.hpp` (OpenJDK 11 to 25): arrays
//! `gHotSpotVMStructs` and `gHotSpotVMTypes`. Further symbols describe their entries. An entry
//! without a type's name ends each array.

use std::collections::HashMap;

use crate::memory::Memory;

/// Most entries of a table; OpenJDK 25 has 676.
const ENTRIES_MAX: u64 = 10_000;

/// The symbols of the tables; each is a variable of eight bytes.
pub(crate) const SYMBOLS: [&str; 11] = [
    "gHotSpotVMStructs",
    "gHotSpotVMStructEntryTypeNameOffset",
    "gHotSpotVMStructEntryFieldNameOffset",
    "gHotSpotVMStructEntryIsStaticOffset",
    "gHotSpotVMStructEntryOffsetOffset",
    "gHotSpotVMStructEntryAddressOffset",
    "gHotSpotVMStructEntryArrayStride",
    "gHotSpotVMTypes",
    "gHotSpotVMTypeEntryTypeNameOffset",
    "gHotSpotVMTypeEntrySizeOffset",
    "gHotSpotVMTypeEntryArrayStride",
];

type Field = (Vec<u8>, Vec<u8>);

/// Offsets of fields, addresses of static fields, and sizes of types.
#[derive(Default)]
pub(crate) struct Tables {
    offsets: HashMap<Field, u64>,
    statics: HashMap<Field, u64>,
    sizes: HashMap<Vec<u8>, u64>,
}

impl Tables {
    /// Reads the tables of a process; `symbols` are the addresses of [`SYMBOLS`] in it.
    pub(crate) fn read(memory: &Memory<'_>, symbols: &[u64; SYMBOLS.len()]) -> Option<Tables> {
        let mut values = [0; SYMBOLS.len()];
        for (value, symbol) in values.iter_mut().zip(symbols) {
            *value = memory.u64(*symbol)?;
        }
        let [fields, r#type, field, is_static, offset, address, stride, types, name, size, step] =
            values;
        let mut tables = Tables::default();
        for entry in entries(fields, stride) {
            let Some(of) = name_at(memory, entry.wrapping_add(r#type))? else { break };
            let key = (of, name_at(memory, entry.wrapping_add(field))?.unwrap_or_default());
            if memory.u32(entry.wrapping_add(is_static))? == 0 {
                tables.offsets.insert(key, memory.u64(entry.wrapping_add(offset))?);
            } else {
                tables.statics.insert(key, memory.u64(entry.wrapping_add(address))?);
            }
        }
        for entry in entries(types, step) {
            let Some(of) = name_at(memory, entry.wrapping_add(name))? else { break };
            tables.sizes.insert(of, memory.u64(entry.wrapping_add(size))?);
        }
        Some(tables)
    }

    /// Offset of a field in its type.
    pub(crate) fn offset(&self, of: &str, field: &str) -> Option<u64> {
        self.offsets.get(&(of.into(), field.into())).copied()
    }

    /// Address of a static field.
    pub(crate) fn address(&self, of: &str, field: &str) -> Option<u64> {
        self.statics.get(&(of.into(), field.into())).copied()
    }

    /// Size of a type in bytes.
    pub(crate) fn size(&self, of: &str) -> Option<u64> {
        self.sizes.get(of.as_bytes()).copied()
    }
}

fn entries(first: u64, stride: u64) -> impl Iterator<Item = u64> {
    (0..ENTRIES_MAX).map(move |index| first.wrapping_add(index.wrapping_mul(stride)))
}

/// The text at a pointer; `Some(None)` for a null pointer.
fn name_at(memory: &Memory<'_>, pointer: u64) -> Option<Option<Vec<u8>>> {
    match memory.u64(pointer)? {
        0 => Some(None),
        text => memory.text(text).map(Some),
    }
}
