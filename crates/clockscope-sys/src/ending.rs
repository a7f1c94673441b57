//! Requests to end: a signal of a user or a supervisor, or the time limit.
//!
//! A signal interrupts the wait for tracees. A signal that comes just before the wait begins would be missed. Therefore
//! a timer repeats it until the request has been read.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use super::{signals, ticker};

/// Signals that request the end.
const ASKING: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
const BY_TIME: i32 = libc::SIGALRM;
/// Interval at which the timer repeats a request.
const REMINDER: Duration = Duration::from_millis(20);

/// The first signal received, or 0.
static ASKED: AtomicI32 = AtomicI32::new(0);
/// Whether Ctrl-Z (SIGTSTP) was pressed.
static STOP: AtomicBool = AtomicBool::new(false);
/// The timer of the running [`Ending`], as an address.
static TIMER: AtomicUsize = AtomicUsize::new(0);

/// The reason to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The time is over.
    Time,
    /// A signal came: its number.
    Signal(i32),
}

/// Handles the signals until it is dropped.
#[derive(Debug)]
pub struct Ending(());

impl Ending {
    /// Installs the handlers. There may be one `Ending` at a time.
    ///
    /// # Errors
    ///
    /// When the kernel gives no timer.
    pub fn expect() -> io::Result<Self> {
        ASKED.store(0, Relaxed);
        let timer = ticker::make_timer(BY_TIME, std::ptr::null_mut())?;
        TIMER.store(timer.expose_provenance(), Relaxed);
        for signal in ASKING.into_iter().chain([BY_TIME]) {
            handle(signal, note as extern "C" fn(i32) as *const () as usize);
        }
        Ok(Self(()))
    }

    /// Requests the end by itself after this time.
    pub fn after(&self, limit: Duration) {
        if self.asked().is_none() {
            arm(limit.max(Duration::from_nanos(1)));
        }
    }

    /// From now on Ctrl-Z does not stop this process. The caller polls [`take_stop`] and stops by itself after leaving
    /// the screen. The signal interrupts waits, but may come just before a wait begins.
    pub fn keep_stops(&self) {
        STOP.store(false, Relaxed);
        handle(libc::SIGTSTP, note_stop as extern "C" fn(i32) as *const () as usize);
    }

    /// The reason to end, if the end was requested.
    pub fn asked(&self) -> Option<Asked> {
        match ASKED.load(Relaxed) {
            0 => None,
            BY_TIME => Some(Asked::Time),
            signal => Some(Asked::Signal(signal)),
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        // SAFETY: the timer was made by `expect` and is not used any more.
        unsafe { libc::timer_delete(timer()) };
        for signal in ASKING.into_iter().chain([BY_TIME, libc::SIGTSTP]) {
            handle(signal, libc::SIG_DFL);
        }
    }
}

fn timer() -> libc::timer_t {
    std::ptr::with_exposed_provenance_mut(TIMER.load(Relaxed))
}

/// Lets the timer send its signal after a while, and then repeat it.
fn arm(after: Duration) {
    // The timer exists, and the times are valid.
    let _ = ticker::set_timer(timer(), after, REMINDER);
}

/// The signal handler: stores a number and sets a timer, both async-signal-safe.
extern "C" fn note(signal: i32) {
    let first = ASKED.compare_exchange(0, signal, Relaxed, Relaxed).is_ok();
    if first && signal != BY_TIME {
        arm(REMINDER);
    }
}

/// The signal handler for Ctrl-Z: stores a flag.
extern "C" fn note_stop(_: i32) {
    STOP.store(true, Relaxed);
}

/// Whether Ctrl-Z was pressed since the last call; never without [`Ending::keep_stops`].
pub fn take_stop() -> bool {
    STOP.swap(false, Relaxed)
}

fn handle(signal: i32, handler: usize) {
    // SAFETY: the handlers store numbers and set a timer, which a handler may. The signals are valid.
    let _ = unsafe { signals::handle(signal, handler, 0) };
}
