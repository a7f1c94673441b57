//! The time-stamp counter and the kernel's clocks, as readings.

use std::arch::x86_64::{__cpuid, __rdtscp, _mm_lfence, _rdtsc};

use fastclock::Ticks;
pub use fastclock::sys::{now, now_by_syscall, resolution};

/// True if the CPU has `rdtscp`.
#[must_use]
pub fn has_rdtscp() -> bool {
    __cpuid(0x8000_0000).eax >= 0x8000_0001 && __cpuid(0x8000_0001).edx & (1 << 27) != 0
}

/// True if the kernel lets programs use `rdfsbase`.
///
/// # References
///
/// `HWCAP2_FSGSBASE` in arch/x86/include/uapi/asm/hwcap2.h (Linux 6.18)
#[must_use]
pub fn has_rdfsbase() -> bool {
    // SAFETY: takes a number.
    unsafe { libc::getauxval(libc::AT_HWCAP2) & 2 != 0 }
}

/// The counter now, read after everything before it is done.
#[must_use]
pub fn before() -> Ticks {
    // SAFETY: both instructions exist on every x86-64 and change no memory.
    unsafe {
        _mm_lfence();
        Ticks(_rdtsc())
    }
}

/// The counter now, read when everything before it is done; needs [`has_rdtscp`].
#[must_use]
pub fn after() -> Ticks {
    let mut cpu = 0;
    // SAFETY: changes only the local variable.
    unsafe { Ticks(__rdtscp(&raw mut cpu)) }
}
