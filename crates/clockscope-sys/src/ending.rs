//! Being told to end: by a user, by a supervisor, or by the time.
//!
//! A signal interrupts the wait for tracees. One that comes just before the wait begins would be
//! missed; so from then on a timer sends more, until somebody has looked.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use super::{signals, ticker};

/// Signals that ask for the end.
const ASKING: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
const BY_TIME: i32 = libc::SIGALRM;
/// How often to remind of an end that was asked for.
const REMINDER: Duration = Duration::from_millis(20);

/// The first signal that asked, or 0.
static ASKED: AtomicI32 = AtomicI32::new(0);
/// Whether the terminal's stop (Ctrl-Z) has been asked for.
static STOP: AtomicBool = AtomicBool::new(false);
/// The timer of the running [`Ending`], as an address.
static TIMER: AtomicUsize = AtomicUsize::new(0);

/// Why it is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The time is over.
    Time,
    /// A signal came: its number.
    Signal(i32),
}

/// Stands while somebody may ask.
#[derive(Debug)]
pub struct Ending(());

impl Ending {
    /// Waits for signals from now on. There is one at a time.
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

    /// Asks by itself when this time is over.
    pub fn after(&self, limit: Duration) {
        if self.asked().is_none() {
            arm(limit.max(Duration::from_nanos(1)));
        }
    }

    /// From now on Ctrl-Z does not stop this process, but waits for who calls [`take_stop`], often:
    /// a screen is to be left first. It interrupts waits, but may come just before one.
    pub fn keep_stops(&self) {
        STOP.store(false, Relaxed);
        handle(libc::SIGTSTP, note_stop as extern "C" fn(i32) as *const () as usize);
    }

    /// Why it is to end, if it is.
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

/// Lets the timer send its signal after a while, and then as a reminder.
fn arm(after: Duration) {
    // The timer exists, and the times are valid.
    let _ = ticker::set_timer(timer(), after, REMINDER);
}

/// The handler: stores a number, and sets a timer, which a handler may.
extern "C" fn note(signal: i32) {
    let first = ASKED.compare_exchange(0, signal, Relaxed, Relaxed).is_ok();
    if first && signal != BY_TIME {
        arm(REMINDER);
    }
}

/// The handler for Ctrl-Z: stores a flag.
extern "C" fn note_stop(_: i32) {
    STOP.store(true, Relaxed);
}

/// Whether Ctrl-Z was pressed since somebody asked last; never without [`Ending::keep_stops`].
pub fn take_stop() -> bool {
    STOP.swap(false, Relaxed)
}

fn handle(signal: i32, handler: usize) {
    // SAFETY: the handlers store numbers and set a timer, which a handler may. The signals are valid.
    let _ = unsafe { signals::handle(signal, handler, 0) };
}
