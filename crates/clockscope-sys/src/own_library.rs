//! A library from which this process itself executes, as bytes without a copy.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::proc_text;

/// The bytes of the library's file.
#[derive(Debug)]
pub struct OwnLibrary {
    at: *const u8,
    size: usize,
}

impl OwnLibrary {
    /// Maps the library with this path and inode, and reads all of it into the page cache.
    ///
    /// # Errors
    ///
    /// Those of `open(2)` and `mmap(2)`; `NotFound` if this process executes nothing from that file.
    pub fn map(path: &Path, inode: u64) -> io::Result<Self> {
        let file = File::open(path)?;
        let about = file.metadata()?;
        // Such a line ends in the path, and names its inode before.
        let is_own = |line: &str| {
            let end = line.split_once(" r-xp ").map_or("", |(_, end)| end);
            end.ends_with(&*path.to_string_lossy())
                && end.split(' ').nth(2) == Some(&inode.to_string())
        };
        let maps = proc_text::read("/proc/self/maps")?;
        if about.ino() != inode || !maps.lines().any(is_own) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let size = usize::try_from(about.len()).map_err(io::Error::other)?;
        let (null, flags) = (std::ptr::null_mut(), MapFlags::PRIVATE | MapFlags::POPULATE);
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no other memory.
        let at = unsafe { mmap(null, size, ProtFlags::READ, flags, file.as_fd(), 0)? };
        Ok(Self { at: at.cast(), size })
    }
}

impl Deref for OwnLibrary {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: mapped and readable until the value is dropped, and of that size. The bytes change, or are cut off, only
        // with the code that this process executes: a program that writes into the file of a library in use ends all
        // processes that use it.
        unsafe { std::slice::from_raw_parts(self.at, self.size) }
    }
}

impl Drop for OwnLibrary {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and the slices of it have ended.
        let _ = unsafe { munmap(self.at.cast_mut().cast(), self.size) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn only_a_library_of_this_process_is_mapped_and_has_the_files_bytes() {
        let maps = proc_text::read("/proc/self/maps").unwrap();
        let library =
            maps.lines().find(|line| line.contains(" r-xp ") && line.contains("/libc.so."));
        if let Some((_, path)) = library.and_then(|line| line.split_once(" /")) {
            let path = PathBuf::from(format!("/{path}"));
            let inode = path.metadata().unwrap().ino();
            assert!(*OwnLibrary::map(&path, inode).unwrap() == std::fs::read(&path).unwrap());
            assert_eq!(refusal(&path, inode + 1), io::ErrorKind::NotFound);
        }
        let other = tempfile::NamedTempFile::new().unwrap();
        let inode = other.path().metadata().unwrap().ino();
        assert_eq!(refusal(other.path(), inode), io::ErrorKind::NotFound);
    }

    fn refusal(path: &Path, inode: u64) -> io::ErrorKind {
        OwnLibrary::map(path, inode).unwrap_err().kind()
    }
}
