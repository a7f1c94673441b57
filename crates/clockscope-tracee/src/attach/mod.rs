//! Counting in a process that is running already: the shim is mapped near the kernel's, and the
//! kernel's functions begin with a jump to it. What of it differs between architectures is in their folders (`arch/`).
//!
//! | file | what is in it |
//! |---|---|
//! | `attaching.rs` | all steps of it |
//! | `refusal.rs` | why a process is left alone |
//! | `process.rs` | what is known of the process before it is touched |
//! | `filters.rs` | what its seccomp filters are |
//! | `threads.rs` | tracing, stopping and resuming its threads |
//! | `transfers.rs` | system calls that a stop would cut short |
//! | `unlimited.rs` | system calls that a stop would end; pure |
//! | `names.rs` | how it and its threads are called |
//! | `place.rs` | where the shim goes; pure |
//! | `injected.rs` | the instructions that map it; pure |
//! | `inject.rs` | making a thread execute them |
//! | `redirected.rs` | a function of the kernel that is sent to the shim; pure |
//! | `stack_scan.rs` | where a thread that sleeps goes on, and what signal handlers return to |
//! | `patch.rs` | redirecting all functions while all threads stand still |
//! | `detach.rs` | putting everything back |

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

/// What a stack may still grow, in bytes, where there is as much room below it. Hardly a limit for stacks is higher
/// (`ulimit -s`), and a near jump reaches further.
pub(crate) const STACK_GROWS: u64 = 1 << 30;

/// A process that is being counted.
#[derive(Debug)]
pub struct Attached {
    /// Process id.
    pub pid: i32,
    /// Name of the program.
    pub command: Foreign,
    /// Its threads, and where the local storage of each is.
    pub threads: Vec<(i32, u64)>,
    /// The pages that it counts in.
    pub pages: Rc<Segment<Shared>>,
    /// How its functions are redirected.
    pub patch: Rc<Patch>,
    /// Where its system calls are counted.
    pub sites: InProcess,
    /// How long a thread stood still at most, from the first stop to the last resumption.
    pub pause: Duration,
}

/// How to attach.
pub struct How<'a> {
    /// The image.
    pub session: &'a Session,
    /// The process, as a number of the session.
    pub number: u64,
    /// How its threads go on.
    pub resume: Resume,
    /// Told of process and address when the shim is mapped, before a call reaches it.
    pub mapped: &'a mut dyn FnMut(i32, u64),
    /// Whether that takes long: the threads go on meanwhile, and are stopped a second time.
    pub mapped_takes_long: bool,
    /// Told of the process when all its threads are traced, before any of them is stopped.
    pub traced: &'a mut dyn FnMut(i32),
    /// How long its threads that wait in a transfer are left alone.
    pub patience: Duration,
    /// Counts system calls in the process, if the session does.
    pub sites: &'a mut Sites,
}

/// How a process was let go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detached {
    /// Process id.
    pub pid: i32,
    /// How long a thread stood still at most.
    pub pause: Duration,
    /// What is not as it was.
    pub remains: Option<Remains>,
}

/// What could not be put back while a process lives; a clause that says what it means and what to do.
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
