//! Answers from the clock page, which a thread of clockscope keeps: `--clock tsc` (ordered) and `--clock tsc-fast`.
//!
//! `fastclock` does the conversion. This file adds the parts that are particular to the functions of a vDSO. The kernel
//! answers if the page cannot, and for every clock that is not on the page: also for the coarse clocks and `time`,
//! which the kernel's vDSO answers in user space on every clocksource.

use fastclock::arch::CpuCounter;
use fastclock::page::{Counter, Kernel, Order, Page, PageClock, Reader, TimeSpec, Trust};
use fastclock::{ClockId, Decline, Nanos};

use crate::arch::counter::zero;
use crate::layout::{CLOCK_OFFSET, TRUST_OFFSET};
use crate::routes::{Timespec, Timeval, kernel_gettime, kernel_zone};
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
pub(crate) fn reader<C: Counter>(counter: C) -> Reader<'static, C, KernelFunctions> {
    let base = image_base();
    // SAFETY: these functions run only if the session has a clock page. The installer has attached that page, and
    // mapped a zeroed page for `Trust`, before it made the image known. Both consist of atomics.
    let (page, trust) = unsafe {
        (&*((base + CLOCK_OFFSET) as *const Page), &*((base + TRUST_OFFSET) as *const Trust))
    };
    Reader { page, trust, counter, kernel: KernelFunctions }
}

/// Writes to the program's pointer. A bad address faults here, as in the kernel's own function.
#[inline(always)]
pub(crate) fn answer(time: *mut Timespec, TimeSpec { sec, nsec }: TimeSpec) -> i32 {
    // SAFETY: the pointer is the program's own, see above.
    unsafe { time.write(Timespec { seconds: sec, nanos: nsec }) };
    0
}

pub(crate) const MONOTONIC: i32 = ClockId::Monotonic.as_raw();
pub(crate) const REALTIME: i32 = ClockId::Realtime.as_raw();
pub(crate) const BOOTTIME: i32 = ClockId::Boottime.as_raw();
pub(crate) const TAI: i32 = ClockId::Tai.as_raw();

/// The functions of one clock: the fast path, without a stack frame. All rare cases are in [`slow`].
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

/// Flag in the clock number for [`slow`]: the caller wants microseconds.
const MICROS: i32 = 1 << 8;

/// Answers for a clock of the page that the fast path could not read. Writes a `timespec`, or with [`MICROS`] a
/// `timeval`. All code that needs much stack is called from here, above all the kernel's function.
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
    // The result is always 0. If the compiler knew that, the callers would set the result themselves after the call and
    // keep a stack frame until then. Now they jump instead.
    zero()
}

/// Converts nanoseconds to microseconds: the result is a `timeval`, which has the same layout.
#[inline(always)]
fn in_micros(time: TimeSpec) -> TimeSpec {
    TimeSpec { nsec: time.nsec / 1_000, ..time }
}

#[inline(always)]
pub(crate) fn gettimeofday(
    time: *mut Timeval,
    zone: *mut u8,
    counter: impl Counter,
    order: Order,
) -> i32 {
    if !zone.is_null() {
        zone_by_kernel(zone);
    }
    if time.is_null() {
        return 0;
    }
    match reader(counter).try_timespec(PageClock::Realtime, order) {
        Some(now) => answer(time.cast(), in_micros(now)),
        None => slow(REALTIME | MICROS, time.cast()),
    }
}

/// Asks the kernel for the time zone, which the page does not hold.
#[inline(never)]
fn zone_by_kernel(zone: *mut u8) {
    kernel_zone(zone);
}
