//! Why the vDSO calls of a process are not counted.

use std::fmt;

/// Why a process keeps the kernel's image.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decline {
    /// A 32-bit program has another image and other registers.
    Not64Bit,
    /// The kernel gave no image (`vdso=0`), or the vector is not where it should be.
    NoVdso,
    /// No room behind the kernel's image for the launch code.
    NoRoom,
    /// A seccomp filter was on before the program started and might kill it for our system calls.
    Seccomp,
    /// The program has more privileges than this process and would lose them when traced.
    Privileged,
    /// Tracing is forbidden here.
    NotTraceable,
    /// Its address space is limited to so many bytes, which it may need to the last.
    AddressSpace(u64),
    /// Its stack has no room for the image before the first instruction.
    Stack,
    /// The kernel refused shared memory.
    NoSharedMemory(std::io::ErrorKind),
    /// The process could not be looked at or changed.
    Access(std::io::ErrorKind),
    /// It is in another IPC namespace, which the tracer may not enter, or not leave again.
    Namespace,
    /// The process could not map the image or attach the shared pages: a limit on its memory, or memory that was
    /// written may not be executed.
    NotAttached,
    /// A later step of the installation failed with this error number.
    Install(i32),
}

impl fmt::Display for Decline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Not64Bit => f.write_str("it is a 32-bit program"),
            Self::NoVdso => f.write_str("the kernel gave it no vDSO"),
            Self::NoRoom => f.write_str("there is no room in the kernel's vDSO for the launch code"),
            Self::Seccomp => f.write_str("a seccomp filter was on before it started"),
            Self::Privileged => f.write_str(
                "it is setuid, setgid or has file capabilities, which it would lose when traced; run clockscope as root",
            ),
            Self::NotTraceable => f.write_str("ptrace is not allowed here"),
            Self::AddressSpace(bytes) => {
                write!(f, "its address space is limited to {} KiB (ulimit -v)", bytes / 1024)
            }
            Self::Stack => f.write_str("its stack is limited to less than 64 KiB (ulimit -s)"),
            Self::NoSharedMemory(kind) => {
                write!(f, "no shared memory: {kind}; see `ipcs -l` for the limits")
            }
            Self::Access(kind) => write!(f, "it could not be changed at its start: {kind}"),
            Self::Namespace => f.write_str(
                "it is in another IPC namespace (container), which clockscope enters with CAP_SYS_ADMIN; run clockscope as root on \
                 the host, or inside",
            ),
            Self::NotAttached => f.write_str(
                "it could not map the image or attach the shared pages (a limit on its memory, or PR_SET_MDWE)",
            ),
            Self::Install(errno) => {
                write!(f, "the installation failed: {}", std::io::Error::from_raw_os_error(*errno))
            }
        }
    }
}
