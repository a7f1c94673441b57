//! The time-stamp counter and the kernel's clocks, as readings.

use std::arch::x86_64::{__cpuid, __rdtscp, _mm_lfence, _rdtsc};

use fastclock::{ClockId, Nanos, Ticks};

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

/// A reading of a clock through the C library.
#[must_use]
pub fn now(clock: ClockId) -> Nanos {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a local of the right type; on failure it stays zero.
    unsafe { libc::clock_gettime(clock.as_raw(), &raw mut time) };
    Nanos::from_timespec(time.tv_sec, time.tv_nsec)
}

/// A reading of a clock by the system call, never by the vDSO.
#[must_use]
pub fn now_by_syscall(clock: ClockId) -> Nanos {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: as above.
    unsafe { libc::syscall(libc::SYS_clock_gettime, clock.as_raw(), &raw mut time) };
    Nanos::from_timespec(time.tv_sec, time.tv_nsec)
}

/// The resolution that the kernel states for a clock.
#[must_use]
pub fn resolution(clock: ClockId) -> Nanos {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: as above.
    unsafe { libc::clock_getres(clock.as_raw(), &raw mut time) };
    Nanos::from_timespec(time.tv_sec, time.tv_nsec)
}
