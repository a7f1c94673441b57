//! System calls that make threads and processes, or set a thread's FS base.

/// System calls that make threads or processes; the last three are `fork`, `clone` and `vfork` of 32-bit programs.
pub(crate) const MAKING: &[i64] =
    &[libc::SYS_clone, libc::SYS_fork, libc::SYS_vfork, libc::SYS_clone3, 2, 120, 190];

/// System calls of 64-bit programs that may wait for a child to execute a program.
pub(crate) const WAITING_FOR_CHILD: &[i64] = &[libc::SYS_clone, libc::SYS_vfork, libc::SYS_clone3];

/// Whether threads with the same FS base must count with a lock: the image adds to a thread's own slot without one.
pub(crate) const SHARED_POINTER_NEEDS_LOCK: bool = true;

const ARCH_SET_FS: u64 = 0x1002;

/// The flags of a call that makes a process and has no flags argument.
pub(crate) fn implied_flags(number: i64) -> Option<u64> {
    match number {
        libc::SYS_fork => Some(0),
        libc::SYS_vfork => Some((libc::CLONE_VM | libc::CLONE_VFORK).unsigned_abs().into()),
        _ => None,
    }
}

/// Whether a system call sets its thread's FS base.
pub(crate) fn sets_thread_pointer(number: i64, arguments: &[u64; 6]) -> bool {
    number == libc::SYS_arch_prctl && arguments[0] == ARCH_SET_FS
}
