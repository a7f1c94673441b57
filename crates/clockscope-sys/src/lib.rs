//! System calls and kernel interfaces: the only crate of the command with `unsafe`.
//!
//! Each file wraps one facility and exports safe functions with `io::Result`.
#![allow(unsafe_code, reason = "system calls and shared memory; every block says why it is sound")]

use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};

pub mod access;
pub mod affinity;
mod arch;
pub mod bpf;
pub mod clock_loops;
pub mod clock_reads;
pub mod cpu_samples;
pub mod detach;
pub mod ending;
pub mod halt;
pub mod identity;
pub mod ipc_namespace;
pub mod loaded_vdso;
pub mod loops;
pub mod memory;
pub mod own_library;
pub mod own_vdso;
pub mod page_file;
pub mod perf_clock;
pub mod perf_counters;
pub mod perf_rings;
pub mod perf_samples;
pub mod pidfd;
pub mod poll;
pub mod precedence;
pub mod privileges;
pub mod proc_text;
pub mod ptp;
pub mod ptrace;
mod raw_syscall;
pub mod real_time;
pub mod robust;
pub mod room;
pub mod sealed;
pub mod set_watch;
pub mod shm;
pub mod signals;
pub mod single_step;
pub mod spawn;
pub mod syscall_work;
pub mod system_calls;
pub mod terminal;
pub mod ticker;
pub mod timex;
pub mod tracefs;
pub mod tsc;
pub mod two_cpus;
pub mod vdso_call;
pub mod vdso_functions;
pub mod wait;
pub mod warp;
pub mod watched_pages;

/// The result of a C function, or `errno` if that is -1; must be called right after the function.
fn check<T: Copy + PartialEq + From<i8>>(returned: T) -> io::Result<T> {
    if returned == T::from(-1) { Err(io::Error::last_os_error()) } else { Ok(returned) }
}

/// The descriptor that `libc::syscall` has returned.
///
/// # Errors
///
/// That of the call, if it has failed; must be called right after it.
///
/// # Safety
///
/// A result that is not negative is a new descriptor that is not owned elsewhere.
unsafe fn descriptor(returned: libc::c_long) -> io::Result<OwnedFd> {
    let number = RawFd::try_from(check(returned)?).map_err(io::Error::other)?;
    // SAFETY: the descriptor is new and not owned elsewhere, as the caller guarantees.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Tests the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
