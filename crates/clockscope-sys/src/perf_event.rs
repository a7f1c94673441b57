//! Opening an event of `perf_event_open(2)` for the calling thread.

use std::io;
use std::os::fd::{OwnedFd, RawFd};

use super::descriptor;

/// Bits of the flags behind `read_format`, include/uapi/linux/perf_event.h (Linux 6.18).
pub(super) const DISABLED: u64 = 1 << 0;
/// See [`DISABLED`].
pub(super) const EXCLUDE_KERNEL: u64 = 1 << 5;
/// See [`DISABLED`].
pub(super) const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
/// `PERF_FLAG_FD_CLOEXEC`.
const CLOEXEC: usize = 8;

/// `struct perf_event_attr` in its first size, which every kernel takes.
#[repr(C)]
#[derive(Debug, Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_kind: u32,
    breakpoint_address: u64,
}

/// What to open.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Event {
    /// `PERF_TYPE_*`.
    pub(super) kind: u32,
    /// Which event of that type.
    pub(super) config: u64,
    /// `PERF_FORMAT_*`.
    pub(super) read_format: u64,
    /// [`DISABLED`] and its like.
    pub(super) flags: u64,
    /// The leader of its group.
    pub(super) group: Option<RawFd>,
}

impl Event {
    /// Opens it for the calling thread on any CPU.
    ///
    /// # Errors
    ///
    /// Those of `perf_event_open(2)`.
    pub(super) fn open(self) -> io::Result<OwnedFd> {
        let attributes = Attributes {
            kind: self.kind,
            size: u32::try_from(size_of::<Attributes>()).unwrap_or(0),
            config: self.config,
            read_format: self.read_format,
            flags: self.flags,
            ..Attributes::default()
        };
        let group = self.group.unwrap_or(-1);
        // SAFETY: the attributes are a local of the size that they state; the kernel only reads them.
        let number = unsafe {
            libc::syscall(libc::SYS_perf_event_open, &raw const attributes, 0, -1, group, CLOEXEC)
        };
        // SAFETY: the call gives a new descriptor.
        unsafe { descriptor::of_call(number) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_attributes_have_the_size_that_every_kernel_takes() {
        assert_eq!(size_of::<Attributes>(), 64);
    }
}
