//! The ring buffers that the kernel writes event records into, one for each CPU.
//!
//! Each ring belongs to a dummy event that counts nothing. The events to record are opened by `perf_samples.rs` and
//! write into the ring of their CPU. So one ring per CPU serves any number of threads and processes.

use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};

use aya_obj::generated::perf_event_mmap_page;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::memory::page_size;
use super::perf_samples::{self, SampledEvent};

/// In the page before the data: the kernel's next write position, and our read position.
const DATA_HEAD: usize = offset_of!(perf_event_mmap_page, data_head);
const DATA_TAIL: usize = offset_of!(perf_event_mmap_page, data_tail);
/// Type, misc and size of a record.
const HEADER: usize = 8;
/// Minimum size of a ring in bytes; a smaller one holds no two samples.
pub(crate) const SMALLEST: usize = 64 << 10;

/// The ring of one CPU, mapped into this process.
#[derive(Debug)]
pub struct Ring {
    cpu: i32,
    event: OwnedFd,
    at: NonNull<u8>,
    size: usize,
    scratch: Vec<u8>,
}

// SAFETY: the mapping belongs to the ring alone and is not bound to a thread. Everything that the kernel changes
// meanwhile is read as an atomic or lies before the head that was read.
unsafe impl Send for Ring {}

/// A record as the kernel wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raw<'a> {
    /// The type of the record: `PERF_RECORD_*`.
    pub kind: u32,
    /// Flags of the record: `PERF_RECORD_MISC_*`.
    pub misc: u16,
    /// The bytes after the header.
    pub body: &'a [u8],
}

impl Ring {
    /// Makes the ring of a CPU, with `size` bytes, rounded up to a power of two and to `SMALLEST`. If this process may
    /// not lock so much memory, the ring gets half of that, and so on.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the CPU is off; `EACCES` or `EPERM` if this user may open no events, or lock no memory for them
    /// (`perf_event_mlock_kb`, `RLIMIT_MEMLOCK`).
    pub fn new(cpu: i32, size: usize) -> io::Result<Self> {
        Self::waking(cpu, size, |size| size / 4)
    }

    /// [`Ring::new`], but the ring becomes readable with its first record.
    ///
    /// # Errors
    ///
    /// As [`Ring::new`].
    pub fn prompt(cpu: i32, size: usize) -> io::Result<Self> {
        Self::waking(cpu, size, |_| 1)
    }

    fn waking(cpu: i32, size: usize, wake_at: fn(usize) -> usize) -> io::Result<Self> {
        let mut size = size.next_power_of_two().max(SMALLEST);
        loop {
            match Self::of_size(cpu, size, wake_at(size)) {
                Err(error) if size > SMALLEST && is_about_memory(&error) => size /= 2,
                result => return result,
            }
        }
    }

    fn of_size(cpu: i32, size: usize, wake_at: usize) -> io::Result<Self> {
        let wake_at = u32::try_from(wake_at).map_err(io::Error::other)?;
        let event = perf_samples::open_event(SampledEvent::Nothing { wake_at }, 0, cpu)?;
        let (null, access) = (std::ptr::null_mut(), ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no other memory.
        let at = unsafe { mmap(null, page_size() + size, access, MapFlags::SHARED, &event, 0)? };
        let at = NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { cpu, event, at, size, scratch: Vec::new() })
    }

    /// The CPU whose records it holds.
    pub fn cpu(&self) -> i32 {
        self.cpu
    }

    /// Size of the ring's data in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: both words lie aligned in the first page of the mapping, which lives as long as
        // `self`; kernel and program use them as atomics.
        unsafe { self.at.add(offset).cast::<AtomicU64>().as_ref() }
    }

    /// Gives every record that has come since the last call, and frees its space.
    pub fn drain(&mut self, mut record: impl FnMut(Raw<'_>)) {
        let head = self.word(DATA_HEAD).load(Acquire);
        let mut tail = self.word(DATA_TAIL).load(Acquire);
        let mut scratch = std::mem::take(&mut self.scratch);
        while let Some(length) = self.length_at(tail, head) {
            scratch.resize(length, 0);
            self.copy(tail, &mut scratch);
            if let Some(raw) = raw(&scratch) {
                record(raw);
            }
            tail += length as u64;
            self.word(DATA_TAIL).store(tail, Release);
        }
        self.scratch = scratch;
        // Bytes that are not a record are skipped, or they would block the ring for ever.
        self.word(DATA_TAIL).store(head, Release);
    }

    /// Length of the record that begins at `tail`; `None` if there is none, or if the length is impossible.
    fn length_at(&self, tail: u64, head: u64) -> Option<usize> {
        let left = usize::try_from(head.checked_sub(tail)?).ok()?;
        if left < HEADER || left > self.size {
            return None;
        }
        let mut header = [0; HEADER];
        self.copy(tail, &mut header);
        let length = usize::from(u16::from_le_bytes([header[6], header[7]]));
        (length >= HEADER && length <= left).then_some(length)
    }

    /// Copies from the ring, where a record may wrap to the beginning.
    fn copy(&self, from: u64, into: &mut [u8]) {
        let start = usize::try_from(from % self.size as u64).expect("less than the size");
        let first = into.len().min(self.size - start);
        let (before, after) = into.split_at_mut(first);
        let data = self.at.as_ptr().wrapping_add(page_size());
        // SAFETY: both ranges lie inside the data of the mapping: `start < size`, the first ends at its end at the
        // latest, and no record is longer than the ring. The kernel does not write between tail and head.
        unsafe {
            std::ptr::copy_nonoverlapping(data.add(start), before.as_mut_ptr(), before.len());
            std::ptr::copy_nonoverlapping(data, after.as_mut_ptr(), after.len());
        }
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping is our own, of this size, and nothing refers to it any more.
        let _ = unsafe { munmap(self.at.as_ptr().cast(), page_size() + self.size) };
    }
}

