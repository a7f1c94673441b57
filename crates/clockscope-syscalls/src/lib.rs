//! Counting system calls: how often, how many failed, how long they took.
//!
//! [`bpf`] counts in the kernel, [`sampling`] samples what the CPUs of the host do; [`names`] and [`filter`] know system calls by name.

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

/// How finely calls are told apart, as `count.bpf.c` numbers them.
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

/// The example of the README is tried.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
