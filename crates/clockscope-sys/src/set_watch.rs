//! Notice from the kernel when `CLOCK_REALTIME` is set.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};

use super::poll;

/// A timer that never ends but is cancelled when the clock is set.
///
/// # References
///
/// - `timerfd_create(2)`: `TFD_TIMER_CANCEL_ON_SET`
#[derive(Debug)]
pub struct SetWatch(OwnedFd);

/// An expiry beyond every measurement, in seconds from now.
const NEVER: i64 = 1 << 30;

impl SetWatch {
    /// Begins to watch.
    ///
    /// # Errors
    ///
    /// Those of `timerfd_create(2)` and `timerfd_settime(2)`.
    pub fn start() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let watch = Self(timerfd_create(TimerfdClockId::Realtime, flags)?);
        watch.arm()?;
        Ok(watch)
    }

    fn arm(&self) -> io::Result<()> {
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        let tv_sec = clock_gettime(ClockId::Realtime).tv_sec + NEVER;
        let when = Itimerspec { it_interval: none, it_value: Timespec { tv_sec, tv_nsec: 0 } };
        let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
        timerfd_settime(&self.0, flags, &when)?;
        Ok(())
    }

    /// Waits until the clock is set or the time is over; true if it was set.
    pub fn wait(&self, at_most: Duration) -> bool {
        // However the wait ends, reading the timer tells whether the clock was set.
        let _ = poll::wait(&[self.as_fd()], at_most);
        let was_set = rustix::io::read(&self.0, &mut [0; 8]) == Err(Errno::CANCELED);
        if was_set {
            // A timer that cannot be armed again gives no more notices; the caller still polls.
            let _ = self.arm();
        }
        was_set
    }
}

/// The descriptor becomes readable when the clock is set.
impl AsFd for SetWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_nobody_sets_gives_no_notice() {
        let watch = SetWatch::start().unwrap();
        assert!(!watch.wait(Duration::from_millis(1)));
    }
}
