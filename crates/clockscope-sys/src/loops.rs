//! A loop around one call, compiled as a user's loop would be: the call is a closure that is inlined into the loop, so
//! the loop itself is the only overhead.

use fastclock::{ClockId, Nanos, Picos};

use super::tsc;

/// A loop; its argument is the number of turns.
pub struct Loop(Box<dyn Fn(u64) + Send + Sync>);

impl Loop {
    /// The loop around this call.
    pub fn around(call: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Box::new(move |turns| plain(turns, &call)))
    }

    /// [`Loop::around`], with `before` run before each stretch of at most `longest` calls: for a call that uses
    /// something up, such as a read up to the end of a file.
    pub(crate) fn in_stretches(
        longest: u64,
        before: impl Fn() + Send + Sync + 'static,
        call: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        Self(Box::new(move |turns| {
            let mut left = turns;
            while left > 0 {
                before();
                plain(left.min(longest), &call);
                left -= left.min(longest);
            }
        }))
    }

    /// Makes this many turns, on the calling thread.
    pub fn run(&self, turns: u64) {
        (self.0)(turns);
    }

    /// The time of one turn in the cheapest of so many batches, each of so many turns.
    pub fn cheapest(&self, batches: u32, turns: u64) -> Picos {
        let batch = |_| {
            let start = tsc::now(ClockId::MonotonicRaw);
            self.run(turns);
            Picos::per_call(Nanos(tsc::now(ClockId::MonotonicRaw).0 - start.0), turns)
        };
        (0..batches).map(batch).min().unwrap_or_default()
    }
}

/// The turn's counter passes through a register whose value the compiler cannot know, so the compiler neither unrolls
/// nor removes the loop.
#[inline(always)]
fn plain(turns: u64, call: &impl Fn()) {
    let mut turn = 0;
    while turn < turns {
        call();
        turn = black_box_register(turn + 1);
    }
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
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn the_cheapest_batch_is_no_longer_than_a_usual_one() {
        let slow = Loop::around(|| {
            let end = std::time::Instant::now() + std::time::Duration::from_micros(100);
            while std::time::Instant::now() < end {}
        });
        assert!(slow.cheapest(3, 2) >= Picos(99_000_000));
        assert!(Loop::around(|| ()).cheapest(20, 1_000) < Picos(100_000));
    }

    #[test]
    fn a_call_is_set_up_anew_before_each_stretch() {
        let (set_up, calls) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (before, call) = (Arc::clone(&set_up), Arc::clone(&calls));
        let add = |counter: &AtomicU64| {
            counter.fetch_add(1, Ordering::Relaxed);
        };
        let calling = Loop::in_stretches(10, move || add(&before), move || add(&call));
        for (turns, stretches) in [(0, 0), (1, 1), (10, 1), (11, 2), (35, 4)] {
            let counts = || (set_up.load(Ordering::Relaxed), calls.load(Ordering::Relaxed));
            let (set_up_before, calls_before) = counts();
            calling.run(turns);
            assert_eq!(counts(), (set_up_before + stretches, calls_before + turns));
        }
    }
}
