//! Waiting for file descriptors, and SIGINT and SIGTERM as a file descriptor.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{BorrowedFd, FromRawFd as _};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use super::{check, signals};

/// Waits until a descriptor can be read, or the time is over; gives for each whether it is ready. A descriptor with an
/// error, or with a closed peer, counts as ready. The wait ends as exactly as the kernel's timers.
///
/// # Errors
///
/// Those of `ppoll(2)` besides `EINTR`, for which none is ready.
pub fn wait(descriptors: &[BorrowedFd], at_most: Duration) -> io::Result<Vec<bool>> {
    let seen = events(descriptors, at_most)?;
    Ok(seen.into_iter().map(|events| !events.is_empty()).collect())
}

/// [`wait`], with the events of each descriptor: `IN`, `HUP`, `ERR`, `NVAL`.
pub(super) fn events(descriptors: &[BorrowedFd], at_most: Duration) -> io::Result<Vec<PollFlags>> {
    // A time beyond the kernel's range, some 292 billion years, is a wait without limit.
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

/// `SIGINT` and `SIGTERM`, blocked in this process and read from a file descriptor.
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
    /// Those of `signalfd(2)`; then the signals end the process as usual.
    pub fn catch() -> io::Result<Self> {
        const CAUGHT: [i32; 2] = [libc::SIGINT, libc::SIGTERM];
        let set = signals::set(&CAUGHT);
        let flags = libc::SFD_NONBLOCK | libc::SFD_CLOEXEC;
        // SAFETY: the pointer is to a local.
        let fd = check(unsafe { libc::signalfd(-1, &raw const set, flags) })?;
        // SAFETY: a new descriptor that is not owned elsewhere.
        let caught = Self(unsafe { File::from_raw_fd(fd) });
        signals::mask(libc::SIG_BLOCK, &CAUGHT)?;
        Ok(caught)
    }

    /// Whether one of the signals has come since the last call.
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
            // SAFETY: sent to this thread, which has the signal blocked.
            unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGTERM) };
            let ready = wait(&[signals.as_fd()], Duration::from_secs(60)).unwrap();
            (before, ready, signals.came(), signals.came())
        });
        assert_eq!(thread.join().unwrap(), (false, vec![true], true, false));
    }
}
