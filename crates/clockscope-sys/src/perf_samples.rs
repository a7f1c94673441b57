//! Events whose samples carry registers and stack of a thread: a breakpoint on an instruction, and
//! the beginning of system calls.
//!
//! An event watches one thread on one CPU, and what that thread starts from then on. It writes into
//! the ring of its CPU (`perf_rings.rs`). A breakpoint that is not hit costs nothing that can be
//! measured.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use super::descriptor;
use super::perf_rings::Ring;

/// Registers in a sample, in this order, by their numbers in arch/x86/include/uapi/asm/perf_regs.h
/// (Linux 6.18): `rbx`, `rdx`, `rbp`, `rsp`, `rip`, `r9`, `r10`, `r12` to `r15`.
pub const REGISTERS: u64 =
    1 << BX | 1 << DX | 1 << BP | 1 << SP | 1 << IP | 1 << R9 | 1 << R10 | 0b1111 << R12;
/// Number of `rbx` in [`REGISTERS`].
pub const BX: u64 = 1;
/// That of `rdx`.
pub const DX: u64 = 3;
/// That of `rbp`.
pub const BP: u64 = 6;
/// That of `rsp`.
pub const SP: u64 = 7;
/// That of `rip`.
pub const IP: u64 = 8;
/// That of `r9`.
pub const R9: u64 = 17;
/// That of `r10`.
pub const R10: u64 = 18;
/// That of `r12`; those of `r13` to `r15` follow.
pub const R12: u64 = 20;

/// What a sample holds, in the order of the record: `PERF_SAMPLE_IP`, `TID`, `TIME`, `CALLCHAIN`,
/// `PERIOD`, `RAW`, `REGS_USER`, `STACK_USER`.
pub const CONTENT: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 5 | 1 << 8 | 1 << 10 | 1 << 12 | 1 << 13;
/// Bytes of stack in a sample, at most.
pub(crate) const STACK_BYTES: u32 = 16 << 10;

const TYPE_SOFTWARE: u32 = 1;
const TYPE_TRACEPOINT: u32 = 2;
const TYPE_BREAKPOINT: u32 = 5;
const COUNT_DUMMY: u64 = 9;
/// `HW_BREAKPOINT_X`, include/uapi/linux/hw_breakpoint.h.
const EXECUTION: u32 = 4;
const INHERIT: u64 = 1 << 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const MMAP: u64 = 1 << 8;
const COMM: u64 = 1 << 9;
const FREQUENCY: u64 = 1 << 10;
const TASK: u64 = 1 << 13;
const WATERMARK: u64 = 1 << 14;
const SAMPLE_ID_ALL: u64 = 1 << 18;
const EXCLUDE_CALLCHAIN_KERNEL: u64 = 1 << 21;
const MMAP2: u64 = 1 << 23;
const USE_CLOCK: u64 = 1 << 25;
/// Linux 5.13 and later.
const REMOVE_ON_EXEC: u64 = 1 << 36;
const CLOEXEC: usize = 8;
/// `PERF_EVENT_IOC_SET_OUTPUT`: `_IO('$', 5)`.
const SET_OUTPUT: libc::c_ulong = 0x2405;

/// `struct perf_event_attr` in its fifth size (Linux 4.8 and later).
#[repr(C)]
#[derive(Debug, Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    period_or_frequency: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint_kind: u32,
    breakpoint_address: u64,
    breakpoint_length: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clock: i32,
    sample_regs_intr: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved: u16,
}

/// What an event is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Nothing: it only has a ring, which says that it can be read when it holds this many bytes.
    Nothing {
        /// Bytes.
        wake_at: u32,
    },
    /// Every execution of the instruction at an address, until the process executes a program.
    Execution {
        /// The address.
        address: u64,
    },
    /// Beginnings of system calls, so many a second.
    SystemCalls {
        /// Number of the tracepoint `raw_syscalls:sys_enter`.
        tracepoint: u64,
        /// Samples a second of each thread.
        frequency: u32,
    },
}

/// Opens an event for a thread (0: the calling one; -1: every thread of the host) on a CPU, whose
/// records go into that CPU's ring. Threads and processes that it starts are watched too.
///
/// # Errors
///
/// Those of `perf_event_open(2)`: `EACCES` or `EPERM` if this user may not, `ESRCH` if the thread is
/// gone, `ENOSPC` if all breakpoints of the CPU are in use, `EMFILE` if there are too many.
pub fn open(subject: Subject, thread: i32, ring: &Ring) -> io::Result<OwnedFd> {
    let event = open_event(subject, thread, ring.cpu())?;
    // SAFETY: takes two descriptors that are open.
    let result = unsafe { libc::ioctl(event.as_raw_fd(), SET_OUTPUT, ring.as_fd().as_raw_fd()) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(event) }
}

