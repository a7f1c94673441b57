//! The CPU-dependent part: the counter.

#![allow(unsafe_code, reason = "reading the counter is an instruction")]

use crate::line::TickLength;

#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), target_pointer_width = "64"))]
#[cfg_attr(target_arch = "aarch64", path = "aarch64/mod.rs")]
#[cfg_attr(target_arch = "x86_64", path = "x86_64/mod.rs")]
mod this;

#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), target_pointer_width = "64"))]
pub use this::*;

/// Whether counters of this architecture usually tick faster than 1 GHz; slower ones take the long
/// form.
pub(crate) const TICKS_ARE_SHORT: bool =
    cfg!(all(target_arch = "x86_64", target_pointer_width = "64"));

/// Ticks to nanoseconds by a full multiplication: the usual way, but rare where ticks are short.
/// Generic, so that the vDSO image, which is linked to no library, gets its own copy of the code.
#[cfg_attr(target_arch = "x86_64", cold, inline(never))]
#[cfg_attr(not(target_arch = "x86_64"), inline(always))]
#[allow(clippy::extra_unused_type_parameters, reason = "makes it a part of the crate that calls")]
pub(crate) fn along<Caller>(tick: TickLength, passed: u64) -> u64 {
    tick.nanos(passed)
}
