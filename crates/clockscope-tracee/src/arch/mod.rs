//! Code that differs between architectures. Each architecture has a folder, with the same names in both. No other code
//! in this crate depends on the architecture.
//!
//! | name | contents |
//! |---|---|
//! | `attach` | counts in a process that is already running |
//! | `counter_read` | steps over an instruction that reads the counter |
//! | `near_jump` | decodes the jump at a system call that is counted |
//! | `stub_thread`, `set_stub_thread` | registers of a thread that stands in code that counts |
//! | `lacks` | missing features, and alternatives to them |
//! | `tasks` | system calls that make threads and processes |

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub use aarch64::{AUDIT_ARCH, lacks};
#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::{attach, counter_read, near_jump, set_stub_thread, stub_thread, tasks};
#[cfg(target_arch = "x86_64")]
pub use x86_64::{AUDIT_ARCH, lacks};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{attach, counter_read, near_jump, set_stub_thread, stub_thread, tasks};
