//! Why a running process cannot be attached to.

use std::fmt;

use crate::arch::attach::reach::WORDS;
use crate::decline::Decline;
use clockscope_text::foreign::Foreign;

/// Why not; each is a clause that says what is and what to try.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// There is no such process.
    Gone,
    /// It has ended meanwhile.
    Ended,
    /// It has ended, and nobody has waited for it.
    Zombie,
    /// It is a thread of the kernel.
    Kernel,
    /// It is this process.
    Own,
    /// It is traced by another process: name and id.
    Traced(Foreign, i32),
    /// It traces this process, or one that this one descends from.
    TracesOwn,
    /// The kernel does not allow it: the user of the process, and who asks.
    NotAllowed(u32, Asker),
    /// It cannot be counted, for a reason that programs have at their start too.
    Declined(Decline),
    /// A 32-bit program, or one of another architecture.
    Bits,
    /// Its image is not the one of this kernel.
    OtherImage,
    /// This other process, which is no thread of it, runs on its memory.
    SharesMemory(i32),
    /// A function was changed by somebody else.
    Changed(String),
    /// No room near the kernel's image.
    NoPlace,
    /// No function could be redirected, for this reason.
    NoFunction(String),
    /// A thread does not stop because it is in uninterruptible sleep.
    Uninterruptible(i32),
    /// Its control group is frozen: a paused container.
    Frozen,
    /// A thread waits for its vfork child to execute a program.
    Vfork(i32),
    /// Its system calls come back to it as signals.
    Dispatched,
    /// A filter does not let the system calls pass that are needed.
    Filtered(&'static str),
    /// It has seccomp filters that cannot be looked at, or may make a few system calls only.
    Filters,
    /// It has executed another program meanwhile.
    Executed,
    /// The code did not come to its end.
    Stuck,
    /// The kernel refused a step.
    Failed(&'static str, String),
}

/// Who asks for a process that may not be traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// The user of the process.
    Same,
    /// Another user.
    Another,
    /// Root, who may trace all but a few.
    Root,
}

/// The longer clauses.
const TRACES_OWN: &str = "it traces this clockscope or the shell that has started it, and two that trace each other hang; \
                 start clockscope from another terminal";
const FILTERS: &str = "it has a seccomp filter that may kill it for the system calls that map the counters; run \
                 clockscope as root, which can look at the filter, or start the program under clockscope";
const FROZEN: &str = "its control group is frozen (a paused container); resume it, as by `podman unpause` or \
                 `docker unpause`";

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone => f.write_str("there is no such process (any more); see `ps`"),
            Self::Ended => f.write_str("it ended while it was being attached to"),
            Self::Zombie => f.write_str("it has ended already; its parent has not waited for it"),
            Self::Kernel => f.write_str("it is a thread of the kernel, which reads no clock by the vDSO"),
            Self::Own => f.write_str("it is clockscope itself"),
            Self::Traced(name, pid) => write!(
                f,
                "it is traced by {name} ({pid}), and a process has one tracer; try again when that has ended"
            ),
            Self::TracesOwn => f.write_str(TRACES_OWN),
            Self::NotAllowed(user, Asker::Another) => {
                write!(f, "it belongs to user {user}; run clockscope as that user or as root")
            }
            Self::NotAllowed(_, Asker::Root) => f.write_str(
                "the kernel does not allow it even to root: the process has capabilities that clockscope lacks, or \
                 is in another user namespace (a container's first process often is), or a security module \
                 forbids it; run clockscope outside the container",
            ),
            Self::NotAllowed(_, Asker::Same) => f.write_str(
                "the kernel does not allow it (see /proc/sys/kernel/yama/ptrace_scope, and whether the program \
                 has more privileges than you, or a file that you may not read); run clockscope as root",
            ),
            Self::Declined(decline) => write!(f, "{decline}"),
            Self::Bits => f.write_str("it is a 32-bit program; only 64-bit ones are counted"),
            Self::OtherImage => f.write_str("its vDSO is not the one that this kernel gives to clockscope"),
            Self::SharesMemory(other) => write!(
                f,
                "process {other} runs on the same memory (clone with CLONE_VM) and would execute what is changed \
                 there; start the program under `clockscope trace`"
            ),
            Self::Changed(function) => write!(
                f,
                "its vDSO's {function} was changed by another tool; restart the program to be rid of that"
            ),
            Self::NoPlace => write!(f, "there is no free address space within {WORDS} of its vDSO"),
            Self::NoFunction(why) => write!(f, "no function of its vDSO can be redirected: {why}"),
            Self::Uninterruptible(thread) => write!(
                f,
                "its thread {thread} is in uninterruptible sleep (state D) and does not stop; try again when \
                 its input or output is done"
            ),
            Self::Frozen => f.write_str(FROZEN),
            Self::Vfork(thread) => write!(
                f,
                "its thread {thread} waits in vfork for a child that has not executed a program yet; try again"
            ),
            Self::Dispatched => f.write_str(
                "its system calls come back to it as signals (syscall user dispatch, as in Wine)",
            ),
            Self::Filtered(call) => write!(
                f,
                "a seccomp filter may not let {call} pass, which is needed to map the counters; \
                 start the program under clockscope instead"
            ),
            Self::Filters => f.write_str(FILTERS),
            Self::Executed => f.write_str("it executes one program after the other; try again"),
            Self::Stuck => f.write_str("it did not come to the end of what it was to do; try again"),
            Self::Failed(step, said) => write!(f, "{step}: {said}"),
        }
    }
}

impl std::error::Error for Refusal {}
