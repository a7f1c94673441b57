//! A cached reading, and the thread that refreshes it.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;
use std::time::Duration;

use super::Clock;
use crate::points::Monotonic;
use crate::sync::AtomicI64;
use crate::units::Nanos;

/// The cached reading, in a cache line of its own: it is written often.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Recent {
    time: AtomicI64,
    period: AtomicI64,
}

impl Recent {
    #[inline(always)]
    pub(super) fn get(&self) -> Monotonic {
        Monotonic(Nanos(self.time.load(Relaxed)))
    }

    /// Never less than before, whichever thread was faster.
    #[inline]
    pub(super) fn raise(&self, time: Monotonic) -> Monotonic {
        let before = self.time.fetch_max(time.as_nanos(), Relaxed);
        time.max(Monotonic(Nanos(before)))
    }

    pub(super) fn period(&self) -> Nanos {
        Nanos(self.period.load(Relaxed))
    }
}

/// A thread that refreshes what [`Clock::recent`] gives, until this value is dropped.
///
/// A forked child has no such thread: there [`Clock::recent`] stands still until the child starts
/// one or calls [`Clock::refresh_recent`] itself.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use fastclock::{Clock, RecentUpdater};
///
/// let clock = Arc::new(Clock::new());
/// let updater = RecentUpdater::start(Arc::clone(&clock), Duration::from_millis(1))?;
/// let before = clock.recent();
/// while clock.recent() == before {}
/// drop(updater);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct RecentUpdater {
    clock: Arc<Clock>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl RecentUpdater {
    /// Starts a thread that refreshes once a `period`.
    ///
    /// # Errors
    ///
    /// When no thread can be had.
    pub fn start(clock: Arc<Clock>, period: Duration) -> io::Result<Self> {
        let nanos = i64::try_from(period.as_nanos()).unwrap_or(i64::MAX);
        clock.recent.period.store(nanos, Relaxed);
        let stop = Arc::new(AtomicBool::new(false));
        let (seen, refreshed) = (Arc::clone(&stop), Arc::clone(&clock));
        let thread =
            std::thread::Builder::new().name("fastclock-recent".into()).spawn(move || {
                while !seen.load(Acquire) {
                    refreshed.refresh_recent();
                    std::thread::park_timeout(period);
                }
            })?;
        Ok(Self { clock, stop, thread: Some(thread) })
    }
}

impl Drop for RecentUpdater {
    fn drop(&mut self) {
        self.stop.store(true, Release);
        self.clock.recent.period.store(0, Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It does not panic; if it did, the reading would stand still, which is no reason to.
            let _ = thread.join();
        }
    }
}
