//! Answers from the clock page, which a thread of clockscope keeps: `--clock tsc` (ordered, by
//! `rdtscp` where the CPU has it) and `--clock tsc-fast`.
//!
//! The conversion is `fastclock`'s own; here is only what the functions of a vDSO add to it. Where
//! the page does not answer, and for every clock that it does not have, the kernel does: also for
//! the coarse clocks and `time`, which its vDSO answers in user space on every clocksource.

use core::arch::{asm, naked_asm};

use fastclock::arch::{CpuCounter, CpuCounterP};
use fastclock::page::{Counter, Kernel, Order, Page, PageClock, Reader, TimeSpec, Trust};
use fastclock::{ClockId, Decline, Nanos};

use crate::layout::{CLOCK_OFFSET, CONFIG_OFFSET, Config, Function, TRUST_OFFSET};
use crate::routes::{ClockCall, TimeOfDay, Timespec, Timeval, kernel};
use crate::slots::{image_base, session, shared};

/// The kernel's own functions.
struct KernelFunctions;

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
fn reader<C: Counter>(counter: C) -> Reader<'static, C, KernelFunctions> {
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
fn answer(time: *mut Timespec, TimeSpec { sec, nsec }: TimeSpec) -> i32 {
    // SAFETY: the program's own pointer, see above.
    unsafe { time.write(Timespec { seconds: sec, nanos: nsec }) };
    0
}

/// Offset of the address of the kernel's `clock_gettime` from the image's base.
const KERNEL_GETTIME: usize =
    CONFIG_OFFSET + core::mem::offset_of!(Config, kernel) + 8 * Function::ClockGettime as usize;

const MONOTONIC: i32 = ClockId::Monotonic.as_raw();
const REALTIME: i32 = ClockId::Realtime.as_raw();
const BOOTTIME: i32 = ClockId::Boottime.as_raw();
const TAI: i32 = ClockId::Tai.as_raw();

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

one_clock! {
    ordered_monotonic => MONOTONIC, reader(CpuCounter).try_timespec(PageClock::Monotonic, Order::Ordered);
    ordered_realtime => REALTIME, reader(CpuCounter).try_timespec(PageClock::Realtime, Order::Ordered);
    ordered_boottime => BOOTTIME, reader(CpuCounter).try_timespec(PageClock::Boottime, Order::Ordered);
    ordered_tai => TAI, reader(CpuCounter).try_timespec(PageClock::Tai, Order::Ordered);
    ordered_p_monotonic => MONOTONIC, reader(CpuCounterP).try_timespec(PageClock::Monotonic, Order::Ordered);
    ordered_p_realtime => REALTIME, reader(CpuCounterP).try_timespec(PageClock::Realtime, Order::Ordered);
    ordered_p_boottime => BOOTTIME, reader(CpuCounterP).try_timespec(PageClock::Boottime, Order::Ordered);
    ordered_p_tai => TAI, reader(CpuCounterP).try_timespec(PageClock::Tai, Order::Ordered);
    fast_monotonic => MONOTONIC, reader(CpuCounter).try_timespec(PageClock::Monotonic, Order::Unordered);
    fast_realtime => REALTIME, reader(CpuCounter).try_timespec(PageClock::Realtime, Order::Unordered);
    fast_boottime => BOOTTIME, reader(CpuCounter).try_timespec(PageClock::Boottime, Order::Unordered);
    fast_tai => TAI, reader(CpuCounter).try_timespec(PageClock::Tai, Order::Unordered);
}

/// Bit of a clock's number for [`slow`]: microseconds are wanted.
const MICROS: i32 = 1 << 8;

/// A clock that the page has, where it does not answer at once; writes a `timespec`, or with [`MICROS`]
/// a `timeval`. All that needs much stack is called from here, the kernel's function above all.
#[cold]
#[inline(never)]
fn slow(clock: i32, time: *mut Timespec) -> i32 {
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
    let result;
    // SAFETY: sets a register to zero.
    unsafe { asm!("xor {0:e}, {0:e}", out(reg) result, options(pure, nomem, nostack)) };
    result
}

/// With microseconds in place of nanoseconds: a `timeval`, which has the same form.
#[inline(always)]
fn in_micros(time: TimeSpec) -> TimeSpec {
    TimeSpec { nsec: time.nsec / 1_000, ..time }
}

#[inline(always)]
fn gettimeofday(time: *mut Timeval, zone: *mut u8, now: impl FnOnce() -> Option<TimeSpec>) -> i32 {
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

/// `clock_gettime`: jumps to the function of the clock. Written out, because the compiler would
/// call, and look at what comes back.
macro_rules! by_clock {
    ($($name:ident => $monotonic:ident, $realtime:ident, $boottime:ident, $tai:ident;)*) => {$(
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        extern "C" fn $name() {
            naked_asm!(
                ".cfi_startproc",
                "cmp edi, {monotonic_id}", "je {monotonic}",
                "test edi, edi", "jz {realtime}",
                "cmp edi, {boottime_id}", "je {boottime}",
                "cmp edi, {tai_id}", "je {tai}",
                "jmp qword ptr [rip + __ehdr_start + {kernel}]",
                ".cfi_endproc",
                monotonic_id = const MONOTONIC,
                boottime_id = const BOOTTIME,
                tai_id = const TAI,
                monotonic = sym $monotonic,
                realtime = sym $realtime,
                boottime = sym $boottime,
                tai = sym $tai,
                kernel = const KERNEL_GETTIME,
            )
        }
    )*};
}

by_clock! {
    tsc_clock_gettime => ordered_monotonic, ordered_realtime, ordered_boottime, ordered_tai;
    tscp_clock_gettime => ordered_p_monotonic, ordered_p_realtime, ordered_p_boottime, ordered_p_tai;
    fast_clock_gettime => fast_monotonic, fast_realtime, fast_boottime, fast_tai;
}

/// `gettimeofday`, ordered.
#[unsafe(no_mangle)]
extern "C" fn tsc_gettimeofday(time: *mut Timeval, zone: *mut u8) -> i32 {
    gettimeofday(time, zone, || {
        reader(CpuCounter).try_timespec(PageClock::Realtime, Order::Ordered)
    })
}

/// The same, by `rdtscp`.
#[unsafe(no_mangle)]
extern "C" fn tscp_gettimeofday(time: *mut Timeval, zone: *mut u8) -> i32 {
    gettimeofday(time, zone, || {
        reader(CpuCounterP).try_timespec(PageClock::Realtime, Order::Ordered)
    })
}

/// `gettimeofday`, whenever the CPU likes to read the counter.
#[unsafe(no_mangle)]
extern "C" fn fast_gettimeofday(time: *mut Timeval, zone: *mut u8) -> i32 {
    gettimeofday(time, zone, || {
        reader(CpuCounter).try_timespec(PageClock::Realtime, Order::Unordered)
    })
}
