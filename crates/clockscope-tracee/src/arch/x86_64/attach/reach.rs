//! How far a jump reaches, and where a program's addresses end. Pure.

use vdso_reader::maps::Mapping;

/// A near jump reaches 2 GiB; what lies at the edge of the images is within the rest.
pub(crate) const REACH: u64 = (1 << 31) - (64 << 20);
/// The same, in words.
pub(crate) const WORDS: &str = "2 GiB";

/// Where a program's addresses end (`TASK_SIZE_MAX` in arch/x86/include/asm/page_64_types.h). With page
/// tables of five levels there are more, which the kernel gives nobody who does not ask for them.
pub(crate) fn end(_maps: &[Mapping], page: u64) -> u64 {
    (1 << 47) - page
}
