//! The time-stamp counter and the kernel's clocks, as readings.

use std::arch::x86_64::{__cpuid, __rdtscp, _mm_lfence, _rdtsc};

use fastclock::Ticks;
pub use fastclock::sys::{now, now_by_syscall, resolution};
use rustix::process::{
    TimeStampCounterReadability, set_time_stamp_counter_readability, time_stamp_counter_readability,
};

/// True if the CPU has `rdtscp`.
pub fn has_rdtscp() -> bool {
    __cpuid(0x8000_0000).eax >= 0x8000_0001 && __cpuid(0x8000_0001).edx & (1 << 27) != 0
}

/// True if the kernel lets programs use `rdfsbase`.
///
/// # References
///
/// `HWCAP2_FSGSBASE` in arch/x86/include/uapi/asm/hwcap2.h (Linux 6.18)
pub fn has_rdfsbase() -> bool {
    // SAFETY: takes a number.
    unsafe { libc::getauxval(libc::AT_HWCAP2) & 2 != 0 }
}

/// The counter now, read after everything before it is done.
pub fn before() -> Ticks {
    // SAFETY: both instructions exist on every x86-64 and change no memory.
    unsafe {
        _mm_lfence();
        Ticks(_rdtsc())
    }
}

/// The counter now, read when everything before it is done; needs [`has_rdtscp`].
pub fn after() -> Ticks {
    let mut cpu = 0;
    // SAFETY: changes only the local variable.
    unsafe { Ticks(__rdtscp(&raw mut cpu)) }
}

/// Whether this thread may read the counter (`PR_GET_TSC`): true if `rdtsc` works, false if it raises
/// `SIGSEGV`; `None` where the kernel has no such switch.
///
/// The vDSO reads the counter too: without permission most of its clock reads die by the signal.
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

/// Takes the permission from this thread, which must not read a clock or the counter until it is
/// given back; says whether that worked. A reading ends the process by a signal.
pub fn forbid() -> bool {
    set_time_stamp_counter_readability(TimeStampCounterReadability::RaiseSIGSEGV).is_ok()
}