/// Splits a record into its header and its body.
fn raw(bytes: &[u8]) -> Option<Raw<'_>> {
    let (header, body) = bytes.split_first_chunk::<HEADER>()?;
    Some(Raw {
        kind: u32::from_le_bytes([header[0], header[1], header[2], header[3]]),
        misc: u16::from_le_bytes([header[4], header[5]]),
        body,
    })
}

/// Whether opening an event failed because too little memory may be locked.
fn is_about_memory(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOMEM | libc::EAGAIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Size of the data of the test rings in bytes.
    const PAGE: usize = 4096;

    /// A ring over memory of this process, filled as the kernel would fill it.
    fn ring(size: usize, tail: u64, bytes: &[u8]) -> Ring {
        let (null, access) = (std::ptr::null_mut(), ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: a fresh anonymous mapping; as large as the one that `Drop` unmaps.
        let at = unsafe {
            rustix::mm::mmap_anonymous(null, page_size() + size, access, MapFlags::PRIVATE).unwrap()
        };
        let event = std::fs::File::open("/dev/null").unwrap().into();
        let at = NonNull::new(at.cast::<u8>()).unwrap();
        for (index, byte) in bytes.iter().enumerate() {
            let place = (usize::try_from(tail).unwrap() + index) % size;
            // SAFETY: inside the mapping just made.
            unsafe { at.add(page_size() + place).write(*byte) };
        }
        let ring = Ring { cpu: 0, event, at, size, scratch: Vec::new() };
        ring.word(DATA_TAIL).store(tail, Release);
        ring.word(DATA_HEAD).store(tail + bytes.len() as u64, Release);
        ring
    }

    fn record(kind: u32, body: &[u8]) -> Vec<u8> {
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend(7_u16.to_le_bytes());
        bytes.extend(u16::try_from(HEADER + body.len()).unwrap().to_le_bytes());
        bytes.extend(body);
        bytes
    }

    fn drained(ring: &mut Ring) -> Vec<(u32, Vec<u8>)> {
        let mut all = Vec::new();
        ring.drain(|raw| {
            assert_eq!(raw.misc, 7);
            all.push((raw.kind, raw.body.to_vec()));
        });
        all
    }

    #[test]
    fn records_come_out_whole_also_across_the_end_of_the_ring() {
        let bytes = [record(1, &[1; 24]), record(2, &[2; 40]), record(3, &[])].concat();
        for tail in [0, PAGE as u64 - 8, PAGE as u64 - 40, 5 * PAGE as u64 - 16] {
            let mut ring = ring(PAGE, tail, &bytes);
            let all = drained(&mut ring);
            assert_eq!(all, [(1, vec![1; 24]), (2, vec![2; 40]), (3, vec![])]);
            assert!(drained(&mut ring).is_empty());
        }
    }

    #[test]
    fn a_record_that_cannot_be_one_ends_the_reading_and_is_given_up() {
        let good = record(1, &[1; 8]);
        let mut too_long = record(2, &[2; 8]);
        too_long[6] = 200;
        let mut too_short = record(2, &[2; 8]);
        too_short[6] = 3;
        for bad in [too_long, too_short] {
            let mut ring = ring(PAGE, 0, &[good.clone(), bad].concat());
            assert_eq!(drained(&mut ring), [(1, vec![1; 8])]);
            assert!(drained(&mut ring).is_empty());
        }
    }

    #[test]
    fn a_head_before_the_tail_or_a_ring_behind_gives_nothing() {
        let mut ring = ring(PAGE, 100 * PAGE as u64, &[]);
        for head in [0, 200 * PAGE as u64] {
            ring.word(DATA_TAIL).store(100 * PAGE as u64, Release);
            ring.word(DATA_HEAD).store(head, Release);
            assert!(drained(&mut ring).is_empty());
        }
    }
}
