//! A process that is held by a descriptor, so that its number cannot come to mean another one.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal};

use super::poll;

/// A process, or what is left of it.
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
    /// `ESRCH` if there is none; `EINVAL` if the number is none of a process.
    pub fn open(pid: i32) -> io::Result<Self> {
        // Of a negative number rustix makes a panic.
        let pid = if pid > 0 { Pid::from_raw(pid) } else { None };
        let pid = pid.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Self(rustix::process::pidfd_open(pid, PidfdFlags::empty())?))
    }

    /// Asks it to end: sends `SIGTERM`.
    ///
    /// # Errors
    ///
    /// `EPERM` if it is another user's; `ESRCH` if it has ended.
    pub fn ask_to_end(&self) -> io::Result<()> {
        Ok(rustix::process::pidfd_send_signal(&self.0, Signal::TERM)?)
    }

    /// Waits until it has ended, `at_most` so long; false if it has not.
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
