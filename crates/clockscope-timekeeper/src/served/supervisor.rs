//! What a supervisor such as systemd is told.

use std::cell::Cell;
use std::time::Duration;

use sd_notify::NotifyState;

/// The supervisor by `$NOTIFY_SOCKET`, if there is one.
#[derive(Debug)]
pub struct Supervisor {
    watchdog: Option<Duration>,
    /// Looks when it was last told that all is well.
    looks: Cell<u64>,
}

impl Default for Supervisor {
    fn default() -> Self {
        Self::new()
    }
}

impl Supervisor {
    /// By the environment of this process.
    pub fn new() -> Self {
        Self { watchdog: sd_notify::watchdog_enabled(), looks: Cell::new(0) }
    }

    /// How often it wants to hear from us: twice in its limit.
    pub fn interval(&self) -> Option<Duration> {
        self.watchdog.map(|limit| limit / 2)
    }

    /// Says that the page answers.
    pub fn ready(&self) {
        notify(&[NotifyState::Ready]);
    }

    /// Says how the page is doing.
    pub fn status(&self, text: &str) {
        notify(&[NotifyState::Status(text)]);
    }

    /// Says that the timekeeper ends.
    pub fn stopping(&self) {
        notify(&[NotifyState::Stopping]);
    }

    /// All is well if the timekeeper has looked at the clock since the last time.
    pub fn alive(&self, looks: u64) {
        if self.watchdog.is_some() && self.looks.replace(looks) != looks {
            notify(&[NotifyState::Watchdog]);
        }
    }
}

fn notify(states: &[NotifyState]) {
    // Nothing can be done about a supervisor that does not listen.
    let _ = sd_notify::notify(states);
}
