//! Merges the unwind tables of the shim and of the kernel's image behind it. Pure.
//!
//! An unwinder asks the loader for the image at an address, and gets ours for both, because our segment spans both. The
//! table (`.eh_frame_hdr`) of our image must therefore contain the kernel's functions. Its entries for them point at
//! the kernel's own `.eh_frame`, which lies at a fixed distance.
//!
//! # References
//!
//! Linux Standard Base Core, 10.6.2 "The `.eh_frame_hdr` section"

use object::LittleEndian as LE;
use object::elf::{FileHeader64, PT_GNU_EH_FRAME, PT_LOAD, ProgramHeader64};
use object::pod;

/// Version 1; pointer to the frames relative to itself; a count of 4 bytes; a table relative to the header.
const HEADER: [u8; 4] = [1, 0x1b, 0x03, 0x3b];

/// The unwind table of an image.
struct Table {
    /// Address in the image.
    at: i64,
    /// Bytes available for the table.
    room: usize,
    /// Address of `.eh_frame` in the image.
    frames: i64,
    /// Addresses of functions and of their frame descriptions, in the image.
    entries: Vec<(i64, i64)>,
}

/// The shim with a table that also contains the kernel's functions, which lie `kernel_at` behind its base, and with a
/// segment that spans both. `None` if our table has another format or there is no room. Unwinding then ends in the
/// kernel's functions, as it does if the kernel's image has no table of this format.
pub(crate) fn with_kernel_functions(ours: &[u8], kernel: &[u8], kernel_at: u64) -> Option<Vec<u8>> {
    let own = read(ours)?;
    // Some arm64 kernels have no table. The segment spans their code all the same: Go uses it to recognise that a
    // signal has arrived in the vDSO, where Go's own register may hold another value.
    let theirs = read(kernel).map_or_else(Vec::new, |table| table.entries);
    let distance = i64::try_from(kernel_at).ok()?;
    let mut table = HEADER.to_vec();
    table.extend(i32::try_from(own.frames - (own.at + 4)).ok()?.to_le_bytes());
    let count = u32::try_from(own.entries.len() + theirs.len()).ok()?;
    table.extend(count.to_le_bytes());
    let moved = theirs.iter().map(|(code, frame)| (code + distance, frame + distance));
    for (code, frame) in own.entries.iter().copied().chain(moved) {
        for address in [code, frame] {
            table.extend(i32::try_from(address - own.at).ok()?.to_le_bytes());
        }
    }
    let at = usize::try_from(own.at).ok()?;
    let mut image = ours.to_vec();
    image
        .get_mut(at..at + table.len())
        .filter(|_| table.len() <= own.room)?
        .copy_from_slice(&table);
    span(&mut image, kernel_at + kernel.len() as u64)?;
    Some(image)
}

/// Makes the single segment span all memory up to `end`, and the whole image in the file: the C library accepts one
/// segment only, and gdb needs the section headers inside it.
fn span(image: &mut [u8], end: u64) -> Option<()> {
    let load = segments(image)?.iter().position(|s| s.p_type.get(LE) == PT_LOAD)?;
    let from = segments_at(image)? + load * size_of::<ProgramHeader64<LE>>();
    let in_file = std::mem::offset_of!(ProgramHeader64<LE>, p_filesz);
    let in_memory = std::mem::offset_of!(ProgramHeader64<LE>, p_memsz);
    for (field, size) in [(in_file, image.len() as u64), (in_memory, end)] {
        image.get_mut(from + field..from + field + 8)?.copy_from_slice(&size.to_le_bytes());
    }
    Some(())
}

fn segments_at(image: &[u8]) -> Option<usize> {
    let (header, _) = pod::from_bytes::<FileHeader64<LE>>(image).ok()?;
    usize::try_from(header.e_phoff.get(LE)).ok()
}

/// The program headers of an image.
pub(crate) fn segments(image: &[u8]) -> Option<&[ProgramHeader64<LE>]> {
    let (header, _) = pod::from_bytes::<FileHeader64<LE>>(image).ok()?;
    let bytes = image.get(segments_at(image)?..)?;
    pod::slice_from_bytes(bytes, header.e_phnum.get(LE).into()).ok().map(|(segments, _)| segments)
}

/// Reads the table of an image with addresses that equal its offsets.
fn read(image: &[u8]) -> Option<Table> {
    let is_table = |segment: &&ProgramHeader64<LE>| segment.p_type.get(LE) == PT_GNU_EH_FRAME;
    let segment = segments(image)?.iter().find(is_table)?;
    let start = usize::try_from(segment.p_offset.get(LE)).ok()?;
    let bytes = image.get(start..)?;
    if bytes.get(..4)? != HEADER {
        return None;
    }
    let word = |at: usize| -> Option<i32> {
        Some(i32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
    };
    let at = i64::try_from(start).ok()?;
    let count = usize::try_from(word(8)?).ok()?;
    let entry = |index: usize| -> Option<(i64, i64)> {
        let from = index.checked_mul(8)?.checked_add(12)?;
        Some((at + i64::from(word(from)?), at + i64::from(word(from + 4)?)))
    };
    let entries = (0..count).map(entry).collect::<Option<Vec<_>>>()?;
    let room = usize::try_from(segment.p_filesz.get(LE)).ok()?;
    Some(Table { at, room, frames: at + 4 + i64::from(word(4)?), entries })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KERNEL: &[u8] = include_bytes!("../../../fixtures/vdso/x86_64-6.18.so");
    const OURS: &[u8] = super::super::image::BUILT;

    #[test]
    fn the_merged_table_has_all_functions_in_order() {
        let merged = with_kernel_functions(OURS, KERNEL, 0x50000).unwrap();
        let (own, theirs) = (read(OURS).unwrap(), read(KERNEL).unwrap());
        let table = read(&merged).unwrap();
        assert_eq!(table.frames, own.frames);
        assert_eq!(table.entries[..own.entries.len()], own.entries);
        let moved: Vec<_> =
            theirs.entries.iter().map(|(code, frame)| (code + 0x50000, frame + 0x50000)).collect();
        assert_eq!(table.entries[own.entries.len()..], moved);
        assert!(table.entries.is_sorted());
        assert!(!theirs.entries.is_empty());
    }

    proptest! {
        #[test]
        fn damaged_images_never_panic(at in 0_usize..4096, value: u8) {
            let mut damaged = KERNEL.to_vec();
            if let Some(byte) = damaged.get_mut(at) {
                *byte = value;
            }
            let _ = with_kernel_functions(OURS, &damaged, 0x50000);
            let _ = with_kernel_functions(&damaged, KERNEL, 0x50000);
        }
    }
}
