//! Events whose samples carry registers and stack of a thread: a breakpoint on an instruction, and the entry of system
//! calls.
//!
//! An event watches one thread on one CPU, and the threads that this thread starts from then on. The event writes into
//! the ring of its CPU (`perf_rings.rs`). A breakpoint that is not hit has no measurable cost.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};

use aya_obj::generated::perf_sw_ids::PERF_COUNT_SW_DUMMY;
use aya_obj::generated::perf_type_id::{
    self, PERF_TYPE_BREAKPOINT, PERF_TYPE_SOFTWARE, PERF_TYPE_TRACEPOINT,
};
use aya_obj::generated::{
    HW_BREAKPOINT_X, PERF_EVENT_IOC_SET_BPF, PERF_EVENT_IOC_SET_OUTPUT, PERF_FLAG_FD_CLOEXEC,
    perf_event_attr,
};

pub use super::arch::perf as registers;
use super::{check, descriptor};

/// Fields of a sample, in the order of the record: `PERF_SAMPLE_IP`, `TID`, `TIME`, `CALLCHAIN`, `PERIOD`, `RAW`,
/// `REGS_USER`, `STACK_USER`.
pub const CONTENT: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 5 | 1 << 8 | 1 << 10 | 1 << 12 | 1 << 13;
/// `PERF_ATTR_SIZE_VER5` (Linux 4.8 and later), include/uapi/linux/perf_event.h.
const PERF_ATTR_SIZE_VER5: u32 = 112;
/// Bytes of stack in a sample, at most.
pub const STACK_BYTES: u32 = 16 << 10;
/// [`STACK_BYTES`] where stacks have proved to be longer: nearly all that a record holds, whose length has 16 bits.
pub const STACK_BYTES_MOST: u32 = 60 << 10;

/// The subject of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampledEvent {
    /// Nothing: the event only has a ring.
    Nothing {
        /// Bytes in the ring at which it becomes readable.
        wake_at: u32,
    },
    /// Every execution of the instruction at an address, until the process calls `execve`.
    Execution {
        /// The address of the instruction, in the process.
        address: u64,
    },
    /// Entries of system calls, sampled at a frequency.
    SystemCalls {
        /// Number of the tracepoint `raw_syscalls:sys_enter`.
        tracepoint: u64,
        /// Samples per second of each thread.
        frequency: u32,
        /// Bytes of stack in a sample, at most; a multiple of 8.
        stack: u32,
    },
}

/// Opens an event for a thread (0: the calling one; -1: every thread of the host) on a CPU. The records go into that
/// CPU's ring ([`crate::perf_rings::Ring`]). Threads and processes that the thread starts are watched too.
///
/// # Errors
///
/// Those of `perf_event_open(2)`: `EACCES` or `EPERM` without the privilege, `ESRCH` if the thread is gone, `ENOSPC` if
/// all breakpoints of the CPU are in use, `EMFILE` without free file descriptors.
pub fn open(subject: SampledEvent, thread: i32, cpu: i32, ring: impl AsFd) -> io::Result<OwnedFd> {
    let event = open_event(subject, thread, cpu)?;
    redirect(&event, ring)?;
    Ok(event)
}

/// Redirects an event, and all events that inherit from it, to a ring of its CPU from now on.
///
/// # Errors
///
/// `EINVAL` if it is the ring of another CPU.
pub fn redirect(event: &OwnedFd, ring: impl AsFd) -> io::Result<()> {
    let output = ring.as_fd().as_raw_fd();
    // SAFETY: takes two descriptors that are open.
    let done =
        unsafe { libc::ioctl(event.as_raw_fd(), PERF_EVENT_IOC_SET_OUTPUT as libc::Ioctl, output) };
    check(done).map(drop)
}

/// Opens an event that has no ring yet.
pub(super) fn open_event(subject: SampledEvent, thread: i32, cpu: i32) -> io::Result<OwnedFd> {
    let mut wanted = subject.attributes();
    let result = open_with(&wanted, thread, cpu, -1);
    let unknown = |error: &io::Error| error.raw_os_error() == Some(libc::EINVAL);
    if wanted.remove_on_exec() == 0 || !result.as_ref().is_err_and(unknown) {
        return result;
    }
    // Linux before 5.13. The breakpoint then stays, at an address where the next program has no code.
    wanted.set_remove_on_exec(0);
    open_with(&wanted, thread, cpu, -1)
}

