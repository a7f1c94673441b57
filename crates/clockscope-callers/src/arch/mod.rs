//! What differs between architectures. Each has a folder, with the same names in both; nothing else in this
//! crate asks for the architecture.
//!
//! | file | what is in it |
//! |---|---|
//! | `registers.rs` | the registers of a frame, by the numbers that DWARF has for them, and from a function's first instruction to its caller |
//! | `calls.rs` | calls before return addresses |
//! | `code.rs` | what an instruction does to the stack and to the registers that a function preserves |
//! | `signals.rs` | the frame of a signal |
//! | `go.rs` | the frames of Go |
//! | `lacks.rs` | what is not there, and why |

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::{calls, code, go, lacks, registers, signals};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{calls, code, go, lacks, registers, signals};
