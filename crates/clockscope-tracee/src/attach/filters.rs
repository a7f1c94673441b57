//! Reads the seccomp filters of a process.

use std::io;

use super::process;
use super::transfers::PATIENCE;
use crate::attach::Refusal;
use clockscope_containers::filter::Instruction;
use clockscope_sys::ptrace::{self, Resume};

pub use crate::arch::AUDIT_ARCH;

/// All filters of a stopped thread, the most recent one first.
///
/// # Errors
///
/// As for [`ptrace::seccomp_filter`].
pub(crate) fn of(thread: i32) -> io::Result<Vec<Vec<Instruction>>> {
    let mut filters = Vec::new();
    while let Some(filter) = ptrace::seccomp_filter(thread, filters.len())? {
        filters.push(filter.into_iter().map(Instruction::parse).collect());
    }
    Ok(filters)
}

/// The filters of the first thread of a running process. The thread is stopped for a moment.
///
/// # Errors
///
/// A [`Refusal`] if the process cannot be traced, does not stop, or its filters may not be read.
pub fn of_running(number: i32) -> Result<Vec<Vec<Instruction>>, Refusal> {
    let known = process::known(number)?;
    process::not_frozen(known.pid)?;
    let mut threads = known.seize()?;
    threads.patience = PATIENCE;
    threads.let_transfers_end();
    let thread = threads.all().first().copied().unwrap_or(known.pid);
    let found = if threads.stop(thread) {
        of(thread).map_err(|error| match error.raw_os_error() {
            Some(libc::EACCES | libc::EPERM | libc::EINVAL) => Refusal::Filters,
            _ => Refusal::at("reading its seccomp filter")(error),
        })
    } else {
        Err(Refusal::Uninterruptible(thread))
    };
    threads.resume_all(Resume::Run);
    threads.release();
    found
}
