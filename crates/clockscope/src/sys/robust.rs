//! A word that says "the tracer lives" and that the kernel changes when it dies, however it dies.
//!
//! The kernel walks the robust list of a thread that exits, even by SIGKILL, and sets bit 30
//! (`FUTEX_OWNER_DIED`) in every futex on it that holds the thread's id. The word lies in a page
//! that every tracee sees read-only.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering::Release};

#[repr(C)]
struct ListHead {
    next: *const ListNode,
    futex_offset: libc::c_long,
    pending: *const ListNode,
}

#[repr(C)]
struct ListNode {
    next: *const ListHead,
}

/// Puts this thread's id into `word` and on the thread's robust list; both the word and the list
/// stay for the life of the process.
///
/// The C library's own list of this thread, for robust mutexes, is replaced: this program has none.
///
/// # Errors
///
/// Where the kernel has no futexes.
///
/// # References
///
/// `set_robust_list(2)`, `Documentation/locking/robust-futex-ABI.rst` (Linux 6.18)
pub fn announce(word: &'static AtomicU32) -> io::Result<()> {
    let head = Box::leak(Box::new(ListHead {
        next: std::ptr::null(),
        futex_offset: 0,
        pending: std::ptr::null(),
    }));
    let node = Box::leak(Box::new(ListNode { next: head }));
    let distance = word.as_ptr().addr().wrapping_sub(std::ptr::from_ref(node).addr());
    head.futex_offset =
        libc::c_long::try_from(distance.cast_signed()).map_err(|_| io::ErrorKind::Other)?;
    head.next = node;
    // SAFETY: takes no arguments.
    let thread = unsafe { libc::gettid() };
    word.store(thread.cast_unsigned(), Release);
    // SAFETY: head and node live for ever and have the layout that the kernel reads.
    let result = unsafe {
        libc::syscall(libc::SYS_set_robust_list, std::ptr::from_ref(head), size_of::<ListHead>())
    };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
