//! Stops this process together with the traced program, and continues both.
//!
//! A shell that has stopped the program waits until this process is stopped, and later continues this process. Another
//! process, such as a child of the program, may instead continue the program by its own process id. The kernel lets a
//! stopped tracee go on only when its tracer does. So while this process is stopped, a child of this process polls
//! whether the program has been continued or has ended.

use std::ffi::{CStr, CString};
use std::time::Duration;

/// Interval at which the child polls.
const LOOK: Duration = Duration::from_millis(5);
/// Prefixes of the fields of `/proc/PID/status` that hold pending signals: those of the thread, and of its process.
const PENDING: [&[u8]; 2] = [b"\nSigPnd:\t", b"\nShdPnd:\t"];

/// Stops this process until it or the program is continued.
pub fn stop_with(program: i32) {
    let Ok(status) = CString::new(format!("/proc/{program}/status")) else { return };
    // SAFETY: takes nothing and cannot fail.
    let own = unsafe { libc::getpid() };
    // SAFETY: the child makes async-signal-safe calls only, until it is killed.
    let child = unsafe { libc::fork() };
    if child == 0 {
        look(&status, own);
    }
    // SAFETY: takes numbers, and no status is asked for; the child is ours, and not waited for yet.
    unsafe {
        libc::raise(libc::SIGSTOP);
        if child > 0 {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
    }
}

/// In the child: once the program has been continued, sends SIGCONT to the parent, again and again.
fn look(status: &CStr, parent: i32) -> ! {
    let pause = libc::timespec { tv_sec: 0, tv_nsec: LOOK.subsec_nanos().into() };
    let mut text = [0; 4096];
    // SAFETY: async-signal-safe calls; the pointers are to locals and to a null-terminated string that
    // was made before the fork.
    unsafe {
        // In a process group of its own, so that signals to the group do not stop it.
        libc::setpgid(0, 0);
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        while libc::getppid() == parent {
            let file = libc::open(status.as_ptr(), libc::O_RDONLY);
            let length = libc::read(file, text.as_mut_ptr().cast(), text.len());
            libc::close(file);
            if goes_on(text.get(..length.cast_unsigned()).unwrap_or_default()) {
                libc::kill(parent, libc::SIGCONT);
            }
            libc::nanosleep(&raw const pause, std::ptr::null_mut());
        }
        libc::_exit(0)
    }
}

/// Whether a process that was stopped, by its `/proc/PID/status`, has been continued or has ended. Pure; allocates no
/// memory.
fn goes_on(status: &[u8]) -> bool {
    const CONTINUE: u64 = 1 << (libc::SIGCONT - 1);
    let behind = |name: &[u8]| {
        let at = status.windows(name.len()).position(|bytes| bytes == name)?;
        status.get(at + name.len()..)
    };
    let ends = behind(b"\nState:\t").is_none_or(|state| matches!(state, [b'Z' | b'X', ..]));
    let is_pending = |name: &&[u8]| {
        let digits =
            behind(name).unwrap_or_default().iter().map_while(|c| char::from(*c).to_digit(16));
        digits.fold(0_u64, |mask, digit| mask << 4 | u64::from(digit)) & CONTINUE != 0
    };
    ends || PENDING.iter().any(is_pending)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_goes_on_when_it_has_been_continued_or_has_ended() {
        let status = |state: &str, own: &str, shared: &str| {
            format!(
                "Name:\tState:\nState:\t{state}\nSigPnd:\t{own}\nShdPnd:\t{shared}\nSigBlk:\tffff\n"
            )
        };
        let says =
            |state: &str, own: &str, shared: &str| goes_on(status(state, own, shared).as_bytes());
        let none = "0000000000000000";
        assert!(!says("t (tracing stop)", none, none) && !says("T (stopped)", none, none));
        assert!(!says("t (tracing stop)", "ffffffff00010000", none), "other signals are no matter");
        assert!(says("t (tracing stop)", "0000000000020000", none));
        assert!(says("t (tracing stop)", none, "0000000000020001"));
        assert!(says("Z (zombie)", none, none) && goes_on(b""));
    }
}
