//! A word that says "the tracer lives" and that the kernel changes when it dies, however it dies.
//!
//! The kernel walks the robust list of a thread that exits, even by SIGKILL, and sets bit 30
//! (`FUTEX_OWNER_DIED`) in every futex on it that holds the thread's id. The word lies in a page
//! that every tracee sees read-only.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Release};

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
    let list = list(word.as_ptr().addr())?;
    word.store(thread_id(), Release);
    set(list)
}

/// Puts the upper half of `head` on this thread's robust list, for life as with [`announce`], and
/// gives the thread's id; the caller stores that id in the upper half, and zero before the thread
/// ends in peace.
///
/// # Errors
///
/// As [`announce`].
pub fn announce_upper_half(head: &'static AtomicU64) -> io::Result<u32> {
    let offset = if cfg!(target_endian = "little") { size_of::<u32>() } else { 0 };
    // The kernel finds another number than this thread's id there until the caller stores it, and
    // leaves it alone. When it does write, this thread, the only writer, has ended.
    set(list(head.as_ptr().addr() + offset)?)?;
    Ok(thread_id())
}

/// A robust list with the futex at this address, which must be one for ever.
fn list(futex: usize) -> io::Result<&'static ListHead> {
    let head = Box::leak(Box::new(ListHead {
        next: std::ptr::null(),
        futex_offset: 0,
        pending: std::ptr::null(),
    }));
    let node = Box::leak(Box::new(ListNode { next: head }));
    let distance = futex.wrapping_sub(std::ptr::from_ref(node).addr());
    head.futex_offset =
        libc::c_long::try_from(distance.cast_signed()).map_err(|_| io::ErrorKind::Other)?;
    head.next = node;
    Ok(head)
}

/// The calling thread's id.
fn thread_id() -> u32 {
    // SAFETY: takes no arguments.
    unsafe { libc::gettid() }.cast_unsigned()
}

/// Makes this the robust list of the calling thread.
fn set(head: &'static ListHead) -> io::Result<()> {
    // SAFETY: head and node live for ever and have the layout that the kernel reads.
    let result = unsafe {
        libc::syscall(libc::SYS_set_robust_list, std::ptr::from_ref(head), size_of::<ListHead>())
    };
    super::check(result).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Acquire;

    /// See `FUTEX_OWNER_DIED` in include/uapi/linux/futex.h (Linux 6.18).
    const DIED: u64 = 1 << 62;

    fn head_after_a_thread(goes_in_peace: bool) -> (u64, u64) {
        let head: &AtomicU64 = Box::leak(Box::new(AtomicU64::new(7)));
        let thread = std::thread::spawn(move || {
            let own = u64::from(announce_upper_half(head).unwrap());
            head.store(own << 32 | 8, Release);
            if goes_in_peace {
                head.store(9, Release);
            }
            own
        });
        (thread.join().unwrap(), head.load(Acquire))
    }

    #[test]
    fn the_kernel_marks_the_upper_half_of_an_owner_that_died() {
        let (own, head) = head_after_a_thread(false);
        // Nobody waits, so that the kernel leaves the id in place.
        assert_eq!((head & DIED, head & 0xffff_ffff), (DIED, 8), "{own:x} {head:x}");
        assert_eq!(head_after_a_thread(true).1, 9);
    }
}
