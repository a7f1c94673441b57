//! A CPU whose counter is not known.

use crate::line::TickLength;

/// Whether counters of this architecture usually tick faster than 1 GHz; slower ones take the long
/// form.
pub(crate) const TICKS_ARE_SHORT: bool = false;

/// Ticks to nanoseconds by a full multiplication: the usual way here.
#[inline(always)]
#[allow(clippy::extra_unused_type_parameters, reason = "makes it a part of the crate that calls")]
pub(crate) fn along<Caller>(tick: TickLength, passed: u64) -> u64 {
    tick.nanos(passed)
}
