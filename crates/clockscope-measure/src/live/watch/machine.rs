//! This machine, watched.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::{Duration, Instant};

use fastclock::ClockId;

use super::changes::Snapshot;
use super::{Watched, Woken};
use crate::live::kernel_log;
use clockscope_sys::poll::{self, EndSignals};
use clockscope_sys::set_watch::SetWatch;
use clockscope_sys::{identity, timex, tsc};
use clockscope_text::date;

/// The kernel gives no notice of another clocksource: it is looked at this often.
const EVERY: Duration = Duration::from_secs(1);
/// Readings of which the tightest counts.
const TRIES: usize = 5;
const CLOCKSOURCE: &str = "/sys/devices/system/clocksource/clocksource0";

/// What gives notice of changes.
pub(super) struct Machine {
    signals: EndSignals,
    set_watch: Option<SetWatch>,
    log: Option<File>,
    unwatched: Vec<String>,
    next_look: Instant,
}

impl Machine {
    /// Begins to watch; what cannot be watched is told by `unwatched`.
    ///
    /// # Errors
    ///
    /// When the signals that end the watch cannot be caught.
    pub(super) fn new() -> io::Result<Self> {
        let mut unwatched = Vec::new();
        let log = log_from_now().map_err(|error| {
            unwatched.push(format!("the kernel's log: {}", kernel_log::refusal(&error)));
        });
        let set_watch = SetWatch::start().map_err(|error| {
            unwatched.push(format!("steps of CLOCK_REALTIME below half a second: {error}"));
        });
        Ok(Self {
            signals: EndSignals::catch()?,
            set_watch: set_watch.ok(),
            log: log.ok(),
            unwatched,
            next_look: Instant::now() + EVERY,
        })
    }
}

impl Watched for Machine {
    fn snapshot(&mut self) -> Snapshot {
        let file = |name: &str| fs::read_to_string(format!("{CLOCKSOURCE}/{name}_clocksource"));
        let available = file("available").unwrap_or_default();
        Snapshot {
            current: file("current").ok().map(|text| text.trim().to_owned()),
            available: available.split_whitespace().map(str::to_owned).collect(),
            is_synchronised: timex::read().ok().map(|timex| timex.is_synchronised()),
            realtime_ns: difference(ClockId::Realtime, ClockId::Boottime),
            suspended_ns: difference(ClockId::Boottime, ClockId::Monotonic),
        }
    }

    fn wait(&mut self) -> io::Result<Woken> {
        let mut woken = Woken::default();
        loop {
            let left = self.next_look.saturating_duration_since(Instant::now());
            let mut descriptors: Vec<BorrowedFd> = vec![self.signals.as_fd()];
            descriptors.extend(self.set_watch.iter().map(|watch| watch.as_fd()));
            descriptors.extend(self.log.iter().map(|log| log.as_fd()));
            poll::wait(&descriptors, left)?;
            woken.is_over = self.signals.came();
            woken.was_set = self.set_watch.as_ref().is_some_and(|watch| watch.wait(Duration::ZERO));
            self.read_log(&mut woken);
            let is_time = Instant::now() >= self.next_look;
            if is_time {
                self.next_look = Instant::now() + EVERY;
            }
            let has_news = woken.was_set || woken.has_lost_lines || !woken.log.is_empty();
            if woken.is_over || is_time || has_news {
                return Ok(woken);
            }
        }
    }

    fn stamp(&self) -> String {
        date::rfc3339(identity::unix_seconds())
    }

    fn unwatched(&self) -> Vec<String> {
        self.unwatched.clone()
    }
}

impl Machine {
    fn read_log(&mut self, woken: &mut Woken) {
        let Some(log) = &mut self.log else { return };
        let mut record = [0; kernel_log::RECORD_MAX];
        loop {
            match log.read(&mut record) {
                Ok(size) if size > 0 => {
                    woken.log.push_str(&kernel_log::line(&record[..size]).unwrap_or_default());
                }
                // EPIPE: the next record was overwritten before it was read; reading goes on at the
                // oldest that is left.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => woken.has_lost_lines = true,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // A device that is at its end or broken would be ready for ever.
                _ => {
                    self.log = None;
                    return;
                }
            }
        }
    }
}

/// `/dev/kmsg`, behind what it has now.
fn log_from_now() -> io::Result<File> {
    let mut log = kernel_log::open_device()?;
    log.seek(SeekFrom::End(0))?;
    Ok(log)
}

/// One clock less another, in nanoseconds: the tightest of some readings.
fn difference(clock: ClockId, other: ClockId) -> i64 {
    let bracket = || {
        let before = tsc::now(other).0;
        let value = tsc::now(clock).0;
        let after = tsc::now(other).0;
        (after - before, value - (before + (after - before) / 2))
    };
    (0..TRIES).map(|_| bracket()).min_by_key(|(width, _)| *width).map_or(0, |(_, found)| found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_seen() {
        let mut machine = Machine {
            signals: std::thread::spawn(EndSignals::catch).join().unwrap().unwrap(),
            set_watch: None,
            log: None,
            unwatched: Vec::new(),
            next_look: Instant::now(),
        };
        let snapshot = machine.snapshot();
        assert!(snapshot.current.is_some_and(|current| snapshot.available.contains(&current)));
        assert!(snapshot.realtime_ns > 1_600_000_000_000_000_000, "the boot was after 2020");
        let woken = machine.wait().unwrap();
        assert!(!woken.is_over && woken.log.is_empty(), "{woken:?}");
    }
}
