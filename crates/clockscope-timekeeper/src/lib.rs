//! The writer of a clock page: reads the kernel's clock, disciplines, publishes, withdraws.

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

/// How a page is kept.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Go on although the kernel does not use the counter, or the CPU does not promise that it is
    /// constant. What is measured still counts.
    pub force: bool,
    /// Time between two looks at the kernel's clock.
    pub period: Duration,
    /// How long a line holds without being renewed.
    pub valid: Duration,
    /// Say in the page which thread writes it, so that readers notice its death at once.
    pub owned: bool,
    /// Where the kernel's clocksource is the counter, answer after some milliseconds, with a wider bound at first:
    /// the kernel vouches for it. For lines that do not outlive their keeper by much.
    pub early: bool,
    /// Go on with a page that another timekeeper has left, so that its readers notice nothing.
    pub resume: bool,
    /// When stopping, leave the line to its end, for the timekeeper that follows.
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

/// How a timekeeper is doing, as of its last look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pulse {
    /// How often it has looked at the kernel's clock.
    pub looks: u64,
    /// Lines that it has published.
    pub lines: u64,
    /// Why the page does not answer; `None` if it does.
    pub declined: Option<Decline>,
}

/// What the thread and those who started it share.
#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    /// As of the last look; `None` before the first.
    pulse: Mutex<Option<Pulse>>,
}

impl Shared {
    fn tell(&self, pulse: Pulse) {
        *self.pulse.lock().unwrap_or_else(PoisonError::into_inner) = Some(pulse);
    }
}

/// The thread that keeps a page.
#[derive(Debug)]
pub struct Timekeeper {
    shared: Arc<Shared>,
    waker: PipeWriter,
    thread: JoinHandle<Report>,
}

impl Timekeeper {
    /// Starts to keep `page`. Returns at once; readers get the kernel's answer until the counter
    /// is measured.
    ///
    /// # Errors
    ///
    /// When no thread or pipe can be had.
    pub fn start(page: &'static Page, options: Options) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let (words, waker) = io::pipe()?;
        let seen = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("timekeeper".to_owned())
            .spawn(move || keep::run(page, options, &seen, &words))?;
        Ok(Self { shared, waker, thread })
    }

    /// How it is doing; `None` before its first look.
    pub fn pulse(&self) -> Option<Pulse> {
        *self.shared.pulse.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the thread is still there; it ends early only by a mistake of this program.
    pub fn is_alive(&self) -> bool {
        !self.thread.is_finished()
    }

    /// Lets the kernel answer from now on, and says what became of the page.
    pub fn stop(self) -> Report {
        self.shared.stop.store(true, Ordering::Release);
        // A thread that is gone hears nothing.
        let _ = (&self.waker).write_all(b".");
        self.thread.join().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;

/// The example of the README is tried.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
