//! A process held by a descriptor, so that a reused process id cannot refer to another process.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal};

use super::poll;

/// A process, running or ended.
///
/// # References
///
/// - `pidfd_open(2)`
#[derive(Debug)]
pub struct Process(OwnedFd);

impl Process {
    /// The process that has this number now.
    ///
    /// # Errors
    ///
    /// `ESRCH` if there is none; `EINVAL` if `pid` is not the id of a process.
    pub fn open(pid: i32) -> io::Result<Self> {
        // rustix panics on a negative number.
        let pid = if pid > 0 { Pid::from_raw(pid) } else { None };
        let pid = pid.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Self(rustix::process::pidfd_open(pid, PidfdFlags::empty())?))
    }

    /// Requests the end: sends `SIGTERM`.
    ///
    /// # Errors
    ///
    /// `EPERM` if the process belongs to another user; `ESRCH` if it has ended.
    pub fn ask_to_end(&self) -> io::Result<()> {
        Ok(rustix::process::pidfd_send_signal(&self.0, Signal::TERM)?)
    }

    /// Waits up to `at_most` for the end of the process; false if it still runs.
    ///
    /// # Errors
    ///
    /// Those of `ppoll(2)`.
    pub fn wait(&self, at_most: Duration) -> io::Result<bool> {
        Ok(poll::wait(&[self.0.as_fd()], at_most)?.contains(&true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_ends_when_it_is_asked_and_its_number_means_no_other_one() {
        let mut child = Command::new("sleep").arg("60").stdout(Stdio::null()).spawn().unwrap();
        let process = Process::open(child.id().try_into().unwrap()).unwrap();
        assert!(!process.wait(Duration::ZERO).unwrap());
        process.ask_to_end().unwrap();
        assert!(process.wait(Duration::from_secs(600)).unwrap());
        child.wait().unwrap();
        let gone = process.ask_to_end().unwrap_err();
        assert_eq!(gone.raw_os_error(), Some(libc::ESRCH));
    }

    #[test]
    fn what_is_no_process_is_an_error() {
        for pid in [0, -1, i32::MIN, i32::MAX] {
            assert!(Process::open(pid).is_err(), "{pid}");
        }
    }
}
