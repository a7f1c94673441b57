//! Answers from the clock page, which a thread of clockscope keeps: `--clock counter` (ordered)
//! and `--clock counter-fast`.
//!
//! The conversion is `fastclock`'s own; here is only what the functions of a vDSO add to it. Where
//! the page does not answer, and for every clock that it does not have, the kernel does: also for
//! the coarse clocks and `time`, which its vDSO answers in user space on every clocksource.

use fastclock::arch::CpuCounter;
use fastclock::page::{Counter, Kernel, Page, PageClock, Reader, TimeSpec, Trust};
use fastclock::{ClockId, Decline, Nanos};

use crate::arch::counter::zero;
use crate::layout::{CLOCK_OFFSET, CONFIG_OFFSET, Config, Function, TRUST_OFFSET};
use crate::routes::{ClockCall, TimeOfDay, Timespec, Timeval, kernel};
use crate::slots::{image_base, session, shared};

/// The kernel's own functions.
pub(crate) struct KernelFunctions;

impl Kernel for KernelFunctions {
    #[inline(always)]
    fn read(&self, clock: ClockId) -> Nanos {
        let mut time = Timespec { seconds: 0, nanos: 0 };
        kernel_gettime(clock.as_raw(), &raw mut time);
        Nanos::from_timespec(time.seconds, time.nanos)
    }

    #[inline(always)]
    fn declined(&self, reason: Decline) {
        if session().counting == 0 {
            return;
        }
        let declined = &shared().header.declined;
        let number = (reason.as_raw() as usize).min(declined.len() - 1);
        if let Some(count) = declined.get(number) {
            count.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
        }
    }
}

#[inline(always)]
fn kernel_gettime(clock: i32, time: *mut Timespec) -> i32 {
    // SAFETY: the word holds the address of the kernel's function, as the installer wrote it.
    let call = unsafe { core::mem::transmute::<u64, ClockCall>(kernel(Function::ClockGettime)) };
    call(clock, time)
}

#[inline(always)]
pub(crate) fn reader<C: Counter>(counter: C) -> Reader<'static, C, KernelFunctions> {
    let base = image_base();
    // SAFETY: these functions are reached only when the session has a clock page; the installer has
    // attached it and mapped the page for `Trust`, zeroed, before the image was made known. Both
    // consist of atomics.
    let (page, trust) = unsafe {
        (&*((base + CLOCK_OFFSET) as *const Page), &*((base + TRUST_OFFSET) as *const Trust))
    };
    Reader { page, trust, counter, kernel: KernelFunctions }
}

/// Writes where the program says, as the kernel's own function does; a bad address faults there as
/// it does here.
#[inline(always)]
pub(crate) fn answer(time: *mut Timespec, TimeSpec { sec, nsec }: TimeSpec) -> i32 {
    // SAFETY: the program's own pointer, see above.
    unsafe { time.write(Timespec { seconds: sec, nanos: nsec }) };
    0
}

/// Offset of the address of the kernel's `clock_gettime` from the image's base.
pub(crate) const KERNEL_GETTIME: usize =
    CONFIG_OFFSET + core::mem::offset_of!(Config, kernel) + 8 * Function::ClockGettime as usize;

pub(crate) const MONOTONIC: i32 = ClockId::Monotonic.as_raw();
pub(crate) const REALTIME: i32 = ClockId::Realtime.as_raw();
pub(crate) const BOOTTIME: i32 = ClockId::Boottime.as_raw();
pub(crate) const TAI: i32 = ClockId::Tai.as_raw();

/// One clock: the short way, without a stack frame; all that is rare is in [`slow`].
macro_rules! one_clock {
    ($($name:ident => $id:ident, $try:expr;)*) => {$(
        #[inline(never)]
        extern "C" fn $name(_clock: i32, time: *mut Timespec) -> i32 {
            match $try {
                Some(found) => answer(time, found),
                None => slow($id, time),
            }
        }
    )*};
}

pub(crate) use one_clock;

/// Bit of a clock's number for [`slow`]: microseconds are wanted.
const MICROS: i32 = 1 << 8;

/// A clock that the page has, where it does not answer at once; writes a `timespec`, or with [`MICROS`]
/// a `timeval`. All that needs much stack is called from here, the kernel's function above all.
#[cold]
#[inline(never)]
pub(crate) fn slow(clock: i32, time: *mut Timespec) -> i32 {
    let of_page = match clock & !MICROS {
        MONOTONIC => PageClock::Monotonic,
        BOOTTIME => PageClock::Boottime,
        TAI => PageClock::Tai,
        _ => PageClock::Realtime,
    };
    finish(clock, time, reader(CpuCounter).slow_in_place(of_page).time)
}

#[inline(never)]
fn finish(clock: i32, time: *mut Timespec, found: Nanos) -> i32 {
    let found = TimeSpec::from_nanos(found);
    answer(time, if clock & MICROS == 0 { found } else { in_micros(found) });
    // It is always 0. But if the compiler knew, its callers would say so themselves, and keep their
    // frames until then; as it is they jump.
    zero()
}

/// With microseconds in place of nanoseconds: a `timeval`, which has the same form.
#[inline(always)]
fn in_micros(time: TimeSpec) -> TimeSpec {
    TimeSpec { nsec: time.nsec / 1_000, ..time }
}

#[inline(always)]
pub(crate) fn gettimeofday(
    time: *mut Timeval,
    zone: *mut u8,
    now: impl FnOnce() -> Option<TimeSpec>,
) -> i32 {
    if !zone.is_null() {
        zone_by_kernel(zone);
    }
    if time.is_null() {
        return 0;
    }
    match now() {
        Some(now) => answer(time.cast(), in_micros(now)),
        None => slow(REALTIME | MICROS, time.cast()),
    }
}

/// The time zone, which only the kernel knows.
#[inline(never)]
fn zone_by_kernel(zone: *mut u8) {
    // SAFETY: as in `kernel_gettime`.
    let call = unsafe { core::mem::transmute::<u64, TimeOfDay>(kernel(Function::Gettimeofday)) };
    call(core::ptr::null_mut(), zone);
}
