//! What differs between architectures. Each has a folder, with the same names in both; nothing else in this
//! crate asks for the architecture.
//!
//! | file | what is in it |
//! |---|---|
//! | `registers.rs` | the registers of a stopped tracee |
//! | `raw_syscall.rs` | the instruction that enters the kernel |
//! | `counter.rs` | the counter: reading it, and loops around that |
//! | `perf.rs` | registers in the samples of perf |
//! | `step.rs` | a step that the kernel makes by itself |
//! | `machine.rs` | what the CPU says of itself and of its host; names of the vDSO |

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
