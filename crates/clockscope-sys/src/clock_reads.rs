//! One reading of a clock by each route, and of the counter in each order.

use fastclock::ClockId;

use super::arch::counter;
use super::raw_syscall::{self, argument};
use super::vdso_call::Call;
use super::vdso_functions::Functions;

/// Seconds and nanoseconds as the kernel gave them, in normal form or not.
pub type Timespec = (i64, i64);

type ClockGettime = unsafe extern "C" fn(i32, *mut libc::timespec) -> i32;

/// `clock_gettime` of this process's vDSO, by its address.
#[derive(Clone, Copy, Debug)]
pub struct VdsoClock(ClockGettime);

impl VdsoClock {
    /// Finds the function; `None` if there is no vDSO (`vdso=0`) or it has no such function.
    pub fn find() -> Option<Self> {
        let function = Call::ClockGettime(ClockId::Monotonic);
        let address = Functions::own().ok()?.address(&function.symbol())?;
        let pointer = std::ptr::with_exposed_provenance::<()>(address);
        // SAFETY: the image at this address exports the function there, it has this signature in
        // C, and the vDSO stays mapped for the life of the process.
        Some(Self(unsafe { std::mem::transmute::<*const (), ClockGettime>(pointer) }))
    }

    /// A reading; `None` if the function gives an error.
    #[inline]
    pub fn read(self, clock: ClockId) -> Option<Timespec> {
        let mut time = UNWRITTEN;
        // SAFETY: the pointer is to a local of the right type.
        let status = unsafe { (self.0)(clock.as_raw(), &raw mut time) };
        (status == 0).then_some((time.tv_sec, time.tv_nsec))
    }
}

const UNWRITTEN: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: -1 };

/// A reading through the C library; `None` on an error.
#[inline]
pub fn by_libc(clock: ClockId) -> Option<Timespec> {
    VdsoClock(libc::clock_gettime).read(clock)
}

/// A reading by the system call instruction itself; `None` on an error.
#[inline]
pub fn by_syscall(clock: ClockId) -> Option<Timespec> {
    let mut time = UNWRITTEN;
    let (id, at) = (argument(clock.as_raw()), (&raw mut time).expose_provenance());
    // SAFETY: the kernel writes only to the local.
    let status = unsafe { raw_syscall::two(libc::SYS_clock_gettime, id, at) };
    (status == 0).then_some((time.tv_sec, time.tv_nsec))
}

/// The result of `clock_getres(2)` in nanoseconds; `None` on an error.
pub fn resolution_ns(clock: ClockId) -> Option<u64> {
    let mut time = UNWRITTEN;
    // SAFETY: the pointer is to a local of the right type.
    let status = unsafe { libc::clock_getres(clock.as_raw(), &raw mut time) };
    let nanos = time.tv_sec.checked_mul(1_000_000_000)?.checked_add(time.tv_nsec)?;
    u64::try_from(nanos).ok().filter(|_| status == 0)
}

/// Reads the counter at any point in the CPU's instruction order.
#[inline]
pub fn counter() -> i64 {
    counter::bare().cast_signed()
}

/// Reads the counter after all earlier instructions.
#[inline]
pub fn counter_fenced() -> i64 {
    counter::fenced().cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_reads_the_same_clock() {
        let clock = ClockId::Monotonic;
        let before = by_syscall(clock).unwrap();
        let by_libc = by_libc(clock).unwrap();
        let by_vdso = VdsoClock::find().map_or(by_libc, |vdso| vdso.read(clock).unwrap());
        let after = by_syscall(clock).unwrap();
        assert!(before <= by_libc && by_libc <= by_vdso && by_vdso <= after);
        assert_eq!(resolution_ns(clock), Some(1));
    }

    #[test]
    fn the_counter_goes_on() {
        let first = counter();
        assert!(counter_fenced() >= first);
    }
}
