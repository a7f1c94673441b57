//! Forwards signals that were meant for the program but sent to clockscope.
//!
//! The terminal and `kill -PGID` signal the program directly. A supervisor that knows only clockscope's
//! process id reaches clockscope alone. `timeout` does both. Therefore a signal from another process, or a
//! terminal's hang-up, is forwarded only if the program does not get the same signal from the same sender
//! within a moment.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clockscope_sys::{real_time, signals};

/// How long to wait for the program to be given the signal directly.
const MOMENT: Duration = Duration::from_millis(30);

type Delivered = Vec<(i32, i32, Instant)>;

/// Signals delivered to the program lately.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    delivered: Mutex<Delivered>,
    changed: Condvar,
    /// Whether the program has ended; its process id may then be used again.
    is_over: AtomicBool,
}

impl Seen {
    /// The program receives this signal now.
    pub(crate) fn delivered(&self, signal: i32, sender: i32) {
        let mut delivered = self.delivered.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        // A program may have a timer of microseconds, and waits here.
        delivered.retain(|(s, p, at)| (*s, *p) != (signal, sender) && now - *at < MOMENT);
        delivered.push((signal, sender, now));
        self.changed.notify_all();
    }

    /// Stops forwarding. clockscope is about to write its report and must not die of a signal either:
    /// `timeout` sends two, and the second often comes after the program has died of the first.
    pub(crate) fn program_has_ended(&self) {
        self.is_over.store(true, Relaxed);
    }

    /// True if the program gets this signal from this sender, now or within a moment.
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

/// Starts forwarding signals to the program. The signals must be blocked already.
pub(crate) fn forward(program: i32) -> Arc<Seen> {
    let seen = Arc::new(Seen::default());
    let shared = Arc::clone(&seen);
    // Without this thread, signals to clockscope alone have no effect; the program is safe.
    let _ = std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        // The highest priority lets signals reach a real-time program that keeps the CPU.
        real_time::take_the_highest();
        while let Ok(received) = signals::wait() {
            // A closed terminal signals only the first process of its session.
            let goes_on = received.sender != 0 || received.signal == libc::SIGHUP;
            let is_meant = goes_on && !shared.arrives(received.signal, received.sender);
            if is_meant && !shared.is_over.load(Relaxed) {
                let _ = signals::send(program, received.signal);
            }
        }
    });
    seen
}
