//! The writer of a clock page: compares with the kernel's clock, disciplines, publishes, withdraws.

pub mod availability;
pub mod backoff;
pub mod counter_probe;
mod cpu_rotation;
pub mod guards;
mod keep;
pub mod served;

use std::io::{self, PipeWriter, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use fastclock::Decline;
use fastclock::page::Page;

pub use availability::{Report, Withdrawal};

/// Options for keeping a page.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Continue although the kernel does not use the counter, or the CPU does not report it as constant. Measured
    /// faults still count.
    pub force: bool,
    /// Time between two comparisons with the kernel's clock.
    pub period: Duration,
    /// How long a line is valid without renewal.
    pub valid: Duration,
    /// Store the id of the writing thread in the page, so that readers notice its death at once.
    pub owned: bool,
    /// If the kernel's clocksource is the counter, answer after some milliseconds, with a wider bound at first, because
    /// the kernel vouches for the counter. For lines that do not outlive their keeper by much.
    pub early: bool,
    /// Continue a page left by another timekeeper; its readers see no interruption.
    pub resume: bool,
    /// When stopping, leave the line until its end, for the next timekeeper.
    pub bridge: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            force: false,
            period: Duration::from_millis(100),
            valid: Duration::from_secs(3),
            owned: true,
            early: false,
            resume: false,
            bridge: false,
        }
    }
}

/// The state of a timekeeper at its last comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pulse {
    /// Number of comparisons with the kernel's clock.
    pub looks: u64,
    /// Number of published lines.
    pub lines: u64,
    /// Why the page does not answer; `None` if it does.
    pub declined: Option<Decline>,
}

/// The state shared by the thread and its [`Timekeeper`].
#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    /// The state at the last comparison; `None` before the first.
    pulse: Mutex<Option<Pulse>>,
}

/// The thread that keeps a page up to date.
#[derive(Debug)]
pub struct Timekeeper {
    shared: Arc<Shared>,
    waker: PipeWriter,
    thread: JoinHandle<Report>,
}

impl Timekeeper {
    /// Starts to keep `page`. Returns at once; readers get the kernel's answer until the counter has been measured.
    ///
    /// # Errors
    ///
    /// When no thread or pipe can be made.
    pub fn start(page: &'static Page, options: Options) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let (words, waker) = io::pipe()?;
        let seen = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("timekeeper".to_owned())
            .spawn(move || keep::run(page, options, &seen, &words))?;
        Ok(Self { shared, waker, thread })
    }

    /// The state; `None` before the first comparison.
    pub fn pulse(&self) -> Option<Pulse> {
        *self.shared.pulse.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the thread still runs; it ends early only by a bug in this program.
    pub fn is_alive(&self) -> bool {
        !self.thread.is_finished()
    }

    /// Withdraws the page, so that readers ask the kernel, and gives its statistics.
    pub fn stop(self) -> Report {
        self.shared.stop.store(true, Ordering::Release);
        // If the thread has ended, the write fails, which does not matter.
        let _ = (&self.waker).write_all(b".");
        self.thread.join().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;

/// Tests the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
