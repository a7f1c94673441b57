//! Passing on the signals that somebody sends to clockscope in the belief that it is the program.
//!
//! The terminal and `kill -PGID` reach the program by themselves; a supervisor that knows one
//! process id reaches only clockscope. `timeout` does both. So a signal from another process is
//! passed on only if the program is not given the same one by the same sender within a moment; and
//! so is the hang-up of a terminal.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clockscope_sys::{real_time, signals};
use clockscope_tracee::observers::SignalObserver;

/// How long to wait for the program to be given the signal directly.
const MOMENT: Duration = Duration::from_millis(30);

type Delivered = Vec<(i32, i32, Instant)>;

/// Signals that the program was given lately.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    delivered: Mutex<Delivered>,
    changed: Condvar,
    /// The program has ended; its number may be another's.
    is_over: AtomicBool,
}

impl SignalObserver for Seen {
    fn delivered(&self, signal: i32, sender: i32) {
        let mut delivered = self.delivered.lock().unwrap_or_else(PoisonError::into_inner);
        delivered.retain(|(_, _, at)| at.elapsed() < MOMENT);
        delivered.push((signal, sender, Instant::now()));
        self.changed.notify_all();
    }
}

impl Seen {
    /// From now on nobody is sent a signal. clockscope is about to write its report, and does not die of one
    /// either: `timeout` sends two, and the second often comes when the program has died of the first.
    pub(crate) fn program_has_ended(&self) {
        self.is_over.store(true, Relaxed);
    }

    /// True if the program is given this signal by this sender, now or within a moment.
    fn arrives(&self, signal: i32, sender: i32) -> bool {
        let delivered = self.delivered.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |(s, p, at): &(i32, i32, Instant)| {
            *s == signal && *p == sender && at.elapsed() < 2 * MOMENT
        };
        let (delivered, _) = self
            .changed
            .wait_timeout_while(delivered, MOMENT, |delivered| !delivered.iter().any(same))
            .unwrap_or_else(PoisonError::into_inner);
        delivered.iter().any(same)
    }
}

/// Starts passing signals on to the program. The signals must be blocked already.
pub(crate) fn forward(program: i32) -> Arc<Seen> {
    let seen = Arc::new(Seen::default());
    let shared = Arc::clone(&seen);
    // If no thread can be had, signals to clockscope alone stay unanswered; the program is safe.
    let _ = std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        // A real-time program that keeps the CPU can be told to end, too.
        real_time::take_the_highest();
        while let Ok(received) = signals::wait() {
            // A terminal that is gone tells the first process of its session, and no other.
            let goes_on = received.sender != 0 || received.signal == libc::SIGHUP;
            let is_meant = goes_on && !shared.arrives(received.signal, received.sender);
            if is_meant && !shared.is_over.load(Relaxed) {
                let _ = signals::send(program, received.signal);
            }
        }
    });
    seen
}
