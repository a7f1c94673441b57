//! Reads clocks. No function here allocates memory, waits for a lock or panics.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use fastclock::page::PageClock;
use fastclock::{Bounded, ClockKind, Monotonic, Nanos};

use crate::clock::{ERROR, FASTCLOCK_ERROR, fastclock_t};

/// The time of a reading; writes its bound, if the caller wants it.
#[inline(always)]
fn bounded<T: Into<Nanos>>(reading: Bounded<T>, bound_ns: Option<&mut MaybeUninit<i64>>) -> i64 {
    if let Some(place) = bound_ns {
        place.write(reading.bound.0);
    }
    reading.time.into().0
}

/// The kind of readings for fastclock_resolution().
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(non_camel_case_types, reason = "the name in C")]
pub enum fastclock_kind_t {
    /// Readings of the present time: fastclock_now() and the like.
    FASTCLOCK_KIND_PRECISE = 0,
    /// fastclock_recent(): as old as the last refresh.
    FASTCLOCK_KIND_RECENT = 1,
    /// fastclock_coarse() and fastclock_coarse_realtime(): a timer tick.
    FASTCLOCK_KIND_COARSE = 2,
    /// fastclock_second(): a second.
    FASTCLOCK_KIND_SECOND = 3,
}

/// CLOCK_MONOTONIC in nanoseconds since the boot, without time in suspend. Never runs backwards.
///
/// Ordered: the time is taken after all earlier instructions are done. So a thread that has
/// received a reading of another thread reads no earlier time. FASTCLOCK_ERROR if `clock` is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn fastclock_now(clock: Option<&fastclock_t>) -> i64 {
    clock.map_or(ERROR, |clock| clock.0.now().as_nanos())
}

/// As fastclock_now(), but unordered and cheaper: the CPU may take the time some nanoseconds early,
/// and threads that compare their readings may see them out of order.
#[unsafe(no_mangle)]
pub extern "C" fn fastclock_now_fast(clock: Option<&fastclock_t>) -> i64 {
    clock.map_or(ERROR, |clock| clock.0.now_fast().as_nanos())
}

/// As fastclock_now(), with a bound: the largest distance of the kernel's CLOCK_MONOTONIC from the
/// reading, in nanoseconds in either direction; 0 if the kernel has answered. `bound_ns` may be
/// NULL.
#[unsafe(no_mangle)]
pub extern "C" fn fastclock_now_bounded(
    clock: Option<&fastclock_t>,
    bound_ns: Option<&mut MaybeUninit<i64>>,
) -> i64 {
    clock.map_or(ERROR, |clock| bounded(clock.0.now_bounded(), bound_ns))
}

/// As fastclock_now_bounded(), but unordered and cheaper: see fastclock_now_fast().
#[unsafe(no_mangle)]
pub extern "C" fn fastclock_now_bounded_fast(
    clock: Option<&fastclock_t>,
    bound_ns: Option<&mut MaybeUninit<i64>>,
) -> i64 {
    clock.map_or(ERROR, |clock| bounded(clock.0.now_bounded_fast(), bound_ns))
}

/// CLOCK_REALTIME in nanoseconds since 1970-01-01 UTC, ordered. It steps when the system's time is
/// set, also backwards: a clock on a timekeeper's page follows as soon as the timekeeper does, a
/// clock that keeps itself within a second of use. FASTCLOCK_ERROR if `clock` is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn fastclock_realtime(clock: Option<&fastclock_t>) -> i64 {
    clock.map_or(ERROR, |clock| clock.0.realtime().as_nanos())
}

/// As fastclock_realtime(), but unordered and cheaper.
#[unsafe(no_mangle)]
pub extern "C" fn fastclock_realtime_fast(clock: Option<&fastclock_t>) -> i64 {
    clock.map_or(ERROR, |clock| clock.0.realtime_fast().as_nanos())
}

/// As fastclock_realtime(), with a bound: the largest distance of the kernel's CLOCK_REALTIME from
/// the reading, in nanoseconds in either direction; 0 if the kernel has answered. `bound_ns` may be
/// NULL. The bound does not include a step since the last renewal.
#[unsafe(no_mangle)]
pub extern "C" fn fastclock_realtime_bounded(
    clock: Option<&fastclock_t>,
    bound_ns: Option<&mut MaybeUninit<i64>>,
) -> i64 {
    clock.map_or(ERROR, |clock| bounded(clock.0.realtime_bounded(), bound_ns))
}

/// As fastclock_realtime_bounded(), but unordered and cheaper: see fastclock_now_fast().
#[unsafe(no_mangle)]
pub extern "C" fn fastclock_realtime_bounded_fast(
    clock: Option<&fastclock_t>,
    bound_ns: Option<&mut MaybeUninit<i64>>,
) -> i64 {
    clock.map_or(ERROR, |clock| bounded(clock.0.realtime_bounded_fast(), bound_ns))
}

/// CLOCK_BOOTTIME in nanoseconds since the boot, with time in suspend, ordered. FASTCLOCK_ERROR if
/// `clock` is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn fastclock_boottime(clock: Option<&fastclock_t>) -> i64 {
    clock.map_or(ERROR, |clock| clock.0.boottime().as_nanos())
}

