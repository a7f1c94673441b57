//! What differs between architectures. Each has a folder, with the same names in both; nothing else in this
//! crate asks for the architecture.
//!
//! | name | what is in it |
//! |---|---|
//! | `attach` | counting in a process that is running already |
//! | `counter_read` | stepping over an instruction that reads the counter |
//! | `near_jump` | where a jump leads that was put over a system call |
//! | `lacks` | what is not there, and what to do instead |
//! | `tasks` | the system calls that make threads and processes |

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub use aarch64::{AUDIT_ARCH, lacks};
#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::{attach, counter_read, near_jump, tasks};
#[cfg(target_arch = "x86_64")]
pub use x86_64::{AUDIT_ARCH, lacks};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{attach, counter_read, near_jump, tasks};
