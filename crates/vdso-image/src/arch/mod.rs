//! What differs between architectures. Each has a folder, with the same names in both; nothing else in this
//! crate asks for the architecture.
//!
//! | file | what is in it |
//! |---|---|
//! | `layout.rs` | sizes and names |
//! | `entry.rs` | the functions that programs call: count, then jump |
//! | `slots.rs` | the thread's key, and counting in its slot |
//! | `sample.rs` | making a call and timing it |
//! | `routes.rs` | answers by system call |
//! | `counter.rs` | the functions of `--clock counter` |
//! | `syscall.rs` | system calls of the image |
//! | `start.rs` | from the installer to the program |
//! | `stubs.rs` | the instructions that the tracer writes into a process to bring the image there |
//! | `slow_reads.rs` | answers that take long |
//! | `attach.rs` | in a program that is running already |

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::*;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;
