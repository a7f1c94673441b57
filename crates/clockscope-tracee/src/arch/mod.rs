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

#[cfg_attr(target_arch = "aarch64", path = "aarch64/mod.rs")]
#[cfg_attr(target_arch = "x86_64", path = "x86_64/mod.rs")]
mod this;

pub use this::{AUDIT_ARCH, lacks};
pub(crate) use this::{attach, counter_read, near_jump, set_stub_thread, stub_thread, tasks};
