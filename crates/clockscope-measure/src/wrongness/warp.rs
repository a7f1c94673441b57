//! Whether a reading on one CPU can be less than an earlier one on another.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::pair::on_two_cpus;
use super::source::Readable;

/// Turns between two looks at the time.
const TURNS: u32 = 8;
/// Hand-overs that should come about: on a busy machine the two threads seldom run at once.
const ENOUGH: u64 = 10_000;
/// For them the time is made longer by up to this factor, ...
const LONGER: u32 = 8;
/// ... but not to more than this.
const LONGEST: Duration = Duration::from_secs(2);

/// What two CPUs saw of each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Warp {
    /// How often the lock went from one CPU to the other.
    pub handovers: u64,
    /// Readings less than the one before, by CPU.
    pub seen: [u64; 2],
    /// The worst of them, in the unit of the readings.
    pub max: u64,
    /// The least positive difference between a reading and the other CPU's before it.
    pub floor: Option<u64>,
}

impl Warp {
    /// Readings that were less than the one before.
    pub const fn count(&self) -> u64 {
        self.seen[0] + self.seen[1]
    }

    /// Seen from both sides: no constant offset explains it.
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

    fn join(self, other: Self) -> Self {
        let floors = [self.floor, other.floor];
        Self {
            handovers: self.handovers + other.handovers,
            seen: [self.seen[0] + other.seen[0], self.seen[1] + other.seen[1]],
            max: self.max.max(other.max),
            floor: floors.into_iter().flatten().min(),
        }
    }
}

/// What the two CPUs share, on a cache line of its own.
#[repr(align(128))]
struct Shared {
    lock: AtomicBool,
    last: AtomicI64,
    /// Who took it: 0 or 1, 2 at the start.
    writer: AtomicU64,
    /// Hand-overs so far.
    handovers: AtomicU64,
}

impl Shared {
    #[inline]
    fn acquire(&self) {
        while self
            .lock
            .compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            std::hint::spin_loop();
        }
    }

    #[inline]
    fn release(&self) {
        self.lock.store(false, Ordering::Release);
    }
}

/// Compares `source` on two CPUs for this time, or longer if they hardly meet in it.
///
/// # Errors
///
/// When one of the CPUs cannot be had.
///
/// # References
///
/// - `check_tsc_warp` in `arch/x86/kernel/tsc_sync.c` (Linux 6.18)
pub fn measure(source: &dyn Readable, cpus: (u32, u32), time: Duration) -> io::Result<Warp> {
    let shared = Shared {
        lock: AtomicBool::new(false),
        last: AtomicI64::new(i64::MIN),
        writer: AtomicU64::new(2),
        handovers: AtomicU64::new(0),
    };
    let (first, second) =
        on_two_cpus(cpus, || side(source, &shared, 0, time), || side(source, &shared, 1, time))?;
    Ok(first.join(second))
}

/// The work of one CPU.
fn side(source: &dyn Readable, shared: &Shared, own: usize, time: Duration) -> Warp {
    let mut warp = Warp::default();
    let start = Instant::now();
    let own_mark = own as u64;
    let longest = time.max((time * LONGER).min(LONGEST));
    let is_over = |elapsed: Duration| {
        let is_enough = shared.handovers.load(Ordering::Relaxed) >= ENOUGH;
        elapsed >= longest || elapsed >= time && is_enough
    };
    while !is_over(start.elapsed()) {
        for _ in 0..TURNS {
            shared.acquire();
            let last = shared.last.load(Ordering::Relaxed);
            let writer = shared.writer.load(Ordering::Relaxed);
            let now = source.read();
            shared.last.store(now, Ordering::Relaxed);
            shared.writer.store(own_mark, Ordering::Relaxed);
            let is_handover = writer == 1 - own_mark;
            let handovers = shared.handovers.load(Ordering::Relaxed);
            shared.handovers.store(handovers + u64::from(is_handover), Ordering::Relaxed);
            shared.release();
            if !is_handover {
                continue;
            }
            warp.handovers += 1;
            if now < last {
                warp.seen[own] += 1;
                warp.max = warp.max.max(last.abs_diff(now));
            } else if now > last {
                let ahead = now.abs_diff(last);
                warp.floor = Some(warp.floor.map_or(ahead, |floor| floor.min(ahead)));
            }
        }
        std::hint::spin_loop();
    }
    warp
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(first.join(second), both);
    }
}
