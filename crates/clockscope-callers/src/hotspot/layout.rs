//! Layout of HotSpot's code and methods in one process.
//!
//! # References
//!
//! OpenJDK 11, 17, 21 and 25: `share/memory/heap.hpp` (segment map), `share/code/codeBlob.hpp`,
//! `share/code/nmethod.hpp`, `share/oops/constMethod.hpp`

use super::tables::Tables;
use crate::memory::Memory;

/// A code heap: segments of `1 << log2_segment` bytes, and a map with one byte for each segment
/// that leads back to the first segment of its block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heap {
    pub(super) low: u64,
    pub(super) high: u64,
    pub(super) segments: u64,
    pub(super) log2_segment: u32,
}

/// Fields of a blob that lead to an address: a pointer to where bytes are counted from (without one, they are counted
/// from the blob), and their number (without it, none).
pub(super) type Link = (Option<u64>, Option<u64>);

/// Field with the name of a class's source file: the index of a constant.
#[derive(Clone, Copy, Debug)]
pub(super) enum SourceFile {
    OfConstants(u64),
    OfClass(u64),
}

/// Offsets are in bytes, from the start of the structure in the comment above them.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// Version of the JVM: 11, 17.
    pub(super) major: u32,
    pub(super) heaps: Vec<Heap>,
    /// Bytes between the start of a block and its blob.
    pub(super) block_header: u64,
    /// Return address inside the call stub (C++ to Java).
    pub(super) call_stub_return: u64,
    // CodeBlob
    pub(super) blob_name: u64,
    pub(super) frame_size: u64,
    pub(super) code_begin: Link,
    // nmethod
    pub(super) method: u64,
    pub(super) places: Link,
    pub(super) places_end: Link,
    pub(super) scopes: Link,
    pub(super) metadata: Link,
    /// Every instruction has the description that ends its stretch of code: the one at it, or the next behind it.
    pub(super) describes_all: bool,
    // Method
    pub(super) const_method: u64,
    // ConstMethod
    pub(super) constants: u64,
    pub(super) name_index: u64,
    pub(super) code_size: u64,
    pub(super) flags: u64,
    pub(super) const_method_size: u64,
    // ConstantPool
    pub(super) constants_size: u64,
    pub(super) holder: u64,
    pub(super) source_file: SourceFile,
    // Klass
    pub(super) class_name: u64,
    // Symbol
    pub(super) symbol_length: u64,
    pub(super) symbol_body: u64,
}

/// Most code heaps; HotSpot has at most five kinds.
const HEAPS_MAX: u32 = 16;
/// Most flags; OpenJDK 25 has some 1,500.
const FLAGS_MAX: u64 = 5_000;

