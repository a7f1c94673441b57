//! One batch: a loop of calls, timed between two control loops.

use std::hint::black_box;

use fastclock::ClockId;

use clockscope_stats::gate::Batch;
use clockscope_sys::loops::Loop;
use clockscope_sys::{affinity, tsc};

/// Least length of a batch, in nanoseconds: the clock readings at its ends are then negligible, and many
/// batches fit between two disturbances.
pub const BATCH_NS: u64 = 200_000;
/// Turns of the control loop, of a cycle to a few each.
const CONTROL_TURNS: u64 = 10_000;
/// Share of a batch's turns that run before it, to warm up caches and predictors.
const WARM_UP: u64 = 16;
/// Trials of a number of calls; all must last long enough. A disturbance makes a batch longer, never shorter.
const TRIES: u32 = 3;
/// Limit for the calls of a batch: one turn of a loop costs more than a picosecond.
const CALLS_MAX: u64 = 1 << 40;

/// The turns that [`timed`] makes before it times `calls` turns.
pub(crate) const fn warm_up_calls(calls: u64) -> u64 {
    calls.div_ceil(WARM_UP)
}

/// Makes `calls` turns of `calling` between two control loops, after a warm-up.
pub fn timed(calling: &Loop, calls: u64) -> Batch {
    calling.run(warm_up_calls(calls));
    let switches = affinity::involuntary_switches();
    let control_before_ns = control();
    let ns = duration(|| calling.run(calls));
    let control_after_ns = control();
    let involuntary_switches = affinity::involuntary_switches() - switches;
    Batch { calls, ns, control_before_ns, control_after_ns, involuntary_switches }
}

/// The number of calls in a batch, and the cost of finding it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calibration {
    /// The least power of two for which a batch lasts long enough.
    pub calls: u64,
    /// Calls made to find it.
    pub made: u64,
}

/// Doubles the calls until a batch lasts `batch_ns`.
pub fn calibrate(calling: &Loop, batch_ns: u64) -> Calibration {
    let mut found = Calibration { calls: 1, made: 0 };
    let mut is_short = |calls: u64| {
        found.made += calls;
        duration(|| calling.run(calls)) < batch_ns
    };
    while found.calls < CALLS_MAX && (0..TRIES).any(|_| is_short(found.calls)) {
        found.calls *= 2;
    }
    found
}

/// The time of a loop of pure user code, in nanoseconds.
fn control() -> u64 {
    duration(|| {
        // Each turn goes through memory, without anything slower beside it: such a loop notices a busy
        // sibling hyperthread, which a chain of multiplications does not (docs/measuring.md).
        let mut value = 1_u64;
        for _ in 0..CONTROL_TURNS {
            value = black_box(value.wrapping_add(1));
        }
    })
}

/// Time of `work`, in nanoseconds, by a clock that is never slewed.
fn duration(work: impl FnOnce()) -> u64 {
    let start = tsc::now(ClockId::MonotonicRaw);
    work();
    let end = tsc::now(ClockId::MonotonicRaw);
    end.0.saturating_sub(start.0).max(0).cast_unsigned()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use clockscope_sys::loops::Loop;

    #[test]
    fn a_batch_makes_as_many_calls_as_it_says_and_is_timed() {
        let calls = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&calls);
        let calling = Loop::around(move || {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        let Calibration { calls: enough, made } = calibrate(&calling, 50_000);
        assert!(enough > 100, "{enough} calls take 50 us");
        assert_eq!(calls.load(Ordering::Relaxed), made);
        calls.store(0, Ordering::Relaxed);
        let sample = timed(&calling, enough);
        let made = enough + warm_up_calls(enough);
        assert_eq!((calls.load(Ordering::Relaxed), sample.calls), (made, enough));
        assert!(sample.control_before_ns > 0 && sample.ns > 0);
    }
}
