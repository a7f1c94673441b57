//! Code that depends on the architecture. Each architecture has a folder with the same names in it; no other module of
//! this crate tests for the architecture.
//!
//! | file | content |
//! |---|---|
//! | `registers.rs` | the registers of a stopped tracee |
//! | `raw_syscall.rs` | the instruction that enters the kernel |
//! | `counter.rs` | the counter: instructions that read it, and loops around them |
//! | `perf.rs` | registers in the samples of perf |
//! | `step.rs` | single steps that the kernel makes by itself |
//! | `machine.rs` | CPUID, counter rate and hypervisor; names of the vDSO |

#[cfg_attr(target_arch = "aarch64", path = "aarch64/mod.rs")]
#[cfg_attr(target_arch = "x86_64", path = "x86_64/mod.rs")]
mod this;

pub use this::perf;
pub(crate) use this::{counter, machine, raw_syscall, registers, step};
