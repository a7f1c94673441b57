//! Waiting for children and tracees.

use std::io;
use std::mem::MaybeUninit;
use std::time::Duration;

use super::{access, check, ticker};

/// A state change of a child or tracee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The process ended with this exit code.
    Exited(i32),
    /// This signal killed the process.
    Killed(i32),
    /// The tracee stopped before the delivery of this signal.
    Signal(i32),
    /// The tracee stopped before or after a system call.
    Syscall,
    /// The tracee stopped for an event (`PTRACE_EVENT_*`), with the signal of that stop.
    Event(i32, i32),
}

/// A state change, with its process and the CPU time of that process and its awaited children.
#[derive(Clone, Copy, Debug)]
pub struct Waited {
    /// Process or thread id.
    pub pid: i32,
    /// The state change.
    pub status: Status,
    /// User and system time, with that of children that the process waited for.
    pub cpu: Duration,
    /// The process's own part of `cpu`; zero before it has ended, and for threads.
    pub own_cpu: Duration,
    /// Time that the thread waited for a CPU; zero before it has ended.
    pub queued: Duration,
}

/// Waits for the next state change of any child or tracee, threads included; `None` when this thread's
/// [`super::ticker::Ticker`] has ticked. Ticks and state changes alternate if both are pending, so neither waits for
/// ever. A signal that a handler of this process took counts as a tick.
///
/// A stop stays pending until the tracee is resumed or [`take_stop`] is called. The kernel forgets a signal that a
/// tracer has waited for but not passed on. Therefore, if this process dies in between, a stop that was only looked at
/// loses no signal.
///
/// # Errors
///
/// `ECHILD` when there is no child or tracee left.
///
/// # References
///
/// `waitid(2)` (`WNOWAIT`), `ptrace(2)` "Stopped states"
pub fn next_or_tick() -> io::Result<Option<Waited>> {
    loop {
        if ticker::is_due() {
            if ticker::take_turn() {
                return Ok(None);
            }
            if let Some(waited) = seen(waitid(libc::P_ALL, 0, libc::WNOHANG))? {
                return Ok(Some(waited));
            }
        } else if let Some(result) = ticker::interruptible(|| waitid(libc::P_ALL, 0, 0)) {
            let interrupted =
                matches!(&result, Err(error) if error.kind() == io::ErrorKind::Interrupted);
            match seen(result)? {
                None if interrupted && !ticker::is_due() => return Ok(None),
                None => {}
                waited => return Ok(waited),
            }
        }
    }
}

/// Waits once, unless `WNOHANG` is among the flags; a stop stays pending.
fn waitid(of: libc::idtype_t, id: libc::id_t, flags: i32) -> io::Result<libc::siginfo_t> {
    let flags = flags | libc::WEXITED | libc::WSTOPPED | libc::WNOWAIT | libc::__WALL;
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    // SAFETY: the pointer is to a local of the right type.
    check(unsafe { libc::waitid(of, id, info.as_mut_ptr(), flags) })?;
    // SAFETY: filled by the kernel, and valid when zeroed.
    Ok(unsafe { info.assume_init() })
}

/// Waits for a stop or the end of a child, across interruptions by signals; gives its status word.
pub(super) fn child(pid: i32) -> io::Result<i32> {
    let mut status = 0;
    loop {
        // SAFETY: the pointer is to a local.
        match check(unsafe { libc::waitpid(pid, &raw mut status, libc::__WALL) }) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result.map(|_| status),
        }
    }
}

/// The state change waited for; `None` if a signal came first, if nothing has happened, or if the end is that of
/// another thread.
fn seen(info: io::Result<libc::siginfo_t>) -> io::Result<Option<Waited>> {
    let info = match info {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(None),
        info => info?,
    };
    // SAFETY: the kernel fills these fields for children, and they are zero if there was none.
    let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
    if pid == 0 {
        return Ok(None);
    }
    if !matches!(info.si_code, libc::CLD_TRAPPED | libc::CLD_STOPPED) {
        return reap(pid);
    }
    let status = Status::from_raw(status << 8 | 0x7f);
    if matches!(status, Status::Event(libc::PTRACE_EVENT_EXEC, _)) {
        // Until this stop is taken, a thread that got its process's number by `execve` cannot be inspected; the stop
        // has no signal to lose.
        take_stop(pid);
    }
    let none = Duration::ZERO;
    Ok(Some(Waited { pid, status, cpu: none, own_cpu: none, queued: none }))
}

/// The pending state change of one tracee; `None` if there is none. As with [`next_or_tick`], a stop stays pending.
///
/// # Errors
///
/// `ECHILD` if `pid` is no tracee (any more).
pub fn look(pid: i32) -> io::Result<Option<Status>> {
    let info = waitid(libc::P_PID, pid.cast_unsigned(), libc::WNOHANG)?;
    // SAFETY: the kernel fills these fields for children, and leaves them zero if there is nothing.
    let (found, status) = unsafe { (info.si_pid(), info.si_status()) };
    Ok(match info.si_code {
        _ if found == 0 => None,
        libc::CLD_TRAPPED | libc::CLD_STOPPED => Some(Status::from_raw(status << 8 | 0x7f)),
        libc::CLD_EXITED => Some(Status::Exited(status)),
        _ => Some(Status::Killed(status)),
    })
}

/// Takes the end of a child or tracee; `None` if its number belongs to another thread by now, which has called
/// `execve`.
fn reap(pid: i32) -> io::Result<Option<Waited>> {
    let mut status = 0;
    // SAFETY: all-zero is a value of this plain struct.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    let flags = libc::__WALL | libc::WNOHANG;
    // `rusage` includes awaited children; after `wait4` the process's own times can no longer be read.
    let (own_cpu, queued) = (access::cpu_time(pid).unwrap_or_default(), access::queued(pid));
    // SAFETY: both pointers are to locals of the right type.
    if check(unsafe { libc::wait4(pid, &raw mut status, flags, &raw mut usage) })? == 0 {
        return Ok(None);
    }
    let cpu = seconds(usage.ru_utime) + seconds(usage.ru_stime);
    Ok(Some(Waited { pid, status: Status::from_raw(status), cpu, own_cpu, queued }))
}

/// Takes the stop of a tracee that is not resumed yet, so that [`next_or_tick`] does not report it again.
pub fn take_stop(pid: i32) {
    // SAFETY: no status is asked for.
    unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::__WALL | libc::WNOHANG) };
}

fn seconds(time: libc::timeval) -> Duration {
    let micros = time.tv_sec.saturating_mul(1_000_000).saturating_add(time.tv_usec);
    Duration::from_micros(micros.max(0).cast_unsigned())
}

impl Status {
    /// Decodes the status word of `wait4(2)` for a tracee.
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
