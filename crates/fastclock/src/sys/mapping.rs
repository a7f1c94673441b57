//! Pages in memory: a clock page, either anonymous or of a file, and beside it the state of this
//! process alone.

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicPtr, AtomicU32};
use std::alloc::{Layout, handle_alloc_error};
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::attach_error::AttachError;
use crate::decline::Decline;
use crate::page::{Page, SIZE};
use crate::pair::{OWN_AT, Pair};

const READ_WRITE: libc::c_int = libc::PROT_READ | libc::PROT_WRITE;

/// A [`Pair`] in memory of its own, unmapped with this value.
#[derive(Debug)]
pub(crate) struct Mapping {
    pair: NonNull<Pair>,
    open: AtomicPtr<Pair>,
}

// SAFETY: the pointers lead to atomics and are valid while this value lives.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps a [`Pair`] of zeroes, private to this process. Closed.
    ///
    /// Aborts if there is no memory, as every allocation does.
    pub(crate) fn anonymous() -> Self {
        let pair = map_anonymous(size_of::<Pair>()).cast::<Pair>();
        // SAFETY: the page at `OWN_AT` was mapped by the line above. If the kernel does not know
        // the advice, a forked child keeps its parent's values.
        unsafe {
            libc::madvise(pair.as_ptr().byte_add(OWN_AT).cast(), SIZE, libc::MADV_WIPEONFORK)
        };
        Self { pair, open: AtomicPtr::new(ptr::null_mut()) }
    }

    /// As [`of_file`](Self::of_file), for the file at this path.
    pub(crate) fn of_path(path: &Path) -> Result<Self, AttachError> {
        // A FIFO must not block the program.
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
        match OpenOptions::new().read(true).custom_flags(flags).open(path) {
            Ok(file) => Self::of_file(file.as_fd()),
            Err(error) => Err(AttachError { reason: Decline::PageUnreadable, source: Some(error) }),
        }
    }

    /// Maps the first page of a file, read-only, and a private page after it. Closed.
    pub(crate) fn of_file(fd: BorrowedFd<'_>) -> Result<Self, AttachError> {
        let unreadable = || AttachError {
            reason: Decline::PageUnreadable,
            source: Some(io::Error::last_os_error()),
        };
        let mut stat = core::mem::MaybeUninit::<libc::stat>::zeroed();
        // SAFETY: the kernel fills in the structure at the pointer.
        if unsafe { libc::fstat(fd.as_raw_fd(), stat.as_mut_ptr()) } != 0 {
            return Err(unreadable());
        }
        // SAFETY: zeroes are a valid value, and the kernel has filled the structure in.
        let stat = unsafe { stat.assume_init() };
        if stat.st_mode & libc::S_IFMT != libc::S_IFREG {
            return Err(Decline::PageForeign.into());
        }
        // Access to memory behind the end of a file raises SIGBUS.
        if !usize::try_from(stat.st_size).is_ok_and(|size| size >= SIZE) {
            return Err(Decline::PageTruncated.into());
        }
        let mapping = Self::anonymous();
        let flags = libc::MAP_SHARED | libc::MAP_FIXED;
        let (at, fd) = (mapping.pair.as_ptr().cast(), fd.as_raw_fd());
        // SAFETY: replaces the first page of the memory mapped above, to which no other code has a
        // reference yet. The kernel rounds the size up to a page of memory, which is at most
        // [`OWN_AT`] bytes. Writes to the file only change atomics.
        let mapped = unsafe { libc::mmap(at, SIZE, libc::PROT_READ, flags, fd, 0) };
        if mapped == libc::MAP_FAILED {
            return Err(unreadable());
        }
        Ok(mapping)
    }

    pub(crate) fn pair(&self) -> &Pair {
        // SAFETY: mapped until `self` is dropped; any content of it is a valid value. The first
        // page may be read-only: only its owner, a writer, writes to it.
        unsafe { self.pair.as_ref() }
    }

    /// The mapped pair, if clocks may be read from it now.
    #[inline(always)]
    pub(crate) fn opened(&self) -> Option<&Pair> {
        // SAFETY: null, or as above.
        unsafe { self.open.load(Relaxed).as_ref() }
    }

    /// Allows clocks to be read from the mapping.
    pub(crate) fn open(&self) {
        self.open.store(self.pair.as_ptr(), Relaxed);
    }

    /// Keeps every later reading away from the counter.
    pub(crate) fn close(&self) {
        self.open.store(ptr::null_mut(), Relaxed);
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this value mapped the memory, and no reference outlives the value.
        unsafe { libc::munmap(self.pair.as_ptr().cast(), size_of::<Pair>()) };
    }
}

/// A word that is zero in the beginning and in a forked child.
#[derive(Debug)]
pub(super) struct Wiped {
    word: NonNull<AtomicU32>,
}

// SAFETY: the pointer leads to an atomic and is valid while this value lives.
unsafe impl Send for Wiped {}
// SAFETY: as above.
unsafe impl Sync for Wiped {}

impl Wiped {
    pub(super) fn new() -> Self {
        let word = map_anonymous(SIZE).cast::<AtomicU32>();
        // SAFETY: the page was mapped by the line above.
        unsafe { libc::madvise(word.as_ptr().cast(), SIZE, libc::MADV_WIPEONFORK) };
        Self { word }
    }

    pub(super) fn word(&self) -> &AtomicU32 {
        // SAFETY: mapped until `self` is dropped; any content is a valid value.
        unsafe { self.word.as_ref() }
    }
}

impl Drop for Wiped {
    fn drop(&mut self) {
        // SAFETY: this value mapped the page, and no reference outlives the value.
        unsafe { libc::munmap(self.word.as_ptr().cast(), SIZE) };
    }
}

fn map_anonymous(size: usize) -> NonNull<libc::c_void> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: maps new memory at any address.
    let mapped = unsafe { libc::mmap(ptr::null_mut(), size, READ_WRITE, flags, -1, 0) };
    match NonNull::new(mapped) {
        Some(memory) if mapped != libc::MAP_FAILED => memory,
        _ => handle_alloc_error(Layout::new::<Page>()),
    }
}

/// Maps the first page of a file for writing, for the rest of the test.
#[cfg(test)]
pub(crate) fn writable(file: &std::fs::File) -> &'static Page {
    // SAFETY: maps new memory at any address, which stays mapped; any content is a valid value.
    unsafe {
        let fd = file.as_raw_fd();
        let mapped = libc::mmap(ptr::null_mut(), SIZE, READ_WRITE, libc::MAP_SHARED, fd, 0);
        assert_ne!(mapped, libc::MAP_FAILED, "{}", io::Error::last_os_error());
        &*mapped.cast::<Page>()
    }
}
