//! Reach of a jump, and the end of a program's addresses. Pure.

use vdso_reader::maps::Mapping;

/// A branch reaches 128 MiB. The difference allows for the sizes of the images.
pub(crate) const REACH: u64 = (1 << 27) - (16 << 20);
/// The branch's reach, for messages.
pub(crate) const WORDS: &str = "128 MiB";

/// End of a program's addresses. It depends on the kernel's configuration: the kernel puts the stack below a power of
/// two (`STACK_TOP` in arch/arm64/include/asm/processor.h, Linux 6.18).
pub(crate) fn end(maps: &[Mapping], page: u64) -> u64 {
    let last = maps.last().map_or(0, |mapping| mapping.end);
    last.next_power_of_two().saturating_sub(page)
}
