//! New threads and processes: the system calls that make them, and those that give a thread its local storage.

/// System calls that make threads or processes; the last three are `fork`, `clone` and `vfork` of 32-bit programs.
pub(crate) const MAKING: &[i64] = &[libc::SYS_clone, libc::SYS_clone3, 2, 120, 190];

/// System calls of 64-bit programs that may wait for a child to execute a program.
pub(crate) const WAITING_FOR_CHILD: &[i64] = &[libc::SYS_clone, libc::SYS_clone3];

/// Whether threads with one `TPIDR_EL0` have to count elsewhere: no, because the image always adds by an
/// atomic instruction. All threads of a Go program without cgo have a zero there.
pub(crate) const SHARED_POINTER_NEEDS_LOCK: bool = false;

/// The flags of a call that makes a process and takes none: there is no such call.
pub(crate) fn implied_flags(_number: i64) -> Option<u64> {
    None
}

/// Whether a system call gives its thread another `TPIDR_EL0`: programs write that register themselves.
pub(crate) fn sets_thread_pointer(_number: i64, _arguments: &[u64; 6]) -> bool {
    false
}
