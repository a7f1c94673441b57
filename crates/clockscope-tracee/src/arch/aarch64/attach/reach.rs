//! How far a jump reaches, and where a program's addresses end. Pure.

use vdso_reader::maps::Mapping;

/// A branch reaches 128 MiB; what lies at the edge of the images is within the rest.
pub(crate) const REACH: u64 = (1 << 27) - (16 << 20);
/// The same, in words.
pub(crate) const WORDS: &str = "128 MiB";

/// Where a program's addresses end. It depends on how the kernel was built: on a power of two, below which it puts
/// the stack (`STACK_TOP` in arch/arm64/include/asm/processor.h, Linux 6.18).
pub(crate) fn end(maps: &[Mapping], page: u64) -> u64 {
    let last = maps.last().map_or(0, |mapping| mapping.end);
    last.next_power_of_two().saturating_sub(page)
}
