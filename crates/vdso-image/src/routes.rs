//! Answers from the coarse clock.
//!
//! `--clock coarse` is the per-process form of `vsyscall64 = 2` (Red Hat Enterprise Linux 5 and 6).

use core::ffi::c_long;

use fastclock::ClockId;

use crate::layout::{CONFIG_OFFSET, Config, Function};
use crate::slots::image_base;

type ClockCall = extern "C" fn(i32, *mut Timespec) -> i32;
type TimeOfDay = extern "C" fn(*mut Timeval, *mut u8) -> i32;

/// `struct timespec`.
#[repr(C)]
pub(crate) struct Timespec {
    pub(crate) seconds: c_long,
    pub(crate) nanos: c_long,
}

/// `struct timeval`.
#[repr(C)]
pub(crate) struct Timeval {
    pub(crate) seconds: c_long,
    pub(crate) micros: c_long,
}

/// The address of a function of the kernel's.
#[inline(always)]
fn kernel(function: Function) -> u64 {
    // SAFETY: the page lies behind the image and is read-only since the installation.
    unsafe {
        let config = (image_base() + CONFIG_OFFSET) as *const Config;
        *(&raw const (*config).kernel).cast::<u64>().add(function as usize)
    }
}

/// The kernel's `clock_gettime`.
#[inline(always)]
pub(crate) fn kernel_gettime(clock: i32, time: *mut Timespec) -> i32 {
    // SAFETY: the word holds the address of the kernel's function; the installer wrote it.
    let call = unsafe { core::mem::transmute::<u64, ClockCall>(kernel(Function::ClockGettime)) };
    call(clock, time)
}

/// The kernel's `gettimeofday` of the time zone alone.
#[inline(always)]
pub(crate) fn kernel_zone(zone: *mut u8) -> i32 {
    // SAFETY: as above.
    let call = unsafe { core::mem::transmute::<u64, TimeOfDay>(kernel(Function::Gettimeofday)) };
    call(core::ptr::null_mut(), zone)
}

/// The coarse clock of the same family, which the kernel updates every tick; `clock` itself if there is none.
fn coarse(clock: i32) -> i32 {
    match clock {
        _ if clock == ClockId::Realtime.as_raw() => ClockId::RealtimeCoarse.as_raw(),
        _ if clock == ClockId::Monotonic.as_raw() => ClockId::MonotonicCoarse.as_raw(),
        _ => clock,
    }
}

/// `clock_gettime` from the coarse clock of the family.
#[unsafe(no_mangle)]
extern "C" fn coarse_clock_gettime(clock: i32, time: *mut Timespec) -> i32 {
    kernel_gettime(coarse(clock), time)
}

/// `clock_getres` of the clock that answers.
#[unsafe(no_mangle)]
extern "C" fn coarse_clock_getres(clock: i32, resolution: *mut Timespec) -> i32 {
    // SAFETY: as above.
    let call = unsafe { core::mem::transmute::<u64, ClockCall>(kernel(Function::ClockGetres)) };
    call(coarse(clock), resolution)
}

/// `gettimeofday` from `CLOCK_REALTIME_COARSE`; the kernel answers for the time zone.
#[unsafe(no_mangle)]
extern "C" fn coarse_gettimeofday(time: *mut Timeval, zone: *mut u8) -> i32 {
    if !zone.is_null() {
        let result = kernel_zone(zone);
        if result != 0 {
            return result;
        }
    }
    if time.is_null() {
        return 0;
    }
    let mut now = Timespec { seconds: 0, nanos: 0 };
    let result = coarse_clock_gettime(ClockId::Realtime.as_raw(), &raw mut now);
    if result == 0 {
        // SAFETY: writes to the program's pointer. A bad address faults here, as in the kernel's own function.
        unsafe { time.write(Timeval { seconds: now.seconds, micros: now.nanos / 1_000 }) };
    }
    result
}
