//! Every reading of every clock, on any system: it lies between two readings of the standard
//! library, where that has the same clock. `make fastclock` also runs this with `--cfg
//! fastclock_portable`.

#![cfg(feature = "std")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use fastclock::page::{PageClock, TimeSpec};
use fastclock::{
    Bounded, Clock, ClockKind, Decline, KernelClock, MockClock, Monotonic, Nanos, ReadClock,
    Realtime, RecentUpdater, Source,
};

/// Every form of reading `CLOCK_MONOTONIC`, in turn, by threads that do not compare readings.
fn monotonic(clock: &Clock) -> [Monotonic; 5] {
    let Bounded { time: bounded, .. } = clock.now_bounded();
    let Bounded { time: bounded_fast, .. } = clock.now_bounded_fast();
    [clock.now(), clock.now_fast(), bounded, bounded_fast, clock.refresh_recent()]
}

fn realtime(clock: &impl ReadClock) -> [Realtime; 4] {
    let (bounded, bounded_fast) = (clock.realtime_bounded(), clock.realtime_bounded_fast());
    [clock.realtime(), clock.realtime_fast(), bounded.time, bounded_fast.time]
}

fn clocks() -> Vec<Clock> {
    let clocks = [Clock::new(), Clock::alone(), Clock::declined(Decline::Warp), Clock::default()];
    for clock in &clocks {
        clock.calibrate(Duration::from_secs(5));
    }
    clocks.into()
}

#[test]
fn a_span_is_as_long_as_the_standard_librarys() {
    for clock in clocks() {
        let outer = Instant::now();
        let first = clock.now_bounded();
        let inner = Instant::now();
        while inner.elapsed() < Duration::from_millis(20) {}
        let least = inner.elapsed();
        let last = clock.now_bounded();
        let most = outer.elapsed();
        // The rates of the two clocks can differ on systems that do not slew the clock of
        // `Instant`.
        let doubt = first.bound.as_duration() + last.bound.as_duration() + least / 1_000;
        let span = last.time.saturating_since(first.time).as_duration();
        assert!(span + doubt >= least && span <= most + doubt, "{least:?} {span:?} {most:?}");
        assert_eq!(clock.elapsed(last.time.saturating_add(Nanos(i64::MAX))), Nanos::ZERO);
        assert_eq!(clock.status().negative, 1);
    }
}

#[test]
fn the_wall_clock_is_the_standard_librarys() {
    let bound = |clock: &Clock| clock.realtime_bounded().bound;
    for clock in clocks() {
        let first = bound(&clock);
        let before = SystemTime::now();
        let all = realtime(&clock);
        let after = SystemTime::now();
        let doubt = first.max(bound(&clock)).as_duration() + Duration::from_micros(1);
        for time in all.map(SystemTime::from) {
            assert!(
                before - doubt <= time && time <= after + doubt,
                "{before:?} {time:?} {after:?}"
            );
        }
        let second = SystemTime::from(clock.second());
        assert!(second <= after + doubt);
        assert_eq!(clock.second().as_nanos() % 1_000_000_000, 0);
        // International atomic time is ahead by a whole number of leap seconds, if the system knows
        // them.
        let ahead = clock.tai().as_nanos() - clock.realtime().as_nanos();
        assert!((-1_000_000_000..=60_000_000_000).contains(&ahead), "{ahead}");
    }
}

#[test]
fn no_reading_goes_back() {
    for clock in clocks() {
        let mut last = clock.now();
        for _ in 0..1_000 {
            let next = clock.now();
            assert!(next >= last);
            last = next;
        }
        let [.., last] = monotonic(&clock);
        assert!(clock.recent() >= last);
        assert!(clock.boottime() <= clock.boottime());
        assert!(clock.coarse() <= clock.coarse());
        let TimeSpec { sec, nsec } = clock.timespec(PageClock::Monotonic);
        assert!(Nanos::from_timespec(sec, nsec) >= last.into());
        for kind in [ClockKind::Precise, ClockKind::Coarse, ClockKind::Second] {
            assert!(clock.resolution(kind) >= Nanos(1), "{kind:?}");
        }
    }
}

#[test]
fn threads_never_see_an_ordered_reading_go_back() {
    let clock = Clock::global();
    let latest = std::sync::atomic::AtomicI64::new(i64::MIN);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20_000 {
                    let seen = latest.load(std::sync::atomic::Ordering::Acquire);
                    let now = clock.now().as_nanos();
                    assert!(now >= seen, "{now} after {seen}");
                    latest.fetch_max(now, std::sync::atomic::Ordering::AcqRel);
                }
            });
        }
    });
}

#[test]
fn a_clock_without_an_answer_of_its_own_says_why() {
    let clock = Clock::declined(Decline::Warp);
    let before = clock.status().kernel_answers_for(Decline::Warp);
    let reading = clock.now_bounded();
    assert_eq!((reading.bound, reading.declined), (Nanos::ZERO, Some(Decline::Warp)));
    let status = clock.calibrate(Duration::from_secs(5));
    assert_eq!((status.source, status.declined), (Source::Kernel, Some(Decline::Warp)));
    assert!(status.kernel_answers_for(Decline::Warp) > before && !status.is_fast());
    assert!(Clock::from_path(Path::new("/does/not/exist")).is_err());
}

#[test]
fn kernel_and_mock_are_clocks_too() {
    let mock = MockClock::new();
    mock.advance(Nanos(5));
    assert_eq!((mock.now(), realtime(&mock)), (Monotonic(Nanos(5)), [Realtime(Nanos(5)); 4]));
    let before = SystemTime::now();
    let [first, ..] = realtime(&KernelClock);
    assert!(SystemTime::from(first) + Duration::from_micros(1) >= before);
    let first = KernelClock.now();
    assert!(KernelClock.now() >= first);
}

#[test]
fn recent_is_what_was_refreshed_last() {
    let clock = Arc::new(Clock::new());
    let first = clock.recent();
    assert_eq!(clock.recent(), first);
    assert_eq!(clock.resolution(ClockKind::Recent), Nanos::ZERO);
    while clock.refresh_recent() == first {}
    assert!(clock.recent() > first && clock.recent() <= clock.now());
    let updater = RecentUpdater::start(Arc::clone(&clock), Duration::from_micros(100)).unwrap();
    assert_eq!(clock.resolution(ClockKind::Recent), Nanos(100_000));
    for _ in 0..3 {
        let before = clock.recent();
        while clock.recent() == before {}
        assert!(clock.recent() > before && clock.recent() <= clock.now());
    }
    drop(updater);
    assert_eq!(clock.resolution(ClockKind::Recent), Nanos::ZERO);
    assert_eq!(clock.recent(), clock.recent());
}
