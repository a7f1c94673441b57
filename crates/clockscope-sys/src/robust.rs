//! A word that means "the tracer lives"; the kernel changes it when the tracer dies, in whatever way.
//!
//! The kernel walks the robust list of a thread that exits, even by SIGKILL, and sets bit 30
//! (`FUTEX_OWNER_DIED`) in every futex on it that holds the thread's id. The word lies in a page
//! that every tracee sees read-only.

use std::io;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::atomic::{AtomicU64, AtomicUsize};

/// `struct robust_list_head` of include/uapi/linux/futex.h (Linux 6.18). The kernel reads it when the thread ends.
#[derive(Debug)]
#[repr(C)]
struct ListHead {
    next: AtomicUsize,
    futex_offset: libc::c_long,
    pending: AtomicUsize,
}

/// `struct robust_list`: the address of the next one, or of the head.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct ListNode(AtomicUsize);

/// The robust list of a thread, for the life of the process.
#[derive(Debug)]
pub(crate) struct List(&'static ListHead);

impl List {
    /// An empty list, for futexes that lie `futex_offset` bytes behind their nodes.
    pub(crate) fn new(futex_offset: isize) -> io::Result<Self> {
        let futex_offset = libc::c_long::try_from(futex_offset).map_err(io::Error::other)?;
        let (next, pending) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let head: &'static ListHead = Box::leak(Box::new(ListHead { next, futex_offset, pending }));
        head.next.store(address(head), Release);
        Ok(Self(head))
    }

    /// Puts a node, and thereby its futex, on the list. The kernel may read the list at any moment.
    pub(crate) fn add(&self, node: &'static ListNode) {
        node.0.store(self.0.next.load(Acquire), Release);
        self.0.next.store(address(node), Release);
    }

    /// Makes this the robust list of the calling thread; gives the thread's id.
    ///
    /// Replaces the C library's list of this thread, which serves robust mutexes: this program has none.
    ///
    /// # Errors
    ///
    /// If the kernel has no futexes.
    ///
    /// # References
    ///
    /// `set_robust_list(2)`, `Documentation/locking/robust-futex-ABI.rst` (Linux 6.18)
    pub(crate) fn set(&self) -> io::Result<u32> {
        // SAFETY: head and nodes live for ever and have the layout that the kernel reads.
        let result = unsafe {
            libc::syscall(libc::SYS_set_robust_list, address(self.0), size_of::<ListHead>())
        };
        super::check(result)?;
        // SAFETY: takes no arguments.
        Ok(unsafe { libc::gettid() }.cast_unsigned())
    }
}

fn address<T>(of: &'static T) -> usize {
    std::ptr::from_ref(of).expose_provenance()
}

/// Puts the upper half of `head` on this thread's robust list, for the life of the process, and gives the thread's id.
/// The caller stores that id in the upper half, and zero before the thread ends normally.
///
/// # Errors
///
/// If the kernel has no futexes.
pub fn announce_upper_half(head: &'static AtomicU64) -> io::Result<u32> {
    let offset = if cfg!(target_endian = "little") { size_of::<u32>() } else { 0 };
    let node: &'static ListNode = Box::leak(Box::new(ListNode(AtomicUsize::new(0))));
    let futex = head.as_ptr().addr() + offset;
    let list = List::new(futex.wrapping_sub(address(node)).cast_signed())?;
    list.add(node);
    // Until the caller stores this thread's id, the kernel finds another number in the word and leaves it alone. When
    // the kernel does write, this thread, the only writer, has ended.
    list.set()
}

#[cfg(test)]
mod tests {
    use super::*;

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
        // No thread waits on the futex, so the kernel leaves the id in place.
        assert_eq!((head & DIED, head & 0xffff_ffff), (DIED, 8), "{own:x} {head:x}");
        assert_eq!(head_after_a_thread(true).1, 9);
    }
}
