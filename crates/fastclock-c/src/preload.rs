//! `libfastclock-preload.so`: `clock_gettime` and `gettimeofday` from a [`Clock`], for dynamically
//! linked programs that are started with `LD_PRELOAD`. docs/fastclock.md says when.
//!
//! Whatever the clock does not have is the kernel's answer, by the vDSO's own function: the C
//! library's is the one that is replaced here. `time` stays the C library's, which reads no
//! clocksource.

#![allow(unsafe_code, reason = "the functions are called from C by their bare names")]

use std::ffi::c_int;
use std::panic::catch_unwind;
use std::ptr;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{Acquire, Release};

use fastclock::page::{PageClock, TimeSpec};
use fastclock::{Clock, sys};

/// The process's clock, which is never freed; null until the library's constructor has made it:
/// constructors of other libraries, which may come before, get the kernel's answers.
static CLOCK: AtomicPtr<Clock> = AtomicPtr::new(ptr::null_mut());

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = make;

/// Makes the clock. What it allocates is allocated here, because readings may be in signal handlers; what they
/// open they open by bare system calls.
extern "C" fn make() {
    if let Ok(clock) = catch_unwind(|| Box::into_raw(Box::new(Clock::new()))) {
        CLOCK.store(clock, Release);
    }
}

#[inline(always)]
fn clock() -> Option<&'static Clock> {
    // SAFETY: null or what `make` has made, which lives for ever.
    unsafe { CLOCK.load(Acquire).as_ref() }
}

/// 0, or -1 with `errno` from the kernel's answer.
#[cold]
#[inline(never)]
fn by_kernel(clock: c_int, time: *mut libc::timespec) -> c_int {
    // SAFETY: the program's own pointer, for which it has the fault or the error that it has with
    // the C library.
    match unsafe { sys::gettime_at(clock, time) } {
        0 => 0,
        error => failed(-error),
    }
}

#[cold]
fn failed(error: c_int) -> c_int {
    // SAFETY: the C library gives the place of this thread's errno.
    unsafe { *libc::__errno_location() = error };
    -1
}

/// `clock_gettime(2)`, ordered.
///
/// # Safety
///
/// As of the C library's: a pointer that cannot be written raises a signal, or gives `EFAULT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(id: c_int, time: *mut libc::timespec) -> c_int {
    let which = match id {
        libc::CLOCK_MONOTONIC => PageClock::Monotonic,
        libc::CLOCK_REALTIME => PageClock::Realtime,
        libc::CLOCK_BOOTTIME => PageClock::Boottime,
        libc::CLOCK_TAI => PageClock::Tai,
        _ => return by_kernel(id, time),
    };
    match clock() {
        Some(clock) if !time.is_null() => {
            let TimeSpec { sec, nsec } = clock.timespec(which);
            // SAFETY: as the caller says.
            unsafe { time.write(libc::timespec { tv_sec: sec, tv_nsec: nsec }) };
            0
        }
        _ => by_kernel(id, time),
    }
}

/// `gettimeofday(2)`, ordered. The time zone, which hardly anybody asks for, is the kernel's.
///
/// # Safety
///
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gettimeofday(time: *mut libc::timeval, zone: *mut libc::c_void) -> c_int {
    if !time.is_null() {
        let TimeSpec { sec, nsec } = match clock() {
            Some(clock) => clock.timespec(PageClock::Realtime),
            None => match sys::gettime(libc::CLOCK_REALTIME) {
                Ok(now) => now,
                Err(error) => return failed(error),
            },
        };
        // SAFETY: as the caller says.
        unsafe { time.write(libc::timeval { tv_sec: sec, tv_usec: nsec / 1_000 }) };
    }
    if zone.is_null() {
        return 0;
    }
    let nothing = ptr::null_mut::<libc::timeval>();
    // SAFETY: as the caller says; the kernel checks the pointer. The call sets errno itself.
    match unsafe { libc::syscall(libc::SYS_gettimeofday, nothing, zone) } {
        0 => 0,
        _ => -1,
    }
}

/// What `fastclock_status()` gives for the clock that answers in this process: 0 if it answers by
/// itself, otherwise the reason's number; -1 if there is no clock yet.
#[unsafe(no_mangle)]
pub extern "C" fn fastclock_preload_status() -> c_int {
    let reason =
        |clock: &Clock| clock.status().declined.map_or(0, |why| why.as_raw().cast_signed());
    clock().map_or(-1, reason)
}
