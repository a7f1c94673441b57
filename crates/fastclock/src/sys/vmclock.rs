//! The hypervisor's page that tells whether the virtual machine was moved.

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use core::sync::atomic::{AtomicU32, AtomicU64, fence};
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use crate::page::SIZE;

const DEVICE: &str = "/dev/vmclock0";
/// `VMCLOCK_MAGIC`: "VCLK".
const MAGIC: u32 = u32::from_le_bytes(*b"VCLK");

/// The beginning of `struct vmclock_abi`; all of it is little-endian.
#[repr(C)]
struct Abi {
    magic: AtomicU32,
    size: AtomicU32,
    version_and_kinds: AtomicU32,
    seq_count: AtomicU32,
    disruption_marker: AtomicU64,
}

/// The page, mapped read-only.
///
/// # References
///
/// - include/uapi/linux/vmclock-abi.h, drivers/ptp/ptp_vmclock.c (Linux 6.18)
#[derive(Debug)]
pub struct VmClock {
    abi: NonNull<Abi>,
}

// SAFETY: the pointer leads to atomics and is valid while this value lives.
unsafe impl Send for VmClock {}
// SAFETY: as above.
unsafe impl Sync for VmClock {}

impl VmClock {
    /// The machine's page, if it has one that this process may read.
    pub fn open() -> Option<Self> {
        Self::at(Path::new(DEVICE))
    }

    /// A page at another path: a device, or a regular file that is long enough.
    pub fn at(path: &Path) -> Option<Self> {
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
        let kind = file.metadata().ok()?;
        let long_enough = kind.is_file() && kind.len() >= size_of::<Abi>() as u64;
        if !(long_enough || kind.file_type().is_char_device()) {
            return None;
        }
        Self::map(&file).filter(|clock| {
            let abi = clock.abi();
            u32::from_le(abi.magic.load(Relaxed)) == MAGIC
                && u32::from_le(abi.version_and_kinds.load(Relaxed)) & 0xffff == 1
        })
    }

    fn map(file: &File) -> Option<Self> {
        let (read, shared) = (libc::PROT_READ, libc::MAP_SHARED);
        // SAFETY: maps new memory at any address; writes to the file only change atomics.
        let mapped =
            unsafe { libc::mmap(ptr::null_mut(), SIZE, read, shared, file.as_raw_fd(), 0) };
        let good = mapped != libc::MAP_FAILED;
        NonNull::new(mapped.cast()).filter(|_| good).map(|abi| Self { abi })
    }

    fn abi(&self) -> &Abi {
        // SAFETY: mapped until `self` is dropped, and any content is a valid value.
        unsafe { self.abi.as_ref() }
    }

    /// A number that changes when the machine was moved to another host or restored: knowledge of
    /// the counter from before is then void. `None` while the hypervisor writes. Safe to call in a
    /// signal handler.
    pub fn disruption_marker(&self) -> Option<u64> {
        let abi = self.abi();
        (0..16).find_map(|_| {
            let before = u32::from_le(abi.seq_count.load(Acquire));
            let marker = u64::from_le(abi.disruption_marker.load(Relaxed));
            fence(Acquire);
            let same = u32::from_le(abi.seq_count.load(Relaxed)) == before;
            (before & 1 == 0 && same).then_some(marker)
        })
    }
}

impl Drop for VmClock {
    fn drop(&mut self) {
        // SAFETY: this value mapped the page, and no reference outlives the value.
        unsafe { libc::munmap(self.abi.as_ptr().cast(), SIZE) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, SeekFrom, Write};

    fn page(magic: &[u8; 4], version: u8, seq: u8, marker: u64) -> std::vec::Vec<u8> {
        let mut bytes = std::vec![0; SIZE];
        bytes[..4].copy_from_slice(magic);
        bytes[8] = version;
        bytes[12] = seq;
        bytes[16..24].copy_from_slice(&marker.to_le_bytes());
        bytes
    }

    fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    #[test]
    fn the_marker_is_seen_to_change() {
        let mut file = file(&page(b"VCLK", 1, 2, 7));
        let clock = VmClock::at(file.path()).unwrap();
        assert_eq!(clock.disruption_marker(), Some(7));
        file.seek(SeekFrom::Start(0)).unwrap();
        file.write_all(&page(b"VCLK", 1, 4, 8)).unwrap();
        assert_eq!(clock.disruption_marker(), Some(8));
        file.seek(SeekFrom::Start(0)).unwrap();
        file.write_all(&page(b"VCLK", 1, 5, 9)).unwrap();
        assert_eq!(clock.disruption_marker(), None, "the hypervisor is writing");
    }

    #[test]
    fn what_is_no_vmclock_is_not_taken_for_one() {
        for bytes in [page(b"VCLX", 1, 2, 7), page(b"VCLK", 2, 2, 7)] {
            assert!(VmClock::at(file(&bytes).path()).is_none());
        }
        assert!(VmClock::at(file(b"VCLK").path()).is_none(), "short");
        assert!(VmClock::at(Path::new("/does/not/exist")).is_none());
        assert!(VmClock::at(Path::new("/")).is_none());
    }
}
