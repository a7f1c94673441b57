//! Whether the counter of one CPU is behind another's.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fastclock::page::Counter;

use clockscope_sys::affinity;

/// No more CPUs than this are compared with the first; of more, some spread evenly. What is left
/// out shows while the timekeeper goes from CPU to CPU.
const OTHERS_MAX: usize = 16;
/// Turns between two looks at the time.
const TURNS: u32 = 16;

/// What the CPUs saw of each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Warp {
    /// CPUs that were compared with the first.
    pub others: usize,
    /// Readings right after another CPU's.
    pub handovers: u64,
    /// Readings that were less than an earlier one.
    pub backwards: u64,
    /// The worst, ticks.
    pub worst: u64,
}

/// Compares the first of the CPUs that this thread may use with the others, in `budget` for all pairs together;
/// `None` if there is only one, or the threads cannot be had.
///
/// # References
///
/// - `check_tsc_warp` in `arch/x86/kernel/tsc_sync.c` (Linux 6.18) does it under a lock
pub fn measure<C: Counter + Sync>(counter: &C, budget: Duration) -> Option<Warp> {
    let cpus = affinity::allowed().ok()?;
    let (first, others) = cpus.split_first()?;
    let others = spread(others, OTHERS_MAX);
    let time = budget.checked_div(u32::try_from(others.len()).ok()?)?;
    let mut sum = Warp::default();
    for other in others {
        let one = pair(counter, [*first, other], time)?;
        sum = Warp { others: sum.others + 1, ..sum.join(one) };
    }
    Some(sum)
}

/// At most `most` of them, the last included.
fn spread(all: &[u32], most: usize) -> Vec<u32> {
    let count = all.len().min(most);
    (1..=count).map(|index| all[index * all.len() / count - 1]).collect()
}

fn pair<C: Counter + Sync>(counter: &C, cpus: [u32; 2], time: Duration) -> Option<Warp> {
    let last = AtomicU64::new(0);
    let sides = std::thread::scope(|scope| {
        let side = |cpu: u32| {
            let last = &last;
            std::thread::Builder::new().name("warp".to_owned()).spawn_scoped(scope, move || {
                affinity::restrict_to(&[cpu]).ok()?;
                Some(watch(counter, last, time))
            })
        };
        let [one, two] = cpus.map(side);
        [one, two].map(|side| side.ok()?.join().ok().flatten())
    });
    let [one, two] = sides;
    Some(one?.join(two?))
}

/// One CPU's work. No lock: a thread that is taken off its CPU holds nobody up.
fn watch(counter: &impl Counter, last: &AtomicU64, time: Duration) -> Warp {
    let mut warp = Warp::default();
    let mut own = 0;
    let start = Instant::now();
    while start.elapsed() < time {
        for _ in 0..TURNS {
            // The counter is read after this load is done: what was seen had been read before.
            let seen = last.load(Ordering::Acquire);
            let now = counter.ordered().0;
            warp.handovers += u64::from(seen != own);
            if now < seen {
                warp.backwards += 1;
                warp.worst = warp.worst.max(seen - now);
            }
            own = last.fetch_max(now, Ordering::AcqRel).max(now);
        }
    }
    warp
}

impl Warp {
    const fn join(self, other: Self) -> Self {
        Self {
            others: self.others,
            handovers: self.handovers + other.handovers,
            backwards: self.backwards + other.backwards,
            worst: if self.worst > other.worst { self.worst } else { other.worst },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastclock::Ticks;
    use fastclock::arch::CpuCounter;

    const BUDGET: Duration = Duration::from_millis(60);

    #[test]
    fn some_are_taken_evenly_and_the_last_among_them() {
        assert_eq!(spread(&[1, 2, 3], 16), [1, 2, 3]);
        assert_eq!(spread(&[], 16), [0; 0]);
        let cpus: Vec<u32> = (1..256).collect();
        let some = spread(&cpus, 16);
        assert_eq!((some.len(), some[15]), (16, 255));
        assert!(some.windows(2).all(|pair| pair[0] < pair[1]));
    }

    /// A counter that is behind on one CPU.
    struct Behind(u32, u64);

    impl Counter for Behind {
        fn ordered(&self) -> Ticks {
            let now = CpuCounter.ordered();
            let is_behind = affinity::current() == self.0;
            Ticks(if is_behind { now.0 - self.1 } else { now.0 })
        }
        fn unordered(&self) -> Ticks {
            self.ordered()
        }
    }

    #[test]
    fn a_cpu_that_is_behind_is_seen() {
        let cpus = affinity::allowed().unwrap();
        let Some(last) = cpus.get(1..).and_then(<[u32]>::last) else {
            assert_eq!(measure(&CpuCounter, BUDGET), None);
            return;
        };
        let warp = measure(&Behind(*last, 1_000_000_000), BUDGET).unwrap();
        assert!(warp.others > 0 && warp.handovers > 0 && warp.backwards > 0, "{warp:?}");
        assert!((1..=1_000_000_000).contains(&warp.worst), "{warp:?}");
    }

    #[test]
    fn each_pair_is_compared() {
        let cpus = affinity::allowed().unwrap();
        let warp = measure(&CpuCounter, BUDGET);
        assert_eq!(warp.map_or(0, |warp| warp.others), (cpus.len() - 1).min(OTHERS_MAX));
    }
}
