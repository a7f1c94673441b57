//! The kernel's description of its own types, in BTF.

use std::fs::File;
use std::io::{self, Read as _};
use std::ops::Deref;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

const PATH: &str = "/sys/kernel/btf/vmlinux";

/// The bytes of the description, about 5 MB.
#[derive(Debug)]
pub struct KernelTypes(Bytes);

#[derive(Debug)]
enum Bytes {
    /// The kernel's own memory.
    Lent(*mut std::ffi::c_void, usize),
    Read(Vec<u8>),
}

impl KernelTypes {
    /// The description of the running kernel. Since Linux 6.16 the file can be mapped; before, it is read page by page,
    /// which takes 2 ms.
    ///
    /// # Errors
    ///
    /// `NotFound` if the kernel was built without BTF.
    pub fn of_this_kernel() -> io::Result<Self> {
        let mut file = File::open(PATH)?;
        let size = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        let null = std::ptr::null_mut();
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no other memory.
        let at = unsafe { mmap(null, size, ProtFlags::READ, MapFlags::PRIVATE, &file, 0) };
        if let Ok(at) = at {
            return Ok(Self(Bytes::Lent(at, size)));
        }
        let mut bytes = Vec::with_capacity(size + 1);
        file.read_to_end(&mut bytes)?;
        Ok(Self(Bytes::Read(bytes)))
    }
}

impl Deref for KernelTypes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            // SAFETY: mapped until `self` is dropped, readable, and of that size; the kernel keeps these bytes
            // in memory that never changes.
            Bytes::Lent(at, size) => unsafe { std::slice::from_raw_parts(at.cast(), *size) },
            Bytes::Read(bytes) => bytes,
        }
    }
}

impl Drop for KernelTypes {
    fn drop(&mut self) {
        if let Bytes::Lent(at, size) = self.0 {
            // SAFETY: the mapping is our own, and nothing borrows from `self` any more.
            let _ = unsafe { munmap(at, size) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lent_and_read_they_are_the_same() {
        match KernelTypes::of_this_kernel() {
            Ok(types) => assert!(*types == std::fs::read(PATH).unwrap()),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::NotFound),
        }
    }
}
