//! Waiting for children and tracees.

use std::io;
use std::time::Duration;

/// What happened to a child or tracee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It ended with this code.
    Exited(i32),
    /// A signal killed it.
    Killed(i32),
    /// It stopped to be given a signal.
    Signal(i32),
    /// It stopped before or after a system call.
    Syscall,
    /// It stopped for an event (`PTRACE_EVENT_*`), with the signal of that stop.
    Event(i32, i32),
}

/// Whom, what, and the processor time of it and the children that it waited for.
#[derive(Clone, Copy, Debug)]
pub struct Waited {
    /// Process or thread id.
    pub pid: i32,
    /// What happened.
    pub status: Status,
    /// User and system time.
    pub cpu: Duration,
}

/// Waits for the next thing that happens to any child or tracee, threads included.
///
/// # Errors
///
/// `ECHILD` when there is none left.
///
/// # References
///
/// `wait4(2)`, `ptrace(2)` "Stopped states"
pub fn next() -> io::Result<Waited> {
    loop {
        let mut status = 0;
        // SAFETY: all-zero is a value of this plain struct.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: both pointers are to locals of the right type.
        let pid = unsafe { libc::wait4(-1, &raw mut status, libc::__WALL, &raw mut usage) };
        if pid > 0 {
            let cpu = seconds(usage.ru_utime) + seconds(usage.ru_stime);
            return Ok(Waited { pid, status: Status::from_raw(status), cpu });
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

fn seconds(time: libc::timeval) -> Duration {
    let micros = time.tv_sec.saturating_mul(1_000_000).saturating_add(time.tv_usec);
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

impl Status {
    /// Takes apart the status word of `wait4(2)` for a tracee.
    #[must_use]
    pub fn from_raw(status: i32) -> Self {
        if libc::WIFEXITED(status) {
            Self::Exited(libc::WEXITSTATUS(status))
        } else if libc::WIFSIGNALED(status) {
            Self::Killed(libc::WTERMSIG(status))
        } else {
            let signal = libc::WSTOPSIG(status);
            match status >> 16 {
                0 if signal == libc::SIGTRAP | 0x80 => Self::Syscall,
                0 => Self::Signal(signal),
                event => Self::Event(event, signal),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_words_are_taken_apart() {
        assert_eq!(Status::from_raw(0x0300), Status::Exited(3));
        assert_eq!(Status::from_raw(9), Status::Killed(9));
        assert_eq!(Status::from_raw(0x0b7f), Status::Signal(11));
        assert_eq!(Status::from_raw(0x857f), Status::Syscall);
        assert_eq!(Status::from_raw(0x0004_057f), Status::Event(4, 5));
        assert_eq!(Status::from_raw(0x0080_137f), Status::Event(128, 19));
    }
}
