//! The kernel's description of its own types, in BTF.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read as _};

use rustix::mm::{MapFlags, ProtFlags, mmap};

const PATH: &str = "/sys/kernel/btf/vmlinux";

/// The description of the running kernel, about 5 MB. Since Linux 6.16 the file can be mapped; before, it is read page
/// by page, which takes 2 ms. The mapping is of the kernel's own memory and stays.
///
/// # Errors
///
/// `NotFound` if the kernel was built without BTF.
pub fn of_this_kernel() -> io::Result<Cow<'static, [u8]>> {
    let mut file = File::open(PATH)?;
    let size = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
    let null = std::ptr::null_mut();
    // SAFETY: a fresh mapping at an address of the kernel's choice touches no other memory.
    let at = unsafe { mmap(null, size, ProtFlags::READ, MapFlags::PRIVATE, &file, 0) };
    if let Ok(at) = at {
        // SAFETY: mapped for as long as the process runs, readable, and of that size; the kernel keeps these bytes in
        // memory that never changes.
        return Ok(Cow::Borrowed(unsafe { std::slice::from_raw_parts(at.cast(), size) }));
    }
    let mut bytes = Vec::with_capacity(size + 1);
    file.read_to_end(&mut bytes)?;
    Ok(Cow::Owned(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lent_and_read_they_are_the_same() {
        match of_this_kernel() {
            Ok(types) => assert!(*types == std::fs::read(PATH).unwrap()),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::NotFound),
        }
    }
}
