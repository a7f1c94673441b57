//! Answers from the clock page, which a thread of clockscope keeps: `--clock tsc` (ordered) and `--clock tsc-fast`.
//!
//! `fastclock` does the conversion. This file adds the parts that are particular to the functions of a vDSO. The kernel
//! answers if the page cannot, and for every clock that is not on the page: also for the coarse clocks and `time`,
//! which the kernel's vDSO answers in user space on every clocksource.

use core::arch::naked_asm;

use fastclock::arch::CpuCounter;
use fastclock::page::{Counter, Kernel, Order, Page, PageClock, Reader, TimeSpec, Trust};
use fastclock::{ClockId, Decline, Nanos};

use crate::arch::counter::{by_clock_code, zero};
use crate::layout::{CLOCK_OFFSET, Function, TRUST_OFFSET};
use crate::routes::{Timespec, Timeval, kernel_gettime, kernel_zone};
use crate::slots::{image_base, session, shared};
use crate::slow_reads::kernel;

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

/// `clock_gettime`: jumps to the function of the clock. Written in assembly, because the compiler would make a call and
/// test its result.
macro_rules! by_clock {
    ($($name:ident => $monotonic:ident, $realtime:ident, $boottime:ident, $tai:ident;)*) => {$(
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        extern "C" fn $name() {
            naked_asm!(
                ".cfi_startproc",
                by_clock_code!(),
                ".cfi_endproc",
                monotonic_id = const MONOTONIC,
                boottime_id = const BOOTTIME,
                tai_id = const TAI,
                monotonic = sym $monotonic,
                realtime = sym $realtime,
                boottime = sym $boottime,
                tai = sym $tai,
                kernel = const kernel(Function::ClockGettime),
            )
        }
    )*};
}

#[allow(unused_imports, reason = "arm64 has no functions of its own")]
pub(crate) use {by_clock, one_clock};

one_clock! {
    ordered_monotonic => MONOTONIC, reader(CpuCounter).try_timespec(PageClock::Monotonic, Order::Ordered);
    ordered_realtime => REALTIME, reader(CpuCounter).try_timespec(PageClock::Realtime, Order::Ordered);
    ordered_boottime => BOOTTIME, reader(CpuCounter).try_timespec(PageClock::Boottime, Order::Ordered);
    ordered_tai => TAI, reader(CpuCounter).try_timespec(PageClock::Tai, Order::Ordered);
    fast_monotonic => MONOTONIC, reader(CpuCounter).try_timespec(PageClock::Monotonic, Order::Unordered);
    fast_realtime => REALTIME, reader(CpuCounter).try_timespec(PageClock::Realtime, Order::Unordered);
    fast_boottime => BOOTTIME, reader(CpuCounter).try_timespec(PageClock::Boottime, Order::Unordered);
    fast_tai => TAI, reader(CpuCounter).try_timespec(PageClock::Tai, Order::Unordered);
}

by_clock! {
    tsc_clock_gettime => ordered_monotonic, ordered_realtime, ordered_boottime, ordered_tai;
    fast_clock_gettime => fast_monotonic, fast_realtime, fast_boottime, fast_tai;
}

/// `gettimeofday`, ordered.
#[unsafe(no_mangle)]
extern "C" fn tsc_gettimeofday(time: *mut Timeval, zone: *mut u8) -> i32 {
    gettimeofday(time, zone, CpuCounter, Order::Ordered)
}

/// `gettimeofday`, unordered.
#[unsafe(no_mangle)]
extern "C" fn fast_gettimeofday(time: *mut Timeval, zone: *mut u8) -> i32 {
    gettimeofday(time, zone, CpuCounter, Order::Unordered)
}

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
