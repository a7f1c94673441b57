//! The architecture-dependent part. Each architecture has a folder with the same names; the rest of
//! this crate does not depend on the architecture.
//!
//! | file | content |
//! |---|---|
//! | `registers.rs` | the registers of a frame by their DWARF numbers, and the step from a function's first instruction to its caller |
//! | `calls.rs` | recognises calls before return addresses |
//! | `code.rs` | the effect of an instruction on the stack and on callee-saved registers |
//! | `signals.rs` | signal frames |
//! | `go.rs` | the frames of Go |
//! | `lacks.rs` | missing features, with the reason |

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(test)]
mod code_tests;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::{calls, code, go, lacks, registers, signals};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{calls, code, go, lacks, registers, signals};
