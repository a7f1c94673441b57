//! Times for the histograms of `metrics`.
//!
//! A span in [`Nanos`] can be recorded as it is, in seconds. A [`Timer`] records how long it lived.
//!
//! # Examples
//!
//! ```
//! use fastclock::{Clock, metrics::Timer};
//!
//! let latency = metrics::histogram!("request_seconds");
//!
//! let clock = Clock::global();
//! let start = clock.now_fast();
//! // … serve a request …
//! latency.record(clock.now_fast().saturating_since(start));
//!
//! let timer = Timer::start(clock, latency);
//! // … serve another, whichever way it ends …
//! drop(timer);
//! ```

use core::fmt;

use metrics::{Histogram, IntoF64};

use crate::points::Monotonic;
use crate::read_clock::ReadClock;
use crate::units::Nanos;

impl IntoF64 for Nanos {
    /// In seconds, as a [`Duration`](std::time::Duration) is recorded.
    fn into_f64(self) -> f64 {
        self.as_seconds()
    }
}

/// Records the time from its start to its drop, in seconds, by [`ReadClock::now_fast`]; it is
/// meant to be dropped by the thread that has started it.
pub struct Timer<'a, C: ReadClock> {
    clock: &'a C,
    start: Monotonic,
    histogram: Histogram,
}

impl<'a, C: ReadClock> Timer<'a, C> {
    /// Begins now.
    #[must_use]
    pub fn start(clock: &'a C, histogram: Histogram) -> Self {
        Self { clock, start: clock.now_fast(), histogram }
    }
}

impl<C: ReadClock> Drop for Timer<'_, C> {
    fn drop(&mut self) {
        self.histogram.record(self.clock.now_fast().saturating_since(self.start));
    }
}

impl<C: ReadClock> fmt::Debug for Timer<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timer").field("start", &self.start).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mock::MockClock;
    use metrics::HistogramFn;
    use std::sync::{Arc, Mutex};
    use std::vec::Vec;

    #[derive(Default)]
    struct Recorded(Mutex<Vec<f64>>);

    impl HistogramFn for Recorded {
        fn record(&self, value: f64) {
            self.0.lock().unwrap().push(value);
        }
    }

    #[test]
    fn a_timer_records_its_life_in_seconds() {
        let (clock, recorded) = (MockClock::new(), Arc::new(Recorded::default()));
        let timer = Timer::start(&clock, Histogram::from_arc(Arc::clone(&recorded)));
        clock.advance(Nanos(1_500_000_000));
        drop(timer);
        Histogram::from_arc(Arc::clone(&recorded)).record(Nanos(250_000_000));
        assert_eq!(*recorded.0.lock().unwrap(), [1.5, 0.25]);
    }
}
