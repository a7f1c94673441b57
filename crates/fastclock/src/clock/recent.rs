//! A cached reading, and the thread that refreshes it.

use core::ops::Deref;
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

/// The cached reading, in a separate cache line because it is written often.
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

    /// Raises the cached time to `time`; it never goes back, whichever thread was faster.
    #[inline]
    pub(super) fn raise(&self, time: Monotonic) -> Monotonic {
        let before = self.time.fetch_max(time.as_nanos(), Relaxed);
        time.max(Monotonic(Nanos(before)))
    }

    pub(super) fn period(&self) -> Nanos {
        Nanos(self.period.load(Relaxed))
    }
}

/// A thread that refreshes the time of [`Clock::recent`], until this value is dropped.
///
/// A forked child has no such thread: there [`Clock::recent`] stands still until the child starts
/// one or calls [`Clock::refresh_recent`] itself.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use fastclock::{Clock, RecentUpdater};
///
/// let updater = RecentUpdater::start(Clock::global(), Duration::from_millis(1))?;
/// let before = Clock::global().recent();
/// while Clock::global().recent() == before {}
/// drop(updater);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct RecentUpdater {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl RecentUpdater {
    /// Starts a thread that refreshes once per `period`. `clock` is the [global](Clock::global) one
    /// or in an [`Arc`].
    ///
    /// # Errors
    ///
    /// The thread cannot be started.
    pub fn start(
        clock: impl Deref<Target = Clock> + Send + 'static,
        period: Duration,
    ) -> io::Result<Self> {
        let nanos = i64::try_from(period.as_nanos()).unwrap_or(i64::MAX);
        clock.recent.period.store(nanos, Relaxed);
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread =
            std::thread::Builder::new().name("fastclock-recent".into()).spawn(move || {
                while !seen.load(Acquire) {
                    clock.refresh_recent();
                    std::thread::park_timeout(period);
                }
                clock.recent.period.store(0, Relaxed);
            })?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for RecentUpdater {
    fn drop(&mut self) {
        self.stop.store(true, Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The thread does not panic. If it did, `recent` would stand still; that is no reason
            // to panic here.
            let _ = thread.join();
        }
    }
}
