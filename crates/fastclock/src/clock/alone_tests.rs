//! Clocks that keep themselves: their start, their guards and their threads.

use core::sync::atomic::AtomicI64;
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use std::io::{Seek, SeekFrom, Write};
use std::string::ToString;
use std::time::Duration;

use super::Alone;
use crate::arch::TICKS_ARE_SHORT;
use crate::clock::{Clock, ClockKind, Source};
use crate::clock_id::ClockId;
use crate::decline::Decline;
use crate::points::Monotonic;
use crate::sys::{self, Mapping, VmClock};
use crate::units::Nanos;

const LONG: Duration = Duration::from_secs(20);

impl Clock {
    /// Takes one look now; true if the page changed.
    pub(crate) fn renew_for_test(&self) -> bool {
        if let Some(alone) = &self.alone {
            alone.look_next();
        }
        self.renew()
    }
}

/// A clock that answers by itself, or `None` if this machine's kernel does not use the counter.
fn calibrated() -> Option<Clock> {
    let clock = Clock::alone();
    answers_by_itself(&clock.calibrate(LONG)).then_some(clock)
}

/// Whether a calibrated clock is fast; if not, checks that its reason is a true one.
fn answers_by_itself(status: &crate::Status) -> bool {
    if status.is_fast() {
        return true;
    }
    let settled = [Decline::Clocksource, Decline::NotInvariant];
    assert!(settled.contains(&status.declined.unwrap()), "{status}");
    assert!(sys::counter_is_clocksource(&crate::arch::CpuCounter).is_err() || !sys::is_invariant());
    false
}

fn alone(alone: Alone) -> Clock {
    Clock::made(Mapping::anonymous(), Source::Alone, Some(alone), Decline::Starting)
}

pub(super) fn assert_within_bounds(clock: &Clock, readings: usize) {
    for _ in 0..readings {
        let before = sys::now(ClockId::Monotonic).0;
        let reading = clock.now_bounded();
        let after = sys::now(ClockId::Monotonic).0;
        let (time, bound) = (reading.time.as_nanos(), reading.bound.0);
        assert!(before <= time + bound && time - bound <= after, "{before} {reading:?} {after}");
    }
}

#[test]
fn the_kernel_answers_first_and_never_later_than_the_clock() {
    let clock = Clock::alone();
    assert!(clock.recent().as_nanos() > 0);
    let first = clock.now_bounded();
    assert!(first.declined.is_some() && first.bound == Nanos::ZERO, "{first:?}");
    assert_eq!(clock.status().kernel_answers(), 2, "the first of recent() and this");
    let mut last = first.time;
    // Calls alone make the clock fast; each is checked on the way.
    for _ in 0..50_000_000_u64 {
        let reading = clock.now_bounded();
        assert!(reading.time >= last, "{reading:?} after {last:?}");
        last = reading.time;
        if reading.declined != Some(Decline::Starting) {
            break;
        }
    }
    assert_within_bounds(&clock, 100_000);
}

#[test]
fn renewals_keep_it_within_its_bound() {
    let Some(clock) = calibrated() else { return };
    let before = clock.status();
    assert_eq!(before.source, Source::Alone);
    assert!(before.to_string().starts_with("keeps itself, within "), "{before}");
    for _ in 0..200 {
        let last = clock.now();
        assert!(clock.renew_for_test() || clock.status().is_fast());
        assert!(clock.now() >= last);
        assert_within_bounds(&clock, 100);
    }
    assert!(clock.status().renewals > before.renewals);
    // A usable counter has at least 1 MHz; ticks are short where it has 1 GHz or more.
    let largest = if TICKS_ARE_SHORT { 1 } else { 1_001 };
    let resolution = clock.resolution(ClockKind::Precise);
    assert!((1..=largest).contains(&resolution.0), "{resolution:?}");
}

