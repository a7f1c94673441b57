//! Loops around one call, compiled as a user's loop would be: the call is a closure that is inlined
//! into each of the loops, so that nothing but the loop itself is added to it.

use std::hint::black_box;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that the memory-bound work reaches into: more than a cache holds.
pub(crate) const WORK_MEMORY: usize = 64 << 20;
/// Multiplications beside a call in compute-bound work.
const MULTIPLICATIONS: usize = 32;
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Where memory-bound work goes on: a loop that began anew would find in the cache what the loop
/// before it has loaded.
static NEXT_PLACE: AtomicU64 = AtomicU64::new(1);

/// A loop: the argument says how many turns.
pub struct Loop(Box<dyn Fn(u64) + Send + Sync>);

impl Loop {
    /// Makes this many turns, on the calling thread.
    pub fn run(&self, turns: u64) {
        (self.0)(turns);
    }

    fn of(turns: impl Fn(u64) + Send + Sync + 'static) -> Self {
        Self(Box::new(turns))
    }
}

impl std::fmt::Debug for Loop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Loop")
    }
}

/// The loops around one call.
#[derive(Debug)]
pub struct Loops {
    /// Calls back to back.
    pub plain: Loop,
    /// One call a turn beside about 10 ns of independent multiplications.
    pub in_compute: Loop,
    /// One call a turn beside one load from a random place of `WORK_MEMORY`.
    pub in_memory: Loop,
}

impl Loops {
    /// The loops around `call`. An empty closure gives the loops without a call.
    pub fn around(call: impl Fn() + Send + Sync + Clone + 'static) -> Self {
        let (compute, memory) = (call.clone(), call.clone());
        Self {
            plain: Loop::of(move |turns| plain(turns, &call)),
            in_compute: Loop::of(move |turns| in_compute(turns, &compute)),
            in_memory: Loop::of(move |turns| in_memory(turns, &memory)),
        }
    }

    /// The same for a call that must be set up anew after at most `longest` calls: `before` is
    /// called before the first turn, and again after each `longest` turns.
    pub(crate) fn in_stretches(
        longest: u64,
        before: impl Fn() + Send + Sync + Clone + 'static,
        call: impl Fn() + Send + Sync + Clone + 'static,
    ) -> Self {
        let Self { plain, in_compute, in_memory } = Self::around(call);
        let stretched = |stretch: Loop| {
            let before = before.clone();
            Loop::of(move |turns| {
                let mut left = turns;
                while left > 0 {
                    before();
                    stretch.run(left.min(longest));
                    left -= left.min(longest);
                }
            })
        };
        Self {
            plain: stretched(plain),
            in_compute: stretched(in_compute),
            in_memory: stretched(in_memory),
        }
    }
}

/// The turn's counter passes through a register that the compiler cannot see into: the loop is
/// neither unrolled nor left out.
#[inline(always)]
fn plain(turns: u64, call: &impl Fn()) {
    let mut turn = 0;
    while turn < turns {
        call();
        turn = black_box_register(turn + 1);
    }
}

/// A CPU begins one multiplication a cycle: 32 of them, of which each waits for the one before it in
/// its lane only, take about 10 ns at 3 GHz.
#[inline(always)]
fn in_compute(turns: u64, call: &impl Fn()) {
    let mut lanes = [3_u64, 5, 7, 11];
    let mut turn = 0;
    while turn < turns {
        for _ in 0..MULTIPLICATIONS / lanes.len() {
            for lane in &mut lanes {
                *lane = black_box_register(lane.wrapping_mul(FACTOR));
            }
        }
        call();
        turn = black_box_register(turn + 1);
    }
    black_box(lanes);
}

#[inline(always)]
fn in_memory(turns: u64, call: &impl Fn()) {
    let memory = work_memory();
    let mask = memory.len() - 1;
    let mut place = NEXT_PLACE.load(Ordering::Relaxed);
    let mut sum = 0_u64;
    let mut turn = 0;
    while turn < turns {
        // A linear congruential generator: the place is known early, the load is what takes time.
        place =
            place.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let at = (place >> 33) as usize & mask;
        sum = black_box_register(sum.wrapping_add(memory[at]));
        call();
        turn = black_box_register(turn + 1);
    }
    NEXT_PLACE.store(place, Ordering::Relaxed);
    black_box(sum);
}

/// The words of the memory that memory-bound work reaches into, every page touched; a power of two of
/// them.
fn work_memory() -> &'static [u64] {
    static MEMORY: OnceLock<Vec<u64>> = OnceLock::new();
    MEMORY.get_or_init(|| {
        let words = (WORK_MEMORY / size_of::<u64>()) as u64;
        (0..words).map(|word| word.wrapping_mul(FACTOR)).collect()
    })
}

/// Hides a value from the compiler without a trip through memory, unlike [`black_box`].
#[inline(always)]
fn black_box_register(mut value: u64) -> u64 {
    // SAFETY: an empty instruction that only claims to change the register.
    unsafe {
        std::arch::asm!("/* {0} */", inout(reg) value, options(nomem, nostack, preserves_flags))
    };
    value
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_call_is_set_up_anew_before_each_stretch() {
        let (set_up, calls) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (before, call) = (Arc::clone(&set_up), Arc::clone(&calls));
        let add = |counter: &AtomicU64| {
            counter.fetch_add(1, Ordering::Relaxed);
        };
        let loops = Loops::in_stretches(10, move || add(&before), move || add(&call));
        for (turns, stretches) in [(0, 0), (1, 1), (10, 1), (11, 2), (35, 4)] {
            for one in [&loops.plain, &loops.in_compute, &loops.in_memory] {
                let counts = || (set_up.load(Ordering::Relaxed), calls.load(Ordering::Relaxed));
                let (set_up_before, calls_before) = counts();
                one.run(turns);
                assert_eq!(counts(), (set_up_before + stretches, calls_before + turns));
            }
        }
    }

    #[test]
    fn each_loop_calls_once_a_turn() {
        let calls = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&calls);
        let loops = Loops::around(move || {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        for (turns, one) in [(7, &loops.plain), (11, &loops.in_compute), (13, &loops.in_memory)] {
            let before = calls.load(Ordering::Relaxed);
            one.run(turns);
            assert_eq!(calls.load(Ordering::Relaxed) - before, turns);
            one.run(0);
            assert_eq!(calls.load(Ordering::Relaxed) - before, turns);
        }
    }
}
