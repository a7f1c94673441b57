//! The seccomp filters of a process.

use std::io;

use clockscope_containers::filter::Instruction;
use clockscope_sys::ptrace;

pub use super::running_filters::of_running;
pub use crate::arch::AUDIT_ARCH;

/// All filters of a stopped thread, the last one that was set first.
///
/// # Errors
///
/// Those of [`ptrace::seccomp_filter`].
pub(crate) fn of(thread: i32) -> io::Result<Vec<Vec<Instruction>>> {
    let mut filters = Vec::new();
    while let Some(filter) = ptrace::seccomp_filter(thread, filters.len())? {
        filters.push(filter.into_iter().map(Instruction::parse).collect());
    }
    Ok(filters)
}
