//! The seccomp filters of a process that runs.

use super::process;
use crate::attach::Refusal;
use crate::attach::filters::of;
use crate::attach::threads::Threads;
use crate::attach::transfers::PATIENCE;
use clockscope_containers::filter::Instruction;
use clockscope_sys::ptrace::Resume;

/// The filters of the first thread of a process that runs, which is stopped for the moment that this takes.
///
/// # Errors
///
/// A [`Refusal`]: why it cannot be traced, or does not stop, or may not be looked at.
pub fn of_running(number: i32) -> Result<Vec<Vec<Instruction>>, Refusal> {
    let known = process::known(number)?;
    process::not_frozen(known.pid)?;
    let mut threads = Threads::seize(known.pid).map_err(|error| match error.raw_os_error() {
        Some(libc::ESRCH) => Refusal::Gone,
        _ => known.not_allowed(),
    })?;
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