impl Layout {
    /// `None` if a necessary entry is missing, as in another kind of JVM, or before a JVM has made
    /// its code heaps.
    pub(super) fn read(memory: &Memory<'_>, tables: &Tables) -> Option<Layout> {
        let field = |of: &str, name: &str| tables.offset(of, name);
        let value = |of: &str, name: &str| memory.u64(tables.address(of, name)?);
        // Places are records of four 32-bit words.
        (tables.size("PcDesc")? == 16).then_some(())?;
        let places = Some(field("nmethod", "_scopes_pcs_offset")?);
        let (places, places_end, scopes) = match field("CompiledMethod", "_scopes_data_begin") {
            // Behind the code (to 22).
            Some(data) => {
                let end = Some(field("nmethod", "_dependencies_offset")?);
                ((None, places), (None, end), (Some(data), None))
            }
            // In separate memory (from 23).
            None => {
                let data = Some(field("nmethod", "_immutable_data")?);
                let scopes = (data, Some(field("nmethod", "_scopes_data_offset")?));
                ((data, places), scopes, scopes)
            }
        };
        Some(Layout {
            major: memory.u32(tables.address("Abstract_VM_Version", "_vm_major_version")?)?,
            heaps: heaps(memory, tables)?,
            block_header: tables.size("HeapBlock")?,
            call_stub_return: value("StubRoutines", "_call_stub_return_address")?,
            blob_name: field("CodeBlob", "_name")?,
            frame_size: field("CodeBlob", "_frame_size")?,
            code_begin: match field("CodeBlob", "_code_begin") {
                Some(pointer) => (Some(pointer), None),
                // From 23.
                None => (None, Some(field("CodeBlob", "_code_offset")?)),
            },
            method: field("nmethod", "_method").or_else(|| field("CompiledMethod", "_method"))?,
            places,
            places_end,
            scopes,
            metadata: match field("CodeBlob", "_mutable_data") {
                // Behind the relocations (from 25).
                Some(data) => (Some(data), Some(field("CodeBlob", "_relocation_size")?)),
                None => (None, Some(field("nmethod", "_metadata_offset")?)),
            },
            describes_all: flag(memory, tables, b"DebugNonSafepoints").unwrap_or(false),
            const_method: field("Method", "_constMethod")?,
            constants: field("ConstMethod", "_constants")?,
            name_index: field("ConstMethod", "_name_index")?,
            code_size: field("ConstMethod", "_code_size")?,
            flags: field("ConstMethod", "_flags")
                .or_else(|| field("ConstMethod", "_flags._flags"))?,
            const_method_size: tables.size("ConstMethod")?,
            constants_size: tables.size("ConstantPool")?,
            holder: field("ConstantPool", "_pool_holder")?,
            source_file: match field("ConstantPool", "_source_file_name_index") {
                Some(index) => SourceFile::OfConstants(index),
                None => SourceFile::OfClass(field("InstanceKlass", "_source_file_name_index")?),
            },
            class_name: field("Klass", "_name")?,
            symbol_length: field("Symbol", "_length")?,
            symbol_body: field("Symbol", "_body")?,
        })
    }
}

/// Whether a flag of the command line is set; `None` if this JVM does not tell.
fn flag(memory: &Memory<'_>, tables: &Tables, wanted: &[u8]) -> Option<bool> {
    let first = memory.u64(tables.address("JVMFlag", "flags")?)?;
    let count = memory.u64(tables.address("JVMFlag", "numFlags")?)?.min(FLAGS_MAX);
    let (name, value) = (tables.offset("JVMFlag", "_name")?, tables.offset("JVMFlag", "_addr")?);
    let size = tables.size("JVMFlag")?;
    let pointer = |flag: u64, field: u64| memory.u64(flag.checked_add(field)?);
    let mut flags = (0..count).map_while(|index| first.checked_add(index.checked_mul(size)?));
    let flag = flags.find(|flag| {
        let name = pointer(*flag, name).and_then(|name| memory.text(name));
        name.is_some_and(|name| name == wanted)
    })?;
    Some(memory.u8(pointer(flag, value)?)? != 0)
}

fn heaps(memory: &Memory<'_>, tables: &Tables) -> Option<Vec<Heap>> {
    let list = memory.u64(tables.address("CodeCache", "_heaps")?)?;
    let length = tables
        .offset("GrowableArrayBase", "_len")
        .or_else(|| tables.offset("GenericGrowableArray", "_len"))?;
    let count = memory.u32(list.wrapping_add(length))?;
    let first = memory.u64(list.wrapping_add(tables.offset("GrowableArray<int>", "_data")?))?;
    let low = tables.offset("VirtualSpace", "_low")?;
    let high = tables.offset("VirtualSpace", "_high_boundary")?;
    let space = tables.offset("CodeHeap", "_memory")?;
    let segments = tables.offset("CodeHeap", "_segmap")?;
    let log2_segment = tables.offset("CodeHeap", "_log2_segment_size")?;
    let heap = |index: u32| {
        let heap = memory.u64(first.wrapping_add(8 * u64::from(index)))?;
        let space = heap.wrapping_add(space);
        Some(Heap {
            low: memory.u64(space.wrapping_add(low))?,
            high: memory.u64(space.wrapping_add(high))?,
            segments: memory.u64(heap.wrapping_add(segments).wrapping_add(low))?,
            log2_segment: memory
                .u32(heap.wrapping_add(log2_segment))
                .filter(|log2| (4..=16).contains(log2))?,
        })
    };
    (1..=HEAPS_MAX).contains(&count).then(|| (0..count).map(heap).collect())?
}
