//! Times of log events, for `tracing-subscriber`.
//!
//! # Examples
//!
//! ```
//! use fastclock::{Clock, tracing::WallTime};
//!
//! let subscriber =
//!     tracing_subscriber::fmt().with_timer(WallTime(Clock::global())).with_test_writer().finish();
//! # drop(subscriber);
//! ```

use core::fmt;
use std::time::SystemTime;

use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

use crate::read_clock::ReadClock;

/// The date and time in UTC with nanoseconds, by [`ReadClock::realtime`], as RFC 3339 has it.
///
/// # Examples
///
/// ```
/// use fastclock::{MockClock, Nanos, Realtime, tracing::WallTime};
/// use tracing_subscriber::fmt::{format::Writer, time::FormatTime};
///
/// let clock = MockClock::new();
/// clock.set_realtime(Realtime(Nanos(1_700_000_000_123_456_789)));
/// let mut text = String::new();
/// WallTime(&clock).format_time(&mut Writer::new(&mut text))?;
/// assert_eq!(text, "2023-11-14T22:13:20.123456789Z");
/// # Ok::<(), std::fmt::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct WallTime<'a, C>(pub &'a C);

impl<C: ReadClock> FormatTime for WallTime<'_, C> {
    fn format_time(&self, w: &mut Writer<'_>) -> fmt::Result {
        write!(w, "{}", humantime::format_rfc3339_nanos(SystemTime::from(self.0.realtime())))
    }
}

/// The seconds since the machine's start with nanoseconds, by [`ReadClock::now`]: the times of the kernel's
/// own log and of its traces by the clock `mono`.
///
/// # Examples
///
/// ```
/// use fastclock::{MockClock, Nanos, tracing::Uptime};
/// use tracing_subscriber::fmt::{format::Writer, time::FormatTime};
///
/// let clock = MockClock::new();
/// clock.advance(Nanos(5_000_000_017));
/// let mut text = String::new();
/// Uptime(&clock).format_time(&mut Writer::new(&mut text))?;
/// assert_eq!(text, "5.000000017");
/// # Ok::<(), std::fmt::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Uptime<'a, C>(pub &'a C);

impl<C: ReadClock> FormatTime for Uptime<'_, C> {
    fn format_time(&self, w: &mut Writer<'_>) -> fmt::Result {
        write!(w, "{}", self.0.now())
    }
}
