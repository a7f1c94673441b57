//! Counts in a process that is already running: maps the shim near the kernel's image, and makes the kernel's functions
//! begin with a jump to it. The parts that differ between architectures are in their folders (`arch/`).
//!
//! | file | contents |
//! |---|---|
//! | `attaching.rs` | the steps of attaching |
//! | `refusal.rs` | reasons why a process is not attached to |
//! | `process.rs` | checks a process before it is changed |
//! | `filters.rs` | reads its seccomp filters |
//! | `threads.rs` | traces, stops and resumes its threads |
//! | `transfers.rs` | system calls that a stop would cut short |
//! | `unlimited.rs` | system calls that a stop would end; pure |
//! | `names.rs` | names of processes and threads |
//! | `place.rs` | picks an address for the shim; pure |
//! | `injected.rs` | the instructions that map the shim; pure |
//! | `inject.rs` | makes a thread execute these instructions |
//! | `redirected.rs` | a kernel function that is redirected to the shim; pure |
//! | `stack_scan.rs` | where a sleeping thread continues, and return addresses of signal handlers |
//! | `patch.rs` | redirects all functions while all threads have stopped |
//! | `detach.rs` | restores the process |

mod attaching;
mod detach;
pub mod filters;
mod inject;
pub(crate) mod injected;
mod names;
mod patch;
mod place;
pub(crate) mod process;
pub(crate) mod redirected;
mod refusal;
pub(crate) mod stack_scan;
pub mod threads;
pub(crate) mod transfers;
pub(crate) mod unlimited;

pub use names::{command_name, thread_name, title};
pub use refusal::{Asker, Refusal};

pub use attaching::{Attached, How, attach};
pub use detach::{Detached, Remains, restore_all};
pub use patch::Patch;
pub use process::look;
