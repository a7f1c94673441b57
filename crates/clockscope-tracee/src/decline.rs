//! Reasons why the vDSO calls of a process are not counted.

use std::io;

use clockscope_sys::proc_text;

/// The reason why a process keeps the kernel's image.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Decline {
    /// A 32-bit program has another image and other registers.
    #[error("it is a 32-bit program")]
    Not64Bit,
    /// The kernel gave the process no image (`vdso=0`), or the auxiliary vector is not in its place.
    #[error("the kernel gave it no vDSO")]
    NoVdso,
    /// There is no room behind the kernel's image for the launch code.
    #[error("there is no room in the kernel's vDSO for the launch code")]
    NoRoom,
    /// A seccomp filter was installed before the program started, and might kill it for our system calls.
    #[error("a seccomp filter was on before it started")]
    Seccomp,
    /// The program has more privileges than this process and would lose them when traced.
    #[error(
        "it is setuid, setgid or has file capabilities, which it would lose when traced; run clockscope \
             as root"
    )]
    Privileged,
    /// The kernel does not allow tracing here.
    #[error("ptrace is not allowed here")]
    NotTraceable,
    /// The program's file is executable but not readable, so the kernel hides its memory from tracers without a
    /// capability.
    #[error(
        "you may execute its file but not read it, so the kernel keeps its memory from you, and gives it \
             no privileges if it is setuid; run clockscope as root"
    )]
    Unreadable,
    /// The program runs as another user or group, and the tracer may not read its memory.
    #[error(
        "it runs as another user or group, whose memory is read with CAP_SYS_PTRACE only; run clockscope \
             as that user, or with that capability (root has it, except in most containers)"
    )]
    OtherUser,
    /// The program's address space is limited to this many bytes, and the program may need all of them.
    #[error("its address space is limited to {} KiB (ulimit -v)", .0 / 1024)]
    AddressSpace(u64),
    /// Its stack has no room for the image before the first instruction.
    #[error("its stack is limited to less than 64 KiB (ulimit -s)")]
    Stack,
    /// The kernel refused shared memory.
    #[error("no shared memory: {0}; see `ipcs -l` for the limits")]
    NoSharedMemory(std::io::ErrorKind),
    /// The process could not be read or changed.
    #[error("it could not be changed at its start: {0}")]
    Access(std::io::ErrorKind),
    /// The process is in another IPC namespace, which the tracer may not enter, or may not leave again.
    #[error(
        "it is in another IPC namespace (container), which clockscope enters with CAP_SYS_ADMIN; run \
             clockscope as root on the host, or inside"
    )]
    Namespace,
    /// The process could not map the image or attach the shared pages: its memory is limited, or it may not execute
    /// written memory.
    #[error(
        "it could not map the image or attach the shared pages (a limit on its memory, or PR_SET_MDWE)"
    )]
    NotAttached,
    /// A later step of the installation failed with this error number.
    #[error("the installation failed: {}", std::io::Error::from_raw_os_error(*.0))]
    Install(i32),
}

impl Decline {
    pub(crate) fn access(error: io::Error) -> Self {
        Self::Access(error.kind())
    }

    /// The reason why the kernel hides the memory of a program that was just executed, from `/proc/PID/status` and the
    /// tracer's real user and group.
    ///
    /// # References
    ///
    /// `__ptrace_may_access` in kernel/ptrace.c and `would_dump` in fs/exec.c (Linux 6.18)
    pub(crate) fn of_kept_memory(status: &str, own: (u32, u32)) -> Self {
        let is_all = |name: &str, own: u32| {
            let ids = proc_text::field(status, name).unwrap_or_default();
            // Real, effective and saved id; the id for file access does not matter.
            ids.split_whitespace().take(3).all(|id| id.parse() == Ok(own))
        };
        if is_all("Uid:", own.0) && is_all("Gid:", own.1) {
            Self::Unreadable
        } else {
            Self::OtherUser
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_kept_because_of_the_user_the_group_or_else_the_file() {
        let status = "Name:\tdate\nUid:\t7\t7\t7\t0\nGid:\t8\t8\t8\t0\nCapEff:\t0\n";
        assert_eq!(Decline::of_kept_memory(status, (7, 8)), Decline::Unreadable);
        for other in [(6, 8), (7, 9), (0, 0)] {
            assert_eq!(Decline::of_kept_memory(status, other), Decline::OtherUser);
        }
        let saved = status.replace("7\t7\t7", "7\t7\t1");
        assert_eq!(Decline::of_kept_memory(&saved, (7, 8)), Decline::OtherUser);
    }
}
