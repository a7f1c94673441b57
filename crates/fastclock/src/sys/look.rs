//! Reading the kernel's clocks and the counter together.

use crate::clock_id::ClockId;
use crate::discipline::Reading;
use crate::line::Offsets;
use crate::page::Counter;
use crate::units::{Nanos, Ticks};

/// Time after which a look ends even if it has not had its brackets, ns: on `acpi_pm` a read takes
/// 1 to 11 us.
const BUDGET: i64 = 100_000;
/// Brackets after the first that a look takes in any case: a thread that loses its CPU may have
/// used up the time.
const FEWEST: usize = 8;
/// Number of attempts to read the coarse clocks: a timer tick falls between three reads once in
/// 100,000 times.
const TRIES: usize = 8;
/// Number of times that a clock without a coarse version is read between two readings of
/// `CLOCK_MONOTONIC`.
const SANDWICHES: usize = 4;

/// Reads one of the kernel's clocks through the vDSO's function, if there is one. The C library is
/// not involved.
#[inline]
pub fn now(clock: ClockId) -> Nanos {
    let time = super::gettime(clock.as_raw()).unwrap_or_default();
    Nanos::from_timespec(time.sec, time.nsec)
}

/// Reads the clock by a system call, for threads in which the vDSO must not read the counter.
pub fn now_by_syscall(clock: ClockId) -> Nanos {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a local of the right type; on failure it stays zero.
    unsafe { libc::syscall(libc::SYS_clock_gettime, clock.as_raw(), &raw mut time) };
    Nanos::from_timespec(time.tv_sec, time.tv_nsec)
}

/// A clock's resolution by the kernel: see `clock_getres(2)`.
pub fn resolution(clock: ClockId) -> Nanos {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: as above.
    unsafe { libc::clock_getres(clock.as_raw(), &raw mut time) };
    Nanos::from_timespec(time.tv_sec, time.tv_nsec)
}

/// The tightest of `brackets` looks at the kernel's clocks, or of fewer if they take long: 100 us
/// at most, unless the first nine take longer. Safe to call in a signal handler.
pub fn look(counter: &impl Counter, brackets: usize) -> Reading {
    look_with(counter, brackets, now)
}

/// As [`look`], but reads the clocks by `now`.
pub fn look_with(
    counter: &impl Counter,
    brackets: usize,
    now: impl Fn(ClockId) -> Nanos,
) -> Reading {
    let (ticks, width, mono) = tightest(counter, brackets, &now);
    let (real, offsets_half_width) = real(&now);
    let (boot, boot_half_width) = sandwiched(ClockId::Boottime, &now);
    let (tai, _) = sandwiched(ClockId::Tai, &now);
    Reading {
        ticks,
        half_width: Ticks(width / 2 + 1),
        mono,
        offsets: Offsets { real, boot, tai },
        offsets_half_width,
        boot_half_width,
    }
}

/// The middle and the width of the tightest bracket, and the clock read in it. The end of one
/// bracket is the beginning of the next.
fn tightest(
    counter: &impl Counter,
    brackets: usize,
    now: &impl Fn(ClockId) -> Nanos,
) -> (Ticks, u64, Nanos) {
    let mut before = counter.ordered().0;
    let mut bracket = || {
        let mono = now(ClockId::Monotonic);
        let after = counter.ordered().0;
        let width = after.saturating_sub(before);
        let middle = Ticks(before.saturating_add(width / 2));
        before = after;
        (middle, width, mono)
    };
    let mut best = bracket();
    let begin = best.2;
    for done in 1..brackets {
        let next = bracket();
        let late = next.2.0.saturating_sub(begin.0) >= BUDGET;
        if next.1 < best.1 {
            best = next;
        }
        if late && done >= FEWEST {
            break;
        }
    }
    best
}

/// `CLOCK_REALTIME` minus `CLOCK_MONOTONIC` and the largest error of that, ns.
///
/// Both coarse clocks are copies of one time of the timekeeper: within a tick their difference is
/// the constant itself, to the nanosecond.
///
/// # References
///
/// `update_vdso_time_data` in kernel/time/vsyscall.c (Linux 6.18)
fn real(now: &impl Fn(ClockId) -> Nanos) -> (Nanos, u64) {
    let (offset, half_width) = sandwiched(ClockId::Realtime, now);
    let exact = (0..TRIES).find_map(|_| {
        let before = now(ClockId::MonotonicCoarse);
        let real = now(ClockId::RealtimeCoarse);
        let after = now(ClockId::MonotonicCoarse);
        (before == after && before != Nanos::ZERO).then(|| Nanos(real.0.saturating_sub(before.0)))
    });
    match exact {
        Some(exact) if exact.0.abs_diff(offset.0) <= half_width => (exact, 0),
        // The time was set between the reads, or the kernel works in another way.
        _ => (offset, half_width),
    }
}

/// A clock minus `CLOCK_MONOTONIC` and the largest error of that in ns, from readings before and
/// after it.
fn sandwiched(clock: ClockId, now: &impl Fn(ClockId) -> Nanos) -> (Nanos, u64) {
    let sandwich = || {
        let before = now(ClockId::Monotonic);
        let other = now(clock);
        let after = now(ClockId::Monotonic);
        let width = after.0.saturating_sub(before.0).max(0);
        let middle = before.0.saturating_add(width / 2);
        (Nanos(other.0.saturating_sub(middle)), width.unsigned_abs() / 2 + 2)
    };
    let all = (0..SANDWICHES).map(|_| sandwich());
    all.min_by_key(|(_, half_width)| *half_width).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;

    /// A kernel in which each reading takes 20 ns.
    fn kernel(tick: i64, real: i64, boot: i64, tai: i64) -> impl Fn(ClockId) -> Nanos {
        let time = Cell::new(1_000_000_000_i64);
        move |clock| {
            time.set(time.get() + 20);
            let mono = time.get();
            let last = mono / tick * tick;
            Nanos(match clock {
                ClockId::MonotonicCoarse => last,
                ClockId::RealtimeCoarse => last + real,
                ClockId::Realtime => mono + real,
                ClockId::Boottime => mono + boot,
                ClockId::Tai => mono + real + tai,
                _ => mono,
            })
        }
    }

    #[test]
    fn the_offset_of_realtime_is_exact_within_a_tick() {
        let time = kernel(4_000_000, 1_700_000_000_123_456_789, 0, 0);
        assert_eq!(real(&time), (Nanos(1_700_000_000_123_456_789), 0));
    }

    #[test]
    fn ticks_in_every_look_leave_a_bracket() {
        let time = kernel(20, 12_345, 0, 0);
        let (offset, half_width) = real(&time);
        assert!(offset.0.abs_diff(12_345) <= half_width && half_width <= 22, "{offset:?}");
    }

    #[test]
    fn other_clocks_are_found_between_two_readings() {
        let time = kernel(4, 5, 777_000, 37_000_000_000);
        let (boot, half_width) = sandwiched(ClockId::Boottime, &time);
        assert!(boot.0.abs_diff(777_000) <= half_width && half_width <= 22, "{boot:?}");
        let (tai, half_width) = sandwiched(ClockId::Tai, &time);
        assert!(tai.0.abs_diff(37_000_000_005) <= half_width, "{tai:?}");
    }

    #[test]
    fn the_system_call_agrees_with_the_vdso() {
        let (before, between, after) =
            (now(ClockId::Monotonic), now_by_syscall(ClockId::Monotonic), now(ClockId::Monotonic));
        assert!(before <= between && between <= after, "{before:?} {between:?} {after:?}");
        assert_eq!(resolution(ClockId::Monotonic), Nanos(1));
    }
}
