//! Waiting for children and tracees.

use std::io;
use std::mem::MaybeUninit;
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
/// A stop stays what it is until the tracee is resumed or [`take_stop`] is called: the kernel
/// forgets a signal that a tracer has waited for but not passed on, so if this process dies in
/// between, a stop that is only looked at loses nothing.
///
/// # Errors
///
/// `ECHILD` when there is none left.
///
/// # References
///
/// `waitid(2)` (`WNOWAIT`), `ptrace(2)` "Stopped states"
pub fn next() -> io::Result<Waited> {
    loop {
        let flags = libc::WEXITED | libc::WSTOPPED | libc::WNOWAIT | libc::__WALL;
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        // SAFETY: the pointer is to a local of the right type.
        if unsafe { libc::waitid(libc::P_ALL, 0, info.as_mut_ptr(), flags) } == 0 {
            // SAFETY: filled by the kernel, and valid when zeroed.
            let info = unsafe { info.assume_init() };
            // SAFETY: the kernel fills these fields for children.
            let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
            if matches!(info.si_code, libc::CLD_TRAPPED | libc::CLD_STOPPED) {
                let status = Status::from_raw(status << 8 | 0x7f);
                if matches!(status, Status::Event(libc::PTRACE_EVENT_EXEC, _)) {
                    // Until it is taken, a thread that got the number of its process by `execve`
                    // cannot be looked at; it has no signal to lose.
                    take_stop(pid);
                }
                return Ok(Waited { pid, status, cpu: Duration::ZERO });
            }
            match reap(pid)? {
                Some(waited) => return Ok(waited),
                None => continue,
            }
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Takes the end of a child or tracee; `None` if its number belongs to another thread by now, one
/// that executed a program.
fn reap(pid: i32) -> io::Result<Option<Waited>> {
    let mut status = 0;
    // SAFETY: all-zero is a value of this plain struct.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    let flags = libc::__WALL | libc::WNOHANG;
    // SAFETY: both pointers are to locals of the right type.
    let reaped = unsafe { libc::wait4(pid, &raw mut status, flags, &raw mut usage) };
    if reaped == 0 {
        return Ok(None);
    }
    if reaped == -1 {
        return Err(io::Error::last_os_error());
    }
    let cpu = seconds(usage.ru_utime) + seconds(usage.ru_stime);
    Ok(Some(Waited { pid, status: Status::from_raw(status), cpu }))
}

/// Takes the stop of a tracee that is not resumed yet, so that [`next`] does not show it again.
pub fn take_stop(pid: i32) {
    // SAFETY: no status is asked for.
    unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::__WALL | libc::WNOHANG) };
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
