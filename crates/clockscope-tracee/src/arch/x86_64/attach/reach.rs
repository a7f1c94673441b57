//! Reach of a jump, and the end of a program's addresses. Pure.

use vdso_reader::maps::Mapping;

/// A near jump reaches 2 GiB. The difference allows for the sizes of the images.
pub(crate) const REACH: u64 = (1 << 31) - (64 << 20);
/// The jump's reach, for messages.
pub(crate) const WORDS: &str = "2 GiB";

/// End of a program's addresses (`TASK_SIZE_MAX` in arch/x86/include/asm/page_64_types.h). With five-level page tables
/// there are more addresses, which the kernel uses only for programs that ask for them.
pub(crate) fn end(_maps: &[Mapping], page: u64) -> u64 {
    (1 << 47) - page
}