#[test]
fn other_clocks_are_the_kernels() {
    let Some(clock) = calibrated() else { return };
    type Read = fn(&Clock) -> Nanos;
    let pairs: [(ClockId, Read); 5] = [
        (ClockId::Realtime, |clock| clock.realtime().0),
        (ClockId::Realtime, |clock| clock.realtime_fast().0),
        (ClockId::Boottime, |clock| clock.boottime().0),
        (ClockId::Tai, |clock| clock.tai().0),
        (ClockId::Monotonic, |clock| clock.now_fast().0),
    ];
    for (id, read) in pairs {
        // The time may be set meanwhile, but not a hundred times.
        let near = (0..100).any(|_| {
            let before = sys::now(id).0;
            let time = read(&clock).0;
            let after = sys::now(id).0;
            let bound = clock.now_bounded().bound.0 + 100;
            before <= time + bound && time - bound <= after
        });
        assert!(near, "{id}: {:?} {:?}", sys::now(id), read(&clock));
    }
}

#[test]
fn threads_that_pass_readings_on_never_see_time_go_back() {
    let clock = Clock::alone();
    clock.calibrate(LONG);
    let newest = AtomicI64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (clock, newest) = (&clock, &newest);
            scope.spawn(move || {
                for round in 0..300_000 {
                    let last = newest.load(Acquire);
                    let now = clock.now().as_nanos();
                    assert!(now >= last, "{now} after {last}");
                    newest.fetch_max(now, Relaxed);
                    if thread == 0 && round % 1_000 == 0 {
                        clock.renew_for_test();
                    }
                }
            });
        }
    });
}

#[test]
fn a_counter_that_is_not_invariant_is_left_alone() {
    let clock = alone(Alone::with(None, false));
    assert_within_bounds(&clock, 100);
    let status = clock.calibrate(LONG);
    assert_eq!(status.declined, Some(Decline::NotInvariant));
    assert!(status.kernel_answers_for(Decline::NotInvariant) >= 100);
}

#[test]
fn a_moved_machine_is_measured_anew() {
    let mut bytes = std::vec![0_u8; 4096];
    bytes[..4].copy_from_slice(b"VCLK");
    bytes[8] = 1;
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&bytes).unwrap();
    let vmclock = VmClock::at(file.path()).unwrap();
    let alone_with_vmclock = Alone::with(Some(vmclock), sys::is_invariant());
    let clock = alone(alone_with_vmclock);
    if !answers_by_itself(&clock.calibrate(LONG)) {
        return;
    }
    let last = clock.now();
    file.seek(SeekFrom::Start(16)).unwrap();
    file.write_all(&1_u64.to_le_bytes()).unwrap();
    clock.renew_for_test();
    // The line was ended a short time ahead.
    while clock.now_bounded().declined.is_none() {}
    assert_eq!(clock.now_bounded().declined, Some(Decline::Disrupted));
    assert!(clock.now() >= last);
    let mut last = clock.now();
    while let Some(reason) = clock.now_bounded().declined {
        assert!([Decline::Disrupted, Decline::Starting].contains(&reason), "{reason}");
        // The backoff is a second; the test does not wait for it.
        clock.renew_for_test();
        let next = clock.now();
        assert!(next >= last);
        last = next;
    }
    assert_within_bounds(&clock, 1_000);
}

#[test]
fn negative_differences_are_zero_and_counted() {
    let clock = Clock::declined(Decline::NoCounter);
    let ahead = clock.now().saturating_add(Nanos(1_000_000_000_000));
    assert_eq!(clock.elapsed(ahead), Nanos(0));
    assert_eq!(clock.between(ahead, Monotonic(Nanos(0))), Nanos(0));
    assert_eq!(clock.between(Monotonic(Nanos(1)), Monotonic(Nanos(3))), Nanos(2));
    assert_eq!(clock.between(Monotonic(Nanos(i64::MIN)), ahead), Nanos(i64::MAX));
    assert_eq!(clock.status().negative, 2);
}
