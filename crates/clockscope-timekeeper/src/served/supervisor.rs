//! Messages to a supervisor such as systemd.

use std::cell::Cell;
use std::time::Duration;

use sd_notify::NotifyState;

/// The supervisor by `$NOTIFY_SOCKET`, if there is one.
#[derive(Debug)]
pub struct Supervisor {
    watchdog: Option<Duration>,
    /// Number of comparisons at the last message that all is well.
    looks: Cell<u64>,
}

impl Supervisor {
    /// From the environment of this process.
    pub fn from_env() -> Self {
        Self { watchdog: sd_notify::watchdog_enabled(), looks: Cell::new(0) }
    }

    /// Interval of messages: half of the supervisor's limit.
    pub fn interval(&self) -> Option<Duration> {
        self.watchdog.map(|limit| limit / 2)
    }

    /// Reports that the page answers.
    pub fn ready(&self) {
        notify(&[NotifyState::Ready]);
    }

    /// Reports the state of the page.
    pub fn status(&self, text: &str) {
        notify(&[NotifyState::Status(text)]);
    }

    /// Reports that the timekeeper ends.
    pub fn stopping(&self) {
        notify(&[NotifyState::Stopping]);
    }

    /// Reports that all is well if the timekeeper has compared with the clock since the last call.
    pub fn alive(&self, looks: u64) {
        if self.watchdog.is_some() && self.looks.replace(looks) != looks {
            notify(&[NotifyState::Watchdog]);
        }
    }
}

fn notify(states: &[NotifyState]) {
    // If the supervisor does not listen, the message is lost.
    let _ = sd_notify::notify(states);
}
