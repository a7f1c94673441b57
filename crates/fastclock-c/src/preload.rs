//! `libfastclock-preload.so`: `clock_gettime` and `gettimeofday` from a [`Clock`], for dynamically
//! linked programs that are started with `LD_PRELOAD`. docs/fastclock.md says when to use it.
//!
//! Every other clock is read from the kernel through the vDSO's own function, because this library
//! replaces the C library's function. `time` remains the C library's, which reads no clocksource.

#![allow(unsafe_code, reason = "the functions are called from C by their bare names")]

use std::ffi::c_int;
use std::panic::catch_unwind;
use std::ptr;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{Acquire, Release};

use fastclock::page::{PageClock, TimeSpec};
use fastclock::{Clock, sys};

/// The process's clock, which is never freed. Null until the library's constructor has made the
/// clock: constructors of other libraries, which may run before, get the kernel's answers.
static CLOCK: AtomicPtr<Clock> = AtomicPtr::new(ptr::null_mut());

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = make;

/// Makes the clock. Its memory is allocated here, because readings may be in signal handlers.
/// Readings open files by bare system calls.
extern "C" fn make() {
    if let Ok(clock) = catch_unwind(|| Box::into_raw(Box::new(Clock::new()))) {
        CLOCK.store(clock, Release);
    }
}

#[inline(always)]
fn clock() -> Option<&'static Clock> {
    // SAFETY: null or the clock that `make` has made, which is never freed.
    unsafe { CLOCK.load(Acquire).as_ref() }
}

/// 0, or -1 with `errno` from the kernel's answer.
#[cold]
#[inline(never)]
fn by_kernel(clock: c_int, time: *mut libc::timespec) -> c_int {
    // SAFETY: the program's own pointer; a bad one has the same fault or error as with the C
    // library.
    match unsafe { sys::gettime_at(clock, time) } {
        0 => 0,
        error => failed(-error),
    }
}

#[cold]
fn failed(error: c_int) -> c_int {
    // SAFETY: the C library gives the address of this thread's errno.
    unsafe { *libc::__errno_location() = error };
    -1
}

/// `clock_gettime(2)`, ordered.
///
/// # Safety
///
/// As for the C library's function: a pointer that cannot be written raises a signal, or gives
/// `EFAULT`.
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
            // SAFETY: guaranteed by the caller.
            unsafe { time.write(libc::timespec { tv_sec: sec, tv_nsec: nsec }) };
            0
        }
        _ => by_kernel(id, time),
    }
}

/// `gettimeofday(2)`, ordered. The time zone, which hardly any program asks for, is the kernel's.
///
/// # Safety
///
/// As for the C library's function.
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
        // SAFETY: guaranteed by the caller.
        unsafe { time.write(libc::timeval { tv_sec: sec, tv_usec: nsec / 1_000 }) };
    }
    if zone.is_null() {
        return 0;
    }
    let nothing = ptr::null_mut::<libc::timeval>();
    // SAFETY: guaranteed by the caller; the kernel checks the pointer. The call sets errno itself.
    match unsafe { libc::syscall(libc::SYS_gettimeofday, nothing, zone) } {
        0 => 0,
        _ => -1,
    }
}

/// The `fastclock_status()` of the clock that answers in this process: 0 if it answers by itself,
/// otherwise the reason's number; -1 if there is no clock yet.
#[unsafe(no_mangle)]
pub extern "C" fn fastclock_preload_status() -> c_int {
    let reason =
        |clock: &Clock| clock.status().declined.map_or(0, |why| why.as_raw().cast_signed());
    clock().map_or(-1, reason)
}
