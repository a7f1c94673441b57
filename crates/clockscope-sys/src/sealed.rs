//! A clock page in a memory file that only this process can write or truncate. The seals are on the file, so they hold
//! for every descriptor that another process opens.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;

use fastclock::page::{Page, SIZE};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::process::{Resource, getrlimit};
use vdso_image::layout::INSTALL_MARK;

use super::page_file::{Access, map_at};

const SEALS: SealFlags =
    SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::FUTURE_WRITE).union(SealFlags::SEAL);

/// The page, mapped for writing here only.
#[derive(Debug)]
pub struct SealedPage {
    /// The page, which other processes read while this one writes it.
    pub page: &'static Page,
    file: File,
    /// The inode number, by which other processes recognise the file.
    pub inode: u64,
}

impl SealedPage {
    /// Makes a zeroed page for the life of this process. The page lies in its file at [`INSTALL_MARK`], the offset that
    /// the image maps; the part before it takes no memory.
    ///
    /// # Errors
    ///
    /// `EINVAL` before Linux 5.1; `EFBIG` with a limit on the size of files (`ulimit -f`); those of
    /// `memfd_create(2)`.
    pub fn new() -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = File::from(memfd_create("clockscope-page", flags)?);
        let size = INSTALL_MARK + SIZE as u64;
        // Exceeding a limit on the size of files would otherwise raise a signal (`SIGXFSZ`).
        if getrlimit(Resource::Fsize).current.is_some_and(|limit| limit < size) {
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        }
        file.set_len(size)?;
        let inode = file.metadata()?.ino();
        let page = map_at(&file, INSTALL_MARK, Access::Write)?;
        fcntl_add_seals(&file, SEALS)?;
        Ok(Self { page, file, inode })
    }

    /// The file's descriptor in this process.
    pub fn descriptor(&self) -> i32 {
        self.file.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt as _;
    use std::sync::atomic::Ordering::{Acquire, Release};

    #[test]
    fn who_opens_the_file_sees_the_page_and_can_neither_write_nor_cut_it() {
        let sealed = SealedPage::new().unwrap();
        sealed.page.magic.store(7, Release);
        let path = format!("/proc/self/fd/{}", sealed.descriptor());
        let stranger = File::options().read(true).write(true).open(path).unwrap();
        assert_eq!(stranger.metadata().unwrap().ino(), sealed.inode);
        let refused = |result: io::Result<()>| {
            assert_eq!(result.unwrap_err().raw_os_error(), Some(libc::EPERM));
        };
        refused(stranger.write_all_at(&[9; 8], INSTALL_MARK));
        refused(stranger.set_len(0));
        refused(stranger.set_len(INSTALL_MARK + 2 * SIZE as u64));
        let map = |access| {
            // SAFETY: a new mapping at an address of the kernel's choice; its content is not used.
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
        assert_eq!(sealed.page.magic.load(Acquire), 7);
    }
}
