//! Notice from the kernel when somebody sets `CLOCK_REALTIME`.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::time::Duration;

/// A timer that never ends but is cancelled when the clock is set.
///
/// # References
///
/// - `timerfd_create(2)`: `TFD_TIMER_CANCEL_ON_SET`
#[derive(Debug)]
pub struct SetWatch(OwnedFd);

/// Far beyond every measurement, in seconds from now.
const NEVER: i64 = 1 << 30;

impl SetWatch {
    /// Begins to watch.
    ///
    /// # Errors
    ///
    /// Those of `timerfd_create(2)` and `timerfd_settime(2)`.
    pub fn start() -> io::Result<Self> {
        // SAFETY: takes numbers.
        let fd = unsafe {
            libc::timerfd_create(libc::CLOCK_REALTIME, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC)
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor that nobody else owns.
        let watch = Self(unsafe { OwnedFd::from_raw_fd(fd) });
        watch.arm()?;
        Ok(watch)
    }

    fn arm(&self) -> io::Result<()> {
        // SAFETY: all-zero is a value of this plain struct.
        let mut when: libc::itimerspec = unsafe { std::mem::zeroed() };
        when.it_value.tv_sec = super::tsc::now(fastclock::ClockId::Realtime).0 / 1_000_000_000;
        when.it_value.tv_sec += NEVER;
        let flags = libc::TFD_TIMER_ABSTIME | libc::TFD_TIMER_CANCEL_ON_SET;
        // SAFETY: the kernel reads a local; the old value is not asked for.
        let status = unsafe {
            libc::timerfd_settime(self.0.as_raw_fd(), flags, &raw const when, std::ptr::null_mut())
        };
        if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Waits until the clock is set or the time is over; true if it was set.
    #[must_use]
    pub fn wait(&self, at_most: Duration) -> bool {
        let mut poll = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let millis = i32::try_from(at_most.as_millis()).unwrap_or(i32::MAX);
        let mut expirations = 0_u64;
        // SAFETY: both calls write only to locals of the right sizes.
        let read = unsafe {
            libc::poll(&raw mut poll, 1, millis);
            libc::read(self.0.as_raw_fd(), (&raw mut expirations).cast(), size_of::<u64>())
        };
        let error = io::Error::last_os_error();
        let was_set = read < 0 && error.raw_os_error() == Some(libc::ECANCELED);
        if was_set {
            // A timer that cannot be armed again gives no more notices; the polling goes on.
            let _ = self.arm();
        }
        was_set
    }
}

/// Ready to be read when the clock was set.
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
