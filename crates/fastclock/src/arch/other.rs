//! A CPU whose counter is not known.

use crate::line::TickLength;

/// Whether a tick is shorter than a nanosecond wherever a clock is kept by the counter.
pub(crate) const TICKS_ARE_SHORT: bool = false;

/// The time along a line without multiplying out: the usual way here.
#[inline(always)]
#[allow(clippy::extra_unused_type_parameters, reason = "makes it a part of the crate that calls")]
pub(crate) fn along<Caller>(tick: TickLength, passed: u64) -> u64 {
    tick.nanos(passed)
}
