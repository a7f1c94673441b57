//! Why a running process cannot be attached to.

use std::io;

use crate::arch::attach::reach::WORDS;
use crate::decline::Decline;
use clockscope_text::foreign::Foreign;

/// The reason; each message is a clause that describes the situation and suggests a remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// There is no such process.
    #[error("there is no such process (any more); see `ps`")]
    Gone,
    /// The process has ended meanwhile.
    #[error("it ended while it was being attached to")]
    Ended,
    /// The process is a zombie: its parent has not waited for it.
    #[error("it has ended already; its parent has not waited for it")]
    Zombie,
    /// The process is a kernel thread.
    #[error("it is a thread of the kernel, which reads no clock by the vDSO")]
    Kernel,
    /// The process is this process.
    #[error("it is clockscope itself")]
    Own,
    /// Another process traces it: name and id.
    #[error(
        "it is traced by {0} ({1}), and a process has one tracer; try again when that has ended"
    )]
    Traced(Foreign, i32),
    /// The process traces this process or an ancestor of it.
    #[error(
        "it traces this clockscope or the shell that has started it, and two that trace each other hang; \
             start clockscope from another terminal"
    )]
    TracesOwn,
    /// The kernel does not allow tracing it: the process's user, and the asker.
    #[error("{}", .1.clause(*.0))]
    NotAllowed(u32, Asker),
    /// The process cannot be counted, for a reason that applies to launched programs as well.
    #[error("{0}")]
    Declined(Decline),
    /// A 32-bit program, or one of another architecture.
    #[error("it is a 32-bit program; only 64-bit ones are counted")]
    Bits,
    /// The process's vDSO image differs from that of this kernel.
    #[error("its vDSO is not the one that this kernel gives to clockscope")]
    OtherImage,
    /// Another process, with this id, shares the process's memory.
    #[error(
        "process {0} runs on the same memory (clone with CLONE_VM) and would execute what is changed \
             there; start the program under `clockscope trace`"
    )]
    SharesMemory(i32),
    /// Another tool has changed this function.
    #[error("its vDSO's {0} was changed by another tool; restart the program to be rid of that")]
    Changed(String),
    /// No room near the kernel's image.
    #[error("there is no free address space within {words} of its vDSO", words = WORDS)]
    NoPlace,
    /// No function could be redirected; with the first reason.
    #[error("no function of its vDSO can be redirected: {0}")]
    NoFunction(String),
    /// This thread does not stop because it is in uninterruptible sleep.
    #[error(
        "its thread {0} is in uninterruptible sleep (state D) and does not stop; try again when its \
             input or output is done"
    )]
    Uninterruptible(i32),
    /// The process's control group is frozen: a paused container.
    #[error(
        "its control group is frozen (a paused container); resume it, as by `podman unpause` or `docker \
             unpause`"
    )]
    Frozen,
    /// This thread waits for its vfork child to execute a program.
    #[error(
        "its thread {0} waits in vfork for a child that has not executed a program yet; try again"
    )]
    Vfork(i32),
    /// The process's system calls are dispatched to it as signals.
    #[error("its system calls come back to it as signals (syscall user dispatch, as in Wine)")]
    Dispatched,
    /// A seccomp filter does not allow this system call, which is needed.
    #[error(
        "a seccomp filter may not let {0} pass, which is needed to map the counters; start the program \
             under clockscope instead"
    )]
    Filtered(&'static str),
    /// The process has seccomp filters that cannot be read, or is in strict mode.
    #[error(
        "it has a seccomp filter that may kill it for the system calls that map the counters; run \
             clockscope as root, which can look at the filter, or start the program under clockscope"
    )]
    Filters,
    /// The process has executed another program meanwhile.
    #[error("it executes one program after the other; try again")]
    Executed,
    /// The injected code did not reach its end.
    #[error("it did not come to the end of what it was to do; try again")]
    Stuck,
    /// The kernel refused a step: the step and the error.
    #[error("{0}: {1}")]
    Failed(&'static str, String),
}

impl Refusal {
    /// Makes a refusal of the kernel's error in a step.
    pub(super) fn at(step: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| match error.raw_os_error() {
            Some(libc::ESRCH | libc::ECHILD) => Self::Gone,
            _ => Self::Failed(step, said(&error)),
        }
    }
}

/// The kernel's error message, in lower case and without the number.
fn said(error: &io::Error) -> String {
    let words = error.to_string();
    words.split(" (os error").next().unwrap_or(&words).to_lowercase()
}

/// The kind of user that asks for a process that may not be traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// The user of the process.
    Same,
    /// Another user.
    Another,
    /// Root, which may trace nearly all processes.
    Root,
}

impl Asker {
    fn clause(self, user: u32) -> String {
        match self {
            Self::Another => {
                format!("it belongs to user {user}; run clockscope as that user or as root")
            }
            Self::Root => "the kernel does not allow it even to root: the process has capabilities that clockscope \
                           lacks, or is in another user namespace (a container's first process often is), or a \
                           security module forbids it; run clockscope outside the container"
                .to_owned(),
            Self::Same => "the kernel does not allow it (see /proc/sys/kernel/yama/ptrace_scope, and whether the \
                           program has more privileges than you, or a file that you may not read); run clockscope \
                           as root"
                .to_owned(),
        }
    }
}
