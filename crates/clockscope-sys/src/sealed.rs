//! A clock page in a memory file that nobody but this process can write or cut, whoever opens it:
//! the seals are on the file, not on a descriptor.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::os::unix::fs::MetadataExt as _;

use fastclock::page::{Page, SIZE};
use vdso_image::layout::INSTALL_MARK;

use super::room;

const NAME: &CStr = c"clockscope-page";
const SEALS: libc::c_int =
    libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_FUTURE_WRITE | libc::F_SEAL_SEAL;

/// The page, mapped for writing here only.
#[derive(Debug)]
pub struct SealedPage {
    page: &'static Page,
    file: File,
    inode: u64,
}

impl SealedPage {
    /// Makes one, zeroed, for the life of this process. It lies in its file at [`INSTALL_MARK`], because
    /// that is where the image maps from; what is before it takes no memory.
    ///
    /// # Errors
    ///
    /// `EINVAL` before Linux 5.1; `EFBIG` with a limit on the size of files (`ulimit -f`); those of
    /// `memfd_create(2)`.
    pub fn new() -> io::Result<Self> {
        // SAFETY: the pointer is to a null-terminated string.
        let number = unsafe {
            libc::memfd_create(NAME.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING)
        };
        if number == -1 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor that nobody else has.
        let file = unsafe { File::from_raw_fd(number) };
        room_for(INSTALL_MARK + SIZE as u64)?;
        file.set_len(INSTALL_MARK + SIZE as u64)?;
        let inode = file.metadata()?.ino();
        let offset =
            libc::off_t::try_from(INSTALL_MARK).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let at = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let null = std::ptr::null_mut();
            libc::mmap(null, SIZE, access, libc::MAP_SHARED, file.as_raw_fd(), offset)
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: takes numbers.
        if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, SEALS) } == -1 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: mapped for ever, page-aligned, and of a file that cannot be cut any more; a page is
        // atomics, valid with any content.
        Ok(Self { page: unsafe { &*at.cast::<Page>() }, file, inode })
    }

    /// The page.
    #[must_use]
    pub fn page(&self) -> &'static Page {
        self.page
    }

    /// The file's descriptor in this process.
    #[must_use]
    pub fn descriptor(&self) -> i32 {
        self.file.as_raw_fd()
    }

    /// The number of its inode.
    #[must_use]
    pub fn inode(&self) -> u64 {
        self.inode
    }
}

/// An error where a limit on the size of files would otherwise be a signal (`SIGXFSZ`).
fn room_for(size: u64) -> io::Result<()> {
    if room::soft_limit(libc::RLIMIT_FSIZE).is_some_and(|limit| limit < size) {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt as _;
    use std::sync::atomic::Ordering::{Acquire, Release};

    #[test]
    fn who_opens_the_file_sees_the_page_and_can_neither_write_nor_cut_it() {
        let sealed = SealedPage::new().unwrap();
        sealed.page().magic.store(7, Release);
        let path = format!("/proc/self/fd/{}", sealed.descriptor());
        let stranger = File::options().read(true).write(true).open(path).unwrap();
        assert_eq!(stranger.metadata().unwrap().ino(), sealed.inode());
        let refused = |result: io::Result<()>| {
            assert_eq!(result.unwrap_err().raw_os_error(), Some(libc::EPERM));
        };
        refused(stranger.write_all_at(&[9; 8], INSTALL_MARK));
        refused(stranger.set_len(0));
        refused(stranger.set_len(INSTALL_MARK + 2 * SIZE as u64));
        let map = |access| {
            // SAFETY: a new mapping at an address of the kernel's choice, of which nothing is used.
            let at = unsafe {
                let null = std::ptr::null_mut();
                let offset = libc::off_t::try_from(INSTALL_MARK).unwrap();
                libc::mmap(null, SIZE, access, libc::MAP_SHARED, stranger.as_raw_fd(), offset)
            };
            if at == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
        };
        refused(map(libc::PROT_READ | libc::PROT_WRITE));
        map(libc::PROT_READ).unwrap();
        let mut magic = [0; 8];
        stranger.read_exact_at(&mut magic, INSTALL_MARK).unwrap();
        assert_eq!(u64::from_ne_bytes(magic), 7);
        assert_eq!(sealed.page().magic.load(Acquire), 7);
    }
}
