//! Watches `CLOCK_REALTIME` for steps while other things are measured.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::bracket::Bracket;
use super::machine::MachineClocks;
use clockscope_stats::jumps::{self, Difference};
use clockscope_sys::set_watch::SetWatch;

/// Between two looks. A change below 10 us in this time may be a slew.
const POLL: Duration = Duration::from_millis(20);
/// Brackets of which the tightest is kept.
const TRIES: u32 = 8;

/// What was seen of `CLOCK_REALTIME`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watched {
    /// For how long the clock was watched.
    pub time: Duration,
    /// Times the kernel gave notice that the clock was set.
    pub notices: u64,
    /// The steps seen, in nanoseconds.
    pub steps_ns: Vec<i64>,
    /// The kernel gives no notices: why.
    pub decline: Option<String>,
}

/// Watches until `stop`; `None` if a clock is missing.
pub fn measure(machine: &MachineClocks, stop: &AtomicBool) -> Option<Watched> {
    let realtime = machine.source("CLOCK_REALTIME")?;
    let monotonic = machine.source("CLOCK_MONOTONIC")?;
    let (notice, decline) = match SetWatch::start() {
        Ok(notice) => (Some(notice), None),
        Err(error) => (None, Some(format!("the kernel gives no notice of it: {error}"))),
    };
    let start = Instant::now();
    let mut notices = 0;
    let mut differences = Vec::new();
    loop {
        let ending = stop.load(Ordering::Acquire);
        let bracket = Bracket::tightest(monotonic, realtime, TRIES);
        differences.push(Difference {
            at_ns: bracket.middle(),
            difference_ns: bracket.value - bracket.middle(),
            error_ns: bracket.width() / 2 + 1,
        });
        if ending {
            break;
        }
        match &notice {
            Some(notice) => notices += u64::from(notice.wait(POLL)),
            None => std::thread::park_timeout(POLL),
        }
    }
    let steps_ns = jumps::steps(&differences);
    Some(Watched { time: start.elapsed(), notices, steps_ns, decline })
}