/// Opens an event that writes nowhere yet.
pub(super) fn open_event(subject: Subject, thread: i32, cpu: i32) -> io::Result<OwnedFd> {
    let mut attributes = attributes(subject);
    let mut result = open_with(&attributes, thread, cpu);
    let unknown = |error: &io::Error| error.raw_os_error() == Some(libc::EINVAL);
    if attributes.flags & REMOVE_ON_EXEC != 0 && result.as_ref().is_err_and(unknown) {
        // An older kernel. The breakpoint then stays where no code of the next program is.
        attributes.flags &= !REMOVE_ON_EXEC;
        result = open_with(&attributes, thread, cpu);
    }
    result
}

fn attributes(subject: Subject) -> Attributes {
    let both = Attributes {
        size: u32::try_from(size_of::<Attributes>()).unwrap_or(0),
        clock: libc::CLOCK_MONOTONIC,
        flags: USE_CLOCK | EXCLUDE_HYPERVISOR | WATERMARK,
        wakeup: 1,
        ..Attributes::default()
    };
    let sampling = Attributes {
        sample_type: CONTENT,
        sample_regs_user: REGISTERS,
        sample_stack_user: STACK_BYTES,
        flags: both.flags
            | INHERIT
            | MMAP
            | MMAP2
            | COMM
            | TASK
            | SAMPLE_ID_ALL
            | EXCLUDE_CALLCHAIN_KERNEL,
        ..both
    };
    match subject {
        Subject::Nothing { wake_at } => Attributes {
            kind: TYPE_SOFTWARE,
            config: COUNT_DUMMY,
            wakeup: wake_at,
            flags: both.flags | EXCLUDE_KERNEL,
            ..both
        },
        Subject::Execution { address } => Attributes {
            kind: TYPE_BREAKPOINT,
            period_or_frequency: 1,
            breakpoint_kind: EXECUTION,
            breakpoint_address: address,
            breakpoint_length: size_of::<libc::c_long>() as u64,
            flags: sampling.flags | EXCLUDE_KERNEL | REMOVE_ON_EXEC,
            ..sampling
        },
        // The tracepoint itself is in the kernel.
        Subject::SystemCalls { tracepoint, frequency } => Attributes {
            kind: TYPE_TRACEPOINT,
            config: tracepoint,
            period_or_frequency: frequency.into(),
            flags: sampling.flags | FREQUENCY,
            ..sampling
        },
    }
}

fn open_with(attributes: &Attributes, thread: i32, cpu: i32) -> io::Result<OwnedFd> {
    let attributes = std::ptr::from_ref(attributes);
    // SAFETY: the attributes are valid and of the size that they state; the kernel only reads them.
    let number =
        unsafe { libc::syscall(libc::SYS_perf_event_open, attributes, thread, cpu, -1, CLOEXEC) };
    // SAFETY: the call gives a new descriptor.
    unsafe { descriptor::of_call(number) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_attributes_have_the_size_of_linux_4_8() {
        assert_eq!(size_of::<Attributes>(), 112);
        assert_eq!(std::mem::offset_of!(Attributes, sample_regs_user), 80);
        assert_eq!(std::mem::offset_of!(Attributes, clock), 92);
        assert_eq!(std::mem::offset_of!(Attributes, sample_max_stack), 108);
    }

    #[test]
    fn all_events_of_a_ring_have_the_same_clock_and_the_same_content() {
        let [nothing, execution, system_calls] = [
            Subject::Nothing { wake_at: 5 },
            Subject::Execution { address: 0x1000 },
            Subject::SystemCalls { tracepoint: 3, frequency: 9 },
        ]
        .map(attributes);
        assert_eq!(execution.sample_type, system_calls.sample_type);
        assert_eq!(execution.sample_regs_user, system_calls.sample_regs_user);
        for event in [nothing, execution, system_calls] {
            assert_eq!((event.flags & USE_CLOCK, event.clock), (USE_CLOCK, libc::CLOCK_MONOTONIC));
        }
    }
}
