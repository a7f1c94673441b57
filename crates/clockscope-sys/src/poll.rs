//! Waiting for descriptors, and the signals that end a program as a descriptor.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{BorrowedFd, FromRawFd as _};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use super::{check, signals};

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
        const CAUGHT: [i32; 2] = [libc::SIGINT, libc::SIGTERM];
        let set = signals::set(&CAUGHT);
        let flags = libc::SFD_NONBLOCK | libc::SFD_CLOEXEC;
        // SAFETY: the pointer is to a local.
        let fd = check(unsafe { libc::signalfd(-1, &raw const set, flags) })?;
        // SAFETY: a new descriptor that nobody else owns.
        let caught = Self(unsafe { File::from_raw_fd(fd) });
        signals::mask(libc::SIG_BLOCK, &CAUGHT)?;
        Ok(caught)
    }

    /// Whether one of them came since.
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