impl SampledEvent {
    fn attributes(self) -> perf_event_attr {
        let mut event = match self {
            Self::Nothing { wake_at } => {
                let mut event = attributes(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY as u64);
                event.__bindgen_anon_2.wakeup_watermark = wake_at;
                event.set_exclude_kernel(1);
                event
            }
            Self::Execution { address } => {
                let mut event = sampling(PERF_TYPE_BREAKPOINT, 0);
                event.__bindgen_anon_1.sample_period = 1;
                event.bp_type = HW_BREAKPOINT_X;
                event.__bindgen_anon_3.bp_addr = address;
                event.__bindgen_anon_4.bp_len = registers::BREAKPOINT_BYTES;
                event.set_exclude_kernel(1);
                event.set_remove_on_exec(1);
                event
            }
            // The tracepoint itself is in the kernel, so the kernel is not excluded.
            Self::SystemCalls { tracepoint, frequency, stack } => {
                let mut event = sampling(PERF_TYPE_TRACEPOINT, tracepoint);
                event.sample_stack_user = stack;
                event.__bindgen_anon_1.sample_freq = frequency.into();
                event.set_freq(1);
                event
            }
        };
        event.clockid = libc::CLOCK_MONOTONIC;
        event.set_use_clockid(1);
        event.set_exclude_hv(1);
        event.set_watermark(1);
        event
    }
}

/// Attributes of an event whose samples hold [`CONTENT`], and that also records the programs and mappings of the
/// watched threads.
fn sampling(kind: perf_type_id, config: u64) -> perf_event_attr {
    let mut event = attributes(kind, config);
    event.__bindgen_anon_2.wakeup_watermark = 1;
    event.sample_type = CONTENT;
    event.sample_regs_user = registers::REGISTERS;
    event.sample_stack_user = STACK_BYTES;
    event.set_inherit(1);
    event.set_mmap(1);
    event.set_mmap2(1);
    event.set_comm(1);
    event.set_task(1);
    event.set_sample_id_all(1);
    event.set_exclude_callchain_kernel(1);
    event
}

/// Attributes of an event that counts without samples, in the size of Linux 4.8, which every later
/// kernel takes.
pub(super) fn attributes(kind: perf_type_id, config: u64) -> perf_event_attr {
    // SAFETY: all-zero is a value of this plain struct.
    let mut event: perf_event_attr = unsafe { std::mem::zeroed() };
    event.type_ = kind as u32;
    event.size = PERF_ATTR_SIZE_VER5;
    event.config = config;
    event
}

/// Opens an event for a thread (0: the calling one; -1: all) on a CPU (-1: any), in the group of a
/// leader (-1: none).
///
/// # Errors
///
/// Those of `perf_event_open(2)`.
pub(super) fn open_with(
    event: &perf_event_attr,
    thread: i32,
    cpu: i32,
    leader: RawFd,
) -> io::Result<OwnedFd> {
    let event = std::ptr::from_ref(event);
    // SAFETY: the attributes are larger than the size that they state; the kernel only reads them.
    let number = unsafe {
        let flags = PERF_FLAG_FD_CLOEXEC;
        libc::syscall(libc::SYS_perf_event_open, event, thread, cpu, leader, flags)
    };
    // SAFETY: the call gives a new descriptor.
    unsafe { descriptor(number) }
}

/// Runs a BPF program whenever the event happens.
///
/// # Errors
///
/// Those of `PERF_EVENT_IOC_SET_BPF`, `perf_event_open(2)`.
pub(super) fn set_program(event: &OwnedFd, program: BorrowedFd<'_>) -> io::Result<()> {
    let (event, program) = (event.as_raw_fd(), program.as_raw_fd());
    // SAFETY: takes a descriptor that is open.
    check(unsafe { libc::ioctl(event, PERF_EVENT_IOC_SET_BPF as libc::Ioctl, program) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_events_of_a_ring_have_the_same_clock_and_the_same_content() {
        let [nothing, execution, system_calls] = [
            SampledEvent::Nothing { wake_at: 5 },
            SampledEvent::Execution { address: 0x1000 },
            SampledEvent::SystemCalls { tracepoint: 3, frequency: 9, stack: STACK_BYTES },
        ]
        .map(SampledEvent::attributes);
        assert_eq!(execution.sample_type, system_calls.sample_type);
        assert_eq!(execution.sample_regs_user, system_calls.sample_regs_user);
        for event in [nothing, execution, system_calls] {
            assert_eq!((event.use_clockid(), event.clockid), (1, libc::CLOCK_MONOTONIC));
        }
    }

    #[test]
    fn the_attributes_reach_as_far_as_the_size_that_they_state() {
        let end = std::mem::offset_of!(perf_event_attr, __reserved_2) + size_of::<u16>();
        assert_eq!(usize::try_from(PERF_ATTR_SIZE_VER5), Ok(end));
    }
}
