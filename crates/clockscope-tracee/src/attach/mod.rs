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

use std::rc::Rc;
use std::time::Duration;

use vdso_image::layout::Shared;

pub use names::{command_name, thread_name, title};
pub use refusal::{Asker, Refusal};

pub use attaching::attach;
pub use detach::restore_all;
pub use patch::Patch;
pub use process::look;

pub(crate) use names::listed;

use crate::session::Session;
use crate::sites::{InProcess, Sites};
use clockscope_sys::ptrace::Resume;
use clockscope_sys::shm::Segment;
use clockscope_text::foreign::Foreign;

/// Room left below a stack for its growth, in bytes, if the gap is large enough. Stack limits are rarely higher
/// (`ulimit -s`), and a near jump reaches further.
pub(crate) const STACK_GROWS: u64 = 1 << 30;

/// A process that is being counted.
#[derive(Debug)]
pub struct Attached {
    /// Process id.
    pub pid: i32,
    /// Name of the program.
    pub command: Foreign,
    /// Threads, each with the address of its thread-local storage.
    pub threads: Vec<(i32, u64)>,
    /// The process's shared pages.
    pub pages: Rc<Segment<Shared>>,
    /// The redirected functions.
    pub patch: Rc<Patch>,
    /// The process's areas and jumps for counting system calls.
    pub sites: InProcess,
    /// Longest time that a thread was stopped, from the first stop to the last resumption.
    pub pause: Duration,
}

/// Parameters for attaching.
pub struct How<'a> {
    /// The image.
    pub session: &'a Session,
    /// The session's number for the process.
    pub number: u64,
    /// How the process's threads are resumed.
    pub resume: Resume,
    /// Called with process and address after the shim is mapped, before a call reaches it.
    pub mapped: &'a mut dyn FnMut(i32, u64),
    /// Whether `mapped` takes long: the threads then run meanwhile and are stopped a second time.
    pub mapped_takes_long: bool,
    /// Called with the process when all its threads are traced, before any of them is stopped.
    pub traced: &'a mut dyn FnMut(i32),
    /// How long the tracer waits for threads that are in a transfer.
    pub patience: Duration,
    /// Counts system calls in the process, if the session does.
    pub sites: &'a mut Sites,
}

/// Result of detaching from a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detached {
    /// Process id.
    pub pid: i32,
    /// Longest time that a thread was stopped.
    pub pause: Duration,
    /// The part of the process that could not be restored.
    pub remains: Option<Remains>,
}

/// A part of a living process that could not be restored. The message is a clause with the consequence and the remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Remains {
    /// The functions still go to the shim, because this thread does not stop.
    #[error(
        "its clock reads still go through clockscope's code, which answers them as before, because \
             thread {0} does not stop"
    )]
    Redirected(i32),
    /// System calls still go to the code that counts them, because this thread does not stop.
    #[error(
        "its system calls still go through clockscope's code, which makes them as before, because thread \
             {0} does not stop"
    )]
    Counting(i32),
    /// The pages of the counters are still shared with the tracer, which ends.
    #[error(
        "the memory that held its counts stays attached until it ends, which does no harm: no thread of \
             it could be made to let go of that"
    )]
    Shared,
}
