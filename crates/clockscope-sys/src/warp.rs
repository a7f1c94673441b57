//! Whether a reading on one CPU can be less than an earlier one on another.

use std::io;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::two_cpus::on_two_cpus;

/// Turns between two checks of the time.
const TURNS: u32 = 16;
/// Hand-overs to reach: on a busy machine the two threads seldom run at once.
const ENOUGH: u64 = 10_000;
/// To reach them, the time may be extended by up to this factor, ...
const LONGER: u32 = 8;
/// ... but not to more than this.
const LONGEST: Duration = Duration::from_secs(2);

/// The result of comparing the readings of two CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Warp {
    /// Readings right after another CPU's.
    pub handovers: u64,
    /// Number of readings less than the one before, by CPU.
    pub seen: [u64; 2],
    /// The largest step back, in the unit of the readings.
    pub max: u64,
    /// The least positive difference between a reading and the other CPU's before it.
    pub floor: Option<u64>,
}

impl Warp {
    /// Readings that were less than the one before.
    pub const fn count(&self) -> u64 {
        self.seen[0] + self.seen[1]
    }

    /// Both CPUs saw steps back, so no constant offset explains them.
    pub const fn is_random(&self) -> bool {
        self.seen[0] > 0 && self.seen[1] > 0
    }

    /// The index of the CPU that is behind, if it is always the same.
    pub const fn behind(&self) -> Option<usize> {
        match self.seen {
            [0, 0] => None,
            [_, 0] => Some(0),
            [0, _] => Some(1),
            _ => None,
        }
    }

    /// Adds a reading of one CPU that follows a reading of the other.
    fn add(&mut self, side: usize, before: i64, now: i64) {
        self.handovers += 1;
        let difference = now.abs_diff(before);
        if now < before {
            self.seen[side] += 1;
            self.max = self.max.max(difference);
        } else if now > before {
            self.floor = Some(self.floor.map_or(difference, |floor| floor.min(difference)));
        }
    }

    /// The sum of both results.
    pub fn and(self, other: Self) -> Self {
        let floors = [self.floor, other.floor];
        Self {
            handovers: self.handovers + other.handovers,
            seen: [self.seen[0] + other.seen[0], self.seen[1] + other.seen[1]],
            max: self.max.max(other.max),
            floor: floors.into_iter().flatten().min(),
        }
    }
}

/// This time, extended on demand if the two CPUs hardly ever run at once.
pub fn patiently(time: Duration) -> RangeInclusive<Duration> {
    time..=time.max((time * LONGER).min(LONGEST))
}

/// On a cache line of its own.
#[repr(align(128))]
struct Alone<T>(T);

/// The state that the two CPUs share.
struct Shared {
    /// The greatest reading so far.
    last: Alone<AtomicI64>,
    handovers: Alone<AtomicU64>,
}

/// Compares readings on two CPUs. Stops after the shorter time if there were enough hand-overs by then, otherwise goes
/// on up to the longer one.
///
/// # Errors
///
/// If one of the CPUs or threads is not available.
///
/// # References
///
/// - `check_tsc_warp` in `arch/x86/kernel/tsc_sync.c` (Linux 6.18) does it under a lock
pub fn measure(
    read: impl Fn() -> i64 + Sync,
    cpus: (u32, u32),
    time: &RangeInclusive<Duration>,
) -> io::Result<Warp> {
    let shared =
        Shared { last: Alone(AtomicI64::new(i64::MIN)), handovers: Alone(AtomicU64::new(0)) };
    let (first, second) =
        on_two_cpus(cpus, || side(&read, &shared, 0, time), || side(&read, &shared, 1, time))?;
    Ok(first.and(second))
}

/// The loop of one CPU. It takes no lock, so a preempted thread does not block the other one.
fn side(
    read: &impl Fn() -> i64,
    shared: &Shared,
    side: usize,
    time: &RangeInclusive<Duration>,
) -> Warp {
    let mut warp = Warp::default();
    let mut known = i64::MIN;
    let start = Instant::now();
    let is_over = |elapsed: Duration| {
        let is_enough = shared.handovers.0.load(Ordering::Relaxed) >= ENOUGH;
        elapsed >= *time.end() || elapsed >= *time.start() && is_enough
    };
    while !is_over(start.elapsed()) {
        let before = warp.handovers;
        for _ in 0..TURNS {
            // The reading follows this load, so it must not be less than the value loaded.
            let seen = shared.last.0.load(Ordering::Acquire);
            let now = read();
            if seen != known {
                warp.add(side, seen, now);
            }
            known = shared.last.0.fetch_max(now, Ordering::AcqRel).max(now);
        }
        shared.handovers.0.fetch_add(warp.handovers - before, Ordering::Relaxed);
    }
    warp
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{affinity, clock_reads};

    #[test]
    fn the_cpu_that_sees_time_go_back_is_behind() {
        let seen = |seen| Warp { seen, ..Warp::default() };
        assert_eq!(seen([0, 0]).behind(), None);
        assert_eq!(seen([3, 0]).behind(), Some(0));
        assert_eq!(seen([0, 3]).behind(), Some(1));
        assert_eq!(seen([1, 3]).behind(), None);
        assert!(seen([1, 3]).is_random() && !seen([0, 3]).is_random());
    }

    #[test]
    fn what_both_sides_saw_is_added() {
        let first = Warp { handovers: 5, seen: [1, 0], max: 9, floor: Some(70) };
        let second = Warp { handovers: 6, seen: [0, 2], max: 4, floor: None };
        let both = Warp { handovers: 11, seen: [1, 2], max: 9, floor: Some(70) };
        assert_eq!(first.and(second), both);
    }

    #[test]
    fn a_cpu_that_is_behind_is_seen() {
        let cpus = affinity::allowed().unwrap();
        let (Some(first), Some(last)) = (cpus.first(), cpus.get(1..).and_then(<[u32]>::last))
        else {
            skips::skip("there is only one CPU");
            return;
        };
        let read = || {
            let is_behind = affinity::current() == *last;
            clock_reads::counter_fenced() - if is_behind { 1_000_000_000 } else { 0 }
        };
        let time = patiently(Duration::from_millis(60));
        let warp = measure(read, (*first, *last), &time).unwrap();
        assert!(warp.handovers > 0 && warp.behind() == Some(1), "{warp:?}");
        assert!((1..=1_000_000_000).contains(&warp.max), "{warp:?}");
    }
}