/// CLOCK_TAI in nanoseconds since 1970-01-01 TAI, ordered: as fastclock_realtime(), but leap
/// seconds are counted, if the kernel was told them. FASTCLOCK_ERROR if `clock` is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn fastclock_tai(clock: Option<&fastclock_t>) -> i64 {
    clock.map_or(ERROR, |clock| clock.0.tai().as_nanos())
}

/// The time of the last fastclock_refresh_recent() of any thread, CLOCK_MONOTONIC in nanoseconds;
/// costs next to nothing. Before the first refresh, the time at which the clock was made.
/// FASTCLOCK_ERROR if `clock` is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn fastclock_recent(clock: Option<&fastclock_t>) -> i64 {
    clock.map_or(ERROR, |clock| clock.0.recent().as_nanos())
}

/// Reads CLOCK_MONOTONIC as fastclock_now() does and stores the time for fastclock_recent(): for
/// example once in each turn of an event loop. FASTCLOCK_ERROR if `clock` is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn fastclock_refresh_recent(clock: Option<&fastclock_t>) -> i64 {
    clock.map_or(ERROR, |clock| clock.0.refresh_recent().as_nanos())
}

/// CLOCK_MONOTONIC_COARSE in nanoseconds since the boot: the time of the last timer tick, 1 to 10
/// ms ago at most. Always from the kernel: it can lie ahead of fastclock_now() by the bound of that
/// reading. FASTCLOCK_ERROR if `clock` is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn fastclock_coarse(clock: Option<&fastclock_t>) -> i64 {
    clock.map_or(ERROR, |clock| clock.0.coarse().as_nanos())
}

/// CLOCK_REALTIME_COARSE in nanoseconds since 1970-01-01 UTC: the time of the last timer tick,
/// always from the kernel, as fastclock_coarse() is. FASTCLOCK_ERROR if `clock` is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn fastclock_coarse_realtime(clock: Option<&fastclock_t>) -> i64 {
    clock.map_or(ERROR, |clock| clock.0.coarse_realtime().as_nanos())
}

/// The second of CLOCK_REALTIME in which the last timer tick was, in nanoseconds since 1970-01-01
/// UTC: a multiple of 1000000000, equal to the seconds of time(). FASTCLOCK_ERROR if `clock` is
/// NULL.
#[unsafe(no_mangle)]
pub extern "C" fn fastclock_second(clock: Option<&fastclock_t>) -> i64 {
    clock.map_or(ERROR, |clock| clock.0.second().as_nanos())
}

/// Nanoseconds of CLOCK_MONOTONIC since `since`, a reading of fastclock_now() or the like; 0 if
/// `since` is later than now, as an unordered reading of another thread can be. FASTCLOCK_ERROR if
/// `clock` is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn fastclock_elapsed(clock: Option<&fastclock_t>, since: i64) -> i64 {
    clock.map_or(ERROR, |clock| clock.0.elapsed(Monotonic(Nanos(since))).0)
}

/// The smallest step, in nanoseconds, of readings of this kind (a fastclock_kind_t); 0 for
/// FASTCLOCK_KIND_RECENT, because only the program knows its step. FASTCLOCK_ERROR if `clock` is
/// NULL or there is no such kind.
#[unsafe(no_mangle)]
pub extern "C" fn fastclock_resolution(clock: Option<&fastclock_t>, kind: c_int) -> i64 {
    let kind = match kind {
        0 => ClockKind::Precise,
        1 => ClockKind::Recent,
        2 => ClockKind::Coarse,
        3 => ClockKind::Second,
        _ => return ERROR,
    };
    clock.map_or(ERROR, |clock| clock.0.resolution(kind).0)
}

/// The time of the clock with this number, in the form of clock_gettime(2), which this function can
/// replace: CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_BOOTTIME and CLOCK_TAI from `clock`, ordered,
/// every other clock from the kernel.
///
/// 0 on success; otherwise FASTCLOCK_ERROR, with errno set: EINVAL if `clock` is NULL or the kernel
/// has no such clock, EFAULT if `time` is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn fastclock_gettime(
    clock: Option<&fastclock_t>,
    clock_id: c_int,
    time: Option<&mut MaybeUninit<libc::timespec>>,
) -> c_int {
    let Some(fastclock_t(clock)) = clock else { return failed(libc::EINVAL) };
    let Some(time) = time else { return failed(libc::EFAULT) };
    let reading = match clock_id {
        libc::CLOCK_MONOTONIC => clock.timespec(PageClock::Monotonic),
        libc::CLOCK_REALTIME => clock.timespec(PageClock::Realtime),
        libc::CLOCK_BOOTTIME => clock.timespec(PageClock::Boottime),
        libc::CLOCK_TAI => clock.timespec(PageClock::Tai),
        _ => match fastclock::sys::gettime(clock_id) {
            Ok(reading) => reading,
            Err(error) => return failed(error),
        },
    };
    time.write(libc::timespec { tv_sec: reading.sec, tv_nsec: reading.nsec });
    0
}

/// Sets errno.
#[cold]
fn failed(error: c_int) -> c_int {
    // SAFETY: the C library gives the address of this thread's errno.
    unsafe { *libc::__errno_location() = error };
    FASTCLOCK_ERROR
}
