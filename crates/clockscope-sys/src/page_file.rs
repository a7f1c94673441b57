//! A clock page in a file: space for it, the mapping, and the lock of its writer.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;

use fastclock::page::{Page, SIZE};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

/// The protection of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read only; a store through it would end this process.
    Read,
    /// Reading and writing, by the keeper of the page.
    Write,
}

/// Reserves space in the file for a page. A full file system is then an error now instead of a `SIGBUS` at the first
/// store. The content of the file stays.
///
/// # Errors
///
/// `ENOSPC` if there is no space.
///
/// # References
///
/// - `posix_fallocate(3)`, which writes zeros where the file system knows no `fallocate(2)`
pub fn reserve(file: &File) -> io::Result<()> {
    let size = libc::off_t::try_from(SIZE).map_err(io::Error::other)?;
    // SAFETY: takes numbers; the descriptor is open.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, size) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Maps a page for the life of this process.
///
/// The file must have [`SIZE`] bytes and keep them. Truncating it ends the processes that use it by `SIGBUS`; only the
/// file's owner can do that.
///
/// # Errors
///
/// Those of `mmap(2)`; `InvalidData` if the file has another size.
pub fn map(file: &File, access: Access) -> io::Result<&'static Page> {
    if file.metadata()?.len() != SIZE as u64 {
        return Err(io::ErrorKind::InvalidData.into());
    }
    map_at(file, 0, access)
}

/// Maps the page that begins at `offset` of a file that is long enough, for the life of this process.
pub(super) fn map_at(file: &File, offset: u64, access: Access) -> io::Result<&'static Page> {
    let protection = match access {
        Access::Read => ProtFlags::READ,
        Access::Write => ProtFlags::READ | ProtFlags::WRITE,
    };
    let null = std::ptr::null_mut();
    // SAFETY: a new mapping at an address of the kernel's choice.
    let at = unsafe { rustix::mm::mmap(null, SIZE, protection, MapFlags::SHARED, file, offset)? };
    // SAFETY: mapped for ever, page-aligned and large enough; a page consists of atomics, which are valid with any
    // content that any process writes.
    Ok(unsafe { &*at.cast::<Page>() })
}

/// Locks a file for as long as it is open, here or in a forked child; false if it is already locked.
///
/// # Errors
///
/// Those of `flock(2)` except `EWOULDBLOCK`.
pub fn lock(file: &File) -> io::Result<bool> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Ok(false),
        result => Ok(result.map(|()| true)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn what_one_mapping_writes_another_reads() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page");
        let file = File::options().create_new(true).read(true).write(true).open(&path).unwrap();
        assert_eq!(map(&file, Access::Write).unwrap_err().kind(), io::ErrorKind::InvalidData);
        reserve(&file).unwrap();
        reserve(&file).unwrap();
        let writable = map(&file, Access::Write).unwrap();
        let readable = map(&File::open(&path).unwrap(), Access::Read).unwrap();
        writable.magic.store(7, Ordering::Release);
        assert_eq!(readable.magic.load(Ordering::Acquire), 7);
    }

    #[test]
    fn a_lock_is_for_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let open = || File::options().create(true).append(true).open(&path).unwrap();
        let (one, two) = (open(), open());
        assert!(lock(&one).unwrap());
        assert!(!lock(&two).unwrap());
        drop(one);
        // A child that another test forks in between has the file too, until it executes a program or ends.
        let begun = std::time::Instant::now();
        while !lock(&two).unwrap() {
            assert!(begun.elapsed().as_secs() < 60, "nobody else locks it");
            std::thread::yield_now();
        }
    }
}
