//! Signals to this process, blocked here so that they can be forwarded to the program.

use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::{check, proc_text};

/// A signal that arrived here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// The number of the signal.
    pub signal: i32,
    /// Process id of the sender; 0 if the kernel sent it (the terminal).
    pub sender: i32,
}

/// Signals that a user or a supervisor sends to this process although they are meant for the program.
pub const FORWARDED: [i32; 8] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGTSTP,
];

/// The action of SIGPIPE before Rust's start-up code ignored it; the program gets that action again.
static SIGPIPE_BEFORE: AtomicUsize = AtomicUsize::new(libc::SIG_DFL);

/// Runs before `main`: stores the action of SIGPIPE.
extern "C" fn remember_sigpipe() {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: asks only; the pointer is to a local of the right type, valid when zeroed.
    let handler = unsafe {
        libc::sigaction(libc::SIGPIPE, std::ptr::null(), action.as_mut_ptr());
        action.assume_init().sa_sigaction
    };
    SIGPIPE_BEFORE.store(handler, Relaxed);
}

// SAFETY: the loader calls the functions in this section once, before `main`, on one thread; this
// one makes a system call and stores a number.
#[used]
#[unsafe(link_section = ".init_array")]
static REMEMBER_SIGPIPE: extern "C" fn() = remember_sigpipe;

/// The former signal mask of this thread; restored in the program before it starts.
#[derive(Clone, Copy)]
pub struct Mask(libc::sigset_t);

/// Blocks [`FORWARDED`] in this thread and in the threads that it starts, so that [`wait`] gets them.
///
/// # Errors
///
/// `EINVAL` from `pthread_sigmask(3)`, for an invalid `how` only; the one used here is valid.
pub fn block() -> io::Result<Mask> {
    mask(libc::SIG_BLOCK, &FORWARDED).map(Mask)
}

/// Waits for one of [`FORWARDED`].
///
/// # Errors
///
/// Those of `sigwaitinfo(2)` except `EINTR`, after which the wait goes on; Linux documents no other.
pub fn wait() -> io::Result<Received> {
    let forwarded = set(&FORWARDED);
    loop {
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        // SAFETY: both pointers are to values of the right type.
        let signal = unsafe { libc::sigwaitinfo(&raw const forwarded, info.as_mut_ptr()) };
        if signal > 0 {
            // SAFETY: filled by the kernel, and valid when zeroed.
            let info = unsafe { info.assume_init() };
            // SAFETY: a plain integer in every variant.
            let sender = if info.si_code > 0 { 0 } else { unsafe { info.si_pid() } };
            return Ok(Received { signal, sender });
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// A set of signals.
pub(super) fn set(signals: &[i32]) -> libc::sigset_t {
    let mut set = MaybeUninit::zeroed();
    // SAFETY: the first call initialises the local; the numbers are signals.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), *signal);
        }
        set.assume_init()
    }
}

/// Blocks or unblocks signals in this thread (`SIG_BLOCK`, `SIG_UNBLOCK`); gives the former mask.
pub(super) fn mask(how: i32, signals: &[i32]) -> io::Result<libc::sigset_t> {
    let (set, mut before) = (set(signals), set(&[]));
    // SAFETY: both pointers are to locals of the right type.
    match unsafe { libc::pthread_sigmask(how, &raw const set, &raw mut before) } {
        0 => Ok(before),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Installs a handler without `SA_RESTART`, so that the signal interrupts waits.
///
/// # Safety
///
/// The handler is async-signal-safe, and has the arguments that the flags require.
pub(super) unsafe fn handle(signal: i32, handler: usize, flags: i32) -> io::Result<()> {
    // SAFETY: all-zero is a value of this plain struct.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = flags;
    // SAFETY: the pointer is to a local; the caller answers for the handler.
    check(unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) }).map(drop)
}

/// Sends a signal to a process.
///
/// # Errors
///
/// `ESRCH` if the process is gone; `EPERM` without the right to signal it.
pub fn send(pid: i32, signal: i32) -> io::Result<()> {
    // SAFETY: takes numbers.
    check(unsafe { libc::kill(pid, signal) }).map(drop)
}

/// True if `thread` is a thread of `process`.
pub fn is_thread_of(process: i32, thread: i32) -> bool {
    // SAFETY: takes numbers; signal 0 is never delivered.
    unsafe { libc::syscall(libc::SYS_tgkill, process, thread, 0) == 0 }
}

/// True if a thread's process ignores a signal, explicitly or by default. Without a tracer the kernel drops such a
/// signal and interrupts nothing. (A handler for a signal that is ignored by default is not taken into account.)
pub fn is_ignored(thread: i32, signal: i32) -> bool {
    const BY_DEFAULT: [i32; 4] = [libc::SIGCHLD, libc::SIGURG, libc::SIGWINCH, libc::SIGCONT];
    BY_DEFAULT.contains(&signal) || is_in_set(thread, "SigIgn:", signal)
}

/// True if a thread's process has a handler for a signal.
pub fn is_handled(thread: i32, signal: i32) -> bool {
    is_in_set(thread, "SigCgt:", signal)
}

fn is_in_set(thread: i32, name: &str, signal: i32) -> bool {
    let Ok(status) = proc_text::read(format!("/proc/{thread}/status")) else { return false };
    (1..=64).contains(&signal) && signal_set(&status, name) >> (signal - 1) & 1 != 0
}

/// True if a signal is pending for a thread that does not block it, and the thread's process has a handler for it.
pub fn is_to_be_handled(thread: i32) -> bool {
    let Ok(status) = proc_text::read(format!("/proc/{thread}/status")) else { return false };
    let set = |name| signal_set(&status, name);
    (set("SigPnd:") | set("ShdPnd:")) & set("SigCgt:") & !set("SigBlk:") != 0
}

/// A set of signals in `/proc/PID/status`, one bit each.
pub fn signal_set(status: &str, name: &str) -> u64 {
    let set = proc_text::field(status, name);
    set.and_then(|set| u64::from_str_radix(set, 16).ok()).unwrap_or(0)
}

/// Stops this process until it is continued.
pub fn stop_self() {
    // SAFETY: takes a number; SIGSTOP cannot be caught.
    unsafe { libc::raise(libc::SIGSTOP) };
}

/// Ends this process by the signal that ended the program, without a core file of this process; returns if the signal
/// does not kill.
pub fn die_by(signal: i32) {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a local of the right type; the default action of the signal is intended.
    unsafe {
        libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
        libc::signal(signal, libc::SIG_DFL);
    }
    let _ = mask(libc::SIG_UNBLOCK, &[signal]);
    // SAFETY: takes a number.
    unsafe { libc::raise(signal) };
}

/// In a forked child: restores the signal settings from before this program began. Calls only functions that are safe
/// between `fork` and `execve`.
pub(super) fn restore_in_child(mask: &Mask) {
    // SAFETY: takes numbers and a pointer to a set; both calls are async-signal-safe.
    unsafe {
        libc::signal(libc::SIGPIPE, SIGPIPE_BEFORE.load(Relaxed));
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask.0, std::ptr::null_mut());
    }
}
