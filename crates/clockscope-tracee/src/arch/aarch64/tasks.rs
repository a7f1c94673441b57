//! System calls that make threads and processes, or set a thread's local storage.

/// System calls that make threads or processes; the last three are `fork`, `clone` and `vfork` of 32-bit programs.
pub(crate) const MAKING: &[i64] = &[libc::SYS_clone, libc::SYS_clone3, 2, 120, 190];

/// System calls of 64-bit programs that may wait for a child to execute a program.
pub(crate) const WAITING_FOR_CHILD: &[i64] = &[libc::SYS_clone, libc::SYS_clone3];

/// Whether threads with the same `TPIDR_EL0` must count with a lock in another slot: no, because the image always adds
/// atomically. All threads of a Go program without cgo have a zero there.
pub(crate) const SHARED_POINTER_NEEDS_LOCK: bool = false;

/// The flags of a call that makes a process and has no flags argument: there is no such call.
pub(crate) fn implied_flags(_number: i64) -> Option<u64> {
    None
}

/// Whether a system call sets its thread's `TPIDR_EL0`: never, because programs write that register themselves.
pub(crate) fn sets_thread_pointer(_number: i64, _arguments: &[u64; 6]) -> bool {
    false
}
