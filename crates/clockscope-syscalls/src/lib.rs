//! Counting system calls: number, errors and durations.
//!
//! [`bpf`] counts in the kernel, [`sampling`] samples all CPUs of the host, [`names`] and [`filter`] map names to
//! system calls.

mod arch;
pub mod bpf;
mod calibrate;
mod classes;
mod decline;
pub mod filter;
mod kernel_types;
mod loader;
pub mod names;
pub mod ptrace;
pub mod sampling;
mod tally;

pub use calibrate::ProbeCost;
pub use decline::BpfDecline;
pub use tally::{Abi, SyscallTally};

/// How calls are broken down, numbered as in `count.bpf.c`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Breakdown {
    /// By system call only: one table for the whole tree.
    #[default]
    Total,
    /// By process and system call.
    Process,
    /// By thread and system call.
    Thread,
}

/// Tests the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
