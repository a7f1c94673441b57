//! Code that differs between architectures. Each architecture has a folder, with the same names in both. No other code
//! in this crate depends on the architecture.
//!
//! | file | contents |
//! |---|---|
//! | `layout.rs` | sizes and names |
//! | `entry.rs` | the functions that programs call: count, then jump |
//! | `slots.rs` | reads the thread's key, and counts in the thread's slot |
//! | `sample.rs` | makes a call and times it |
//! | `routes.rs` | answers by system call |
//! | `counter.rs` | the functions of `--clock tsc` and `tsc-fast` |
//! | `syscall.rs` | the image's own system calls |
//! | `start.rs` | entry point of the installer, and the jump to the program |
//! | `stubs.rs` | the instructions that the tracer writes into a process to map the image |
//! | `slow_reads.rs` | the functions of `--clock slow` |
//! | `attach.rs` | entry point of the installer in a running process |

#[cfg_attr(target_arch = "aarch64", path = "aarch64/mod.rs")]
#[cfg_attr(target_arch = "x86_64", path = "x86_64/mod.rs")]
mod this;

pub(crate) use this::*;
