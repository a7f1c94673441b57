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

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub use aarch64::perf;
#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::{counter, machine, raw_syscall, registers, step};
#[cfg(target_arch = "x86_64")]
pub use x86_64::perf;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{counter, machine, raw_syscall, registers, step};
