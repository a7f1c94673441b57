//! The clocks of a system without pages to read: systems other than Linux, and CPUs whose counter
//! is not known. This module has those names of [`crate::sys`] that a clock needs.
//!
//! On Linux the clocks are the kernel's, through the C library. Elsewhere the standard library has
//! two clocks, and each of the others is the nearest of the two.

#![allow(unsafe_code, reason = "the C library's clocks")]

use std::boxed::Box;
#[cfg(unix)]
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::SystemTime;

use crate::attach_error::AttachError;
use crate::clock_id::ClockId;
use crate::decline::Decline;
use crate::page::{self, Counter, Page, Trust};
use crate::pair::{Counts, Pair};
use crate::units::{Nanos, Ticks};

pub(crate) use now as now_by_syscall;

/// A reading of a clock.
#[cfg(all(any(target_os = "linux", target_os = "android"), not(fastclock_portable)))]
pub(crate) fn now(clock: ClockId) -> Nanos {
    // The C library's seconds can have 32 bits, which overflow for this clock in 2038.
    if clock == ClockId::Realtime {
        return wall_clock();
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a local of the right type; on failure the local stays zero.
    unsafe { libc::clock_gettime(clock.as_raw(), &raw mut time) };
    from_c(&time)
}

/// The smallest step of a clock.
#[cfg(all(any(target_os = "linux", target_os = "android"), not(fastclock_portable)))]
pub(crate) fn resolution(clock: ClockId) -> Nanos {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 1 };
    // SAFETY: as above; on failure the local stays a nanosecond.
    unsafe { libc::clock_getres(clock.as_raw(), &raw mut time) };
    from_c(&time)
}

#[cfg(all(any(target_os = "linux", target_os = "android"), not(fastclock_portable)))]
#[allow(clippy::useless_conversion, reason = "of 32 bits on some CPUs")]
fn from_c(time: &libc::timespec) -> Nanos {
    Nanos::from_timespec(i64::from(time.tv_sec), i64::from(time.tv_nsec))
}

/// A reading of the nearest clock in the standard library.
#[cfg(not(all(any(target_os = "linux", target_os = "android"), not(fastclock_portable))))]
pub(crate) fn now(clock: ClockId) -> Nanos {
    use std::sync::OnceLock;
    use std::time::Instant;
    static FIRST: OnceLock<Instant> = OnceLock::new();
    match clock {
        ClockId::Realtime | ClockId::RealtimeCoarse | ClockId::RealtimeAlarm | ClockId::Tai => {
            wall_clock()
        }
        _ => Nanos::try_from(FIRST.get_or_init(Instant::now).elapsed()).unwrap_or(Nanos(i64::MAX)),
    }
}

/// A nanosecond: the standard library does not give a clock's step.
#[cfg(not(all(any(target_os = "linux", target_os = "android"), not(fastclock_portable))))]
pub(crate) fn resolution(_: ClockId) -> Nanos {
    Nanos(1)
}

fn wall_clock() -> Nanos {
    crate::points::Realtime::try_from(SystemTime::now()).map_or(Nanos::ZERO, Nanos::from)
}

/// Size of a page of memory, in bytes; nothing is mapped here.
pub(crate) const LARGEST_PAGE: usize = page::SIZE;

/// Stands for a counter on systems without one.
pub(crate) struct CpuCounter;

impl Counter for CpuCounter {
    fn ordered(&self) -> Ticks {
        Ticks(0)
    }

    fn unordered(&self) -> Ticks {
        Ticks(0)
    }
}

pub(crate) const fn may_read_counter() -> bool {
    false
}

pub(crate) const fn boot_id() -> Option<[u64; 2]> {
    None
}

/// Memory for the counts; no clock is read from it.
#[derive(Debug)]
pub(crate) struct Mapping(Box<Pair>);

impl Mapping {
    pub(crate) fn anonymous() -> Self {
        let (page, trust, counts) = (Page::new(), Trust::new(), Counts::default());
        Self(Box::new(Pair { page, gap: [], trust, counts }))
    }

    pub(crate) fn of_path(_: &Path) -> Result<Self, AttachError> {
        Err(Decline::NoCounter.into())
    }

    #[cfg(unix)]
    pub(crate) fn of_file(_: BorrowedFd<'_>) -> Result<Self, AttachError> {
        Err(Decline::NoCounter.into())
    }

    pub(crate) fn pair(&self) -> &Pair {
        &self.0
    }

    pub(crate) const fn opened(&self) -> Option<&Pair> {
        None
    }

    pub(crate) const fn open(&self) {}
}
