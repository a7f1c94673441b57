//! Calls of the kernel: the only place in the command with `unsafe`.
//!
//! Each file wraps one facility and gives out safe functions with `io::Result`.
#![allow(unsafe_code, reason = "system calls and shared memory; every block says why it is sound")]

pub mod access;
pub mod affinity;
pub mod bpf;
pub mod clock_loops;
pub mod clock_reads;
pub mod cpuid;
mod descriptor;
pub mod detach;
pub mod ending;
pub mod halt;
pub mod heap;
pub mod identity;
pub mod loaded_vdso;
pub mod loops;
pub mod memory;
pub mod open_files;
pub mod own_vdso;
pub mod page_file;
pub mod perf_clock;
pub mod perf_counters;
mod perf_event;
pub mod perf_rings;
pub mod perf_samples;
pub mod poll;
pub mod precedence;
pub mod privileges;
pub mod proc_text;
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
pub mod tsc_permission;
pub mod vdso_call;
pub mod vdso_functions;
pub mod wait;
pub mod work_memory;
pub mod write_execute;

/// The example of the README is tried.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
