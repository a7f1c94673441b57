//! The CPU's counter and the kernel's clocks, as readings.

use fastclock::Ticks;
pub use fastclock::sys::{now, now_by_syscall, resolution};
use rustix::process::{
    TimeStampCounterReadability, set_time_stamp_counter_readability, time_stamp_counter_readability,
};

use super::arch::counter;
pub use super::arch::counter::{COUNTER_NAMES, has_rdtscp, has_read_after, has_thread_pointer};

/// Reads the counter after all earlier instructions.
pub fn before() -> Ticks {
    Ticks(counter::fenced())
}

/// Reads the counter once all earlier instructions are complete; needs [`has_read_after`].
pub fn after() -> Ticks {
    Ticks(counter::after())
}

/// Whether this thread may read the counter (`PR_GET_TSC`): true if reading it works, false if it raises `SIGSEGV`;
/// `None` if the kernel has no such switch.
///
/// The vDSO reads the counter too: without permission the signal kills most of its clock reads.
///
/// # References
///
/// - `PR_GET_TSC(2const)`; `arch/x86/kernel/process.c` (Linux 6.18), arm64 since 6.12
pub fn is_permitted() -> Option<bool> {
    let mode = time_stamp_counter_readability().ok()?;
    Some(mode == TimeStampCounterReadability::Readable)
}

/// Lets this thread, and those that it starts from now on, read the counter; false if the kernel
/// refuses.
///
/// # References
///
/// - `PR_SET_TSC(2const)`: asks for no privilege; a seccomp filter may forbid it
pub fn permit() -> bool {
    set_time_stamp_counter_readability(TimeStampCounterReadability::Readable).is_ok()
}

/// Takes the permission from this thread; true if that worked. Until it is given back, reading a clock or the counter
/// ends the process by a signal.
pub fn forbid() -> bool {
    set_time_stamp_counter_readability(TimeStampCounterReadability::RaiseSIGSEGV).is_ok()
}
