//! System V shared memory: the one kind that another process can map with a single system call,
//! without a file descriptor, a path or a file system.
//!
//! Every segment is marked for removal as soon as it is attached here: it lives while somebody
//! has it attached and is gone when the last process is, however that ends.

use std::io;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// A segment attached for reading and writing, seen as a `T`.
///
/// `T` must be valid for every content, because other processes write to it: a struct of integers
/// and atomics. Only the types of `vdso_image::layout` and the clock page are used.
#[derive(Debug)]
pub struct Segment<T> {
    id: i32,
    at: NonNull<T>,
    content: PhantomData<T>,
}

/// Types that may be laid over shared memory.
///
/// # Safety
///
/// Every bit pattern is a valid value, and everything that another process changes is an atomic.
pub unsafe trait SharedContent {}

// SAFETY: integers and atomics only; the plain integers are constants or reserved.
unsafe impl SharedContent for vdso_image::layout::Shared {}
// SAFETY: bytes, integers and one atomic; written here only, before anybody else attaches it.
unsafe impl SharedContent for vdso_image::layout::ImagePages {}

// SAFETY: atomics only.
unsafe impl SharedContent for fastclock::page::Page {}

impl<T: SharedContent> Segment<T> {
    /// Makes a segment of `size` bytes, zeroed, with these permissions (as of a file).
    ///
    /// # Errors
    ///
    /// `ENOSPC` or `ENOMEM` at the limits of `ipcs -l`; `ENOSYS` on a kernel without System V IPC.
    ///
    /// # Panics
    ///
    /// When `size` is too small for a `T`: a mistake in this program.
    pub fn new(size: usize, mode: i32) -> io::Result<Self> {
        assert!(size >= size_of::<T>());
        // SAFETY: takes numbers only.
        let id = unsafe { libc::shmget(libc::IPC_PRIVATE, size, libc::IPC_CREAT | mode) };
        if id == -1 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: attaches at an address of the kernel's choice.
        let at = unsafe { libc::shmat(id, std::ptr::null(), 0) };
        let error = io::Error::last_os_error();
        // SAFETY: takes no pointer for this command.
        unsafe { libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()) };
        if at.addr() == usize::MAX {
            return Err(error);
        }
        let at = NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { id, at, content: PhantomData })
    }

    /// The number by which another process attaches it.
    #[must_use]
    pub fn id(&self) -> i32 {
        self.id
    }

    /// The content.
    #[must_use]
    pub fn get(&self) -> &T {
        // SAFETY: attached until `self` is dropped, at least `size_of::<T>()` bytes, page-aligned;
        // `SharedContent` says that any content is valid.
        unsafe { self.at.as_ref() }
    }

    /// Copies bytes into the segment; for content that no other process reads yet.
    ///
    /// # Panics
    ///
    /// When the bytes do not fit into a `T`: a mistake in this program.
    pub fn write_bytes(&mut self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= size_of::<T>());
        // SAFETY: the range lies inside the segment, which `bytes` cannot overlap.
        unsafe {
            let target = self.at.cast::<u8>().add(offset);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), target.as_ptr(), bytes.len());
        }
    }

    /// Gives the segment to a user, who alone may attach it then.
    ///
    /// # Errors
    ///
    /// `EPERM` when this process may not.
    pub fn give_to(&self, uid: u32, gid: u32, mode: u16) -> io::Result<()> {
        // SAFETY: all-zero is a value of this plain struct, of which the kernel reads three fields.
        let mut data: libc::shmid_ds = unsafe { std::mem::zeroed() };
        data.shm_perm.uid = uid;
        data.shm_perm.gid = gid;
        data.shm_perm.mode = mode;
        // SAFETY: the pointer is to a local of the right type.
        let result = unsafe { libc::shmctl(self.id, libc::IPC_SET, &raw mut data) };
        if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

impl<T> Drop for Segment<T> {
    fn drop(&mut self) {
        // SAFETY: `at` came from `shmat` and nothing borrows from `self` any more.
        unsafe { libc::shmdt(self.at.as_ptr().cast()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    struct Word(AtomicU64);
    // SAFETY: one atomic.
    unsafe impl SharedContent for Word {}

    #[test]
    fn a_segment_starts_zeroed_and_is_writable() {
        let mut segment = Segment::<Word>::new(4096, 0o600).unwrap();
        assert_eq!(segment.get().0.load(Relaxed), 0);
        segment.write_bytes(0, &7_u64.to_ne_bytes());
        assert_eq!(segment.get().0.load(Relaxed), 7);
    }
}
