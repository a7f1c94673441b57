//! Waiting for descriptors, and the signals that end a program as a descriptor.

use std::fs::File;
use std::io::{self, Read as _};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, FromRawFd as _};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use super::check;

/// Waits until one of them can be read, or the time is over; gives for each whether it is ready.
/// A descriptor with an error or a peer that left counts as ready. The end is as exact as the
/// kernel's timers are.
///
/// # Errors
///
/// Those of `ppoll(2)` besides `EINTR`, which gives that none is ready.
pub fn wait(descriptors: &[BorrowedFd], at_most: Duration) -> io::Result<Vec<bool>> {
    let seen = events(descriptors, at_most)?;
    Ok(seen.into_iter().map(|events| !events.is_empty()).collect())
}

/// [`wait`], with what has happened to each: `IN`, `HUP`, `ERR`, `NVAL`.
pub(super) fn events(descriptors: &[BorrowedFd], at_most: Duration) -> io::Result<Vec<PollFlags>> {
    // A time beyond what the kernel takes, some 292 billion years, is without end.
    let at_most = Timespec::try_from(at_most).ok();
    let mut polled: Vec<PollFd> =
        descriptors.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    match rustix::event::poll(&mut polled, at_most.as_ref()) {
        Err(Errno::INTR) => Ok(vec![PollFlags::empty(); polled.len()]),
        result => {
            result?;
            Ok(polled.iter().map(PollFd::revents).collect())
        }
    }
}

/// `SIGINT` and `SIGTERM`, kept away from this process and given out by a descriptor.
///
/// # References
///
/// - `signalfd(2)`
#[derive(Debug)]
pub struct EndSignals(File);

impl EndSignals {
    /// Blocks the signals in this thread and those that it starts, and begins to collect them.
    ///
    /// # Errors
    ///
    /// Those of `signalfd(2)`; then the signals end the process as ever.
    pub fn catch() -> io::Result<Self> {
        let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: the set is a local, made valid by the first call; both signals exist.
        let fd = check(unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            libc::sigaddset(set.as_mut_ptr(), libc::SIGINT);
            libc::sigaddset(set.as_mut_ptr(), libc::SIGTERM);
            libc::signalfd(-1, set.as_ptr(), libc::SFD_NONBLOCK | libc::SFD_CLOEXEC)
        })?;
        // SAFETY: a new descriptor that nobody else owns.
        let signals = Self(unsafe { File::from_raw_fd(fd) });
        // SAFETY: the set is valid; the old mask is not asked for.
        let blocked =
            unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut()) };
        if blocked == 0 { Ok(signals) } else { Err(io::Error::from_raw_os_error(blocked)) }
    }

    /// Whether one of them came since.
    #[must_use]
    pub fn came(&self) -> bool {
        let mut info = [0; size_of::<libc::signalfd_siginfo>()];
        (&self.0).read(&mut info).is_ok_and(|read| read > 0)
    }
}

impl std::os::fd::AsFd for EndSignals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn the_one_that_can_be_read_is_told() {
        let (quiet, _hold) = io::pipe().unwrap();
        let (full, mut writer) = io::pipe().unwrap();
        let both = [quiet.as_fd(), full.as_fd()];
        assert_eq!(wait(&both, Duration::from_micros(1)).unwrap(), [false, false]);
        writer.write_all(b"x").unwrap();
        assert_eq!(wait(&both, Duration::from_secs(60)).unwrap(), [false, true]);
    }

    #[test]
    fn a_signal_that_ends_a_program_is_caught() {
        let thread = std::thread::spawn(|| {
            let signals = EndSignals::catch().unwrap();
            let before = signals.came();
            // SAFETY: to this thread, which has the signal blocked.
            unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGTERM) };
            let ready = wait(&[signals.as_fd()], Duration::from_secs(60)).unwrap();
            (before, ready, signals.came(), signals.came())
        });
        assert_eq!(thread.join().unwrap(), (false, vec![true], true, false));
    }
}
