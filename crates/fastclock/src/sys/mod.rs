//! The kernel's door: its clocks, pages in memory, and what it says of the counter.

#![allow(unsafe_code, reason = "the kernel's door")]

mod clocksource;
mod errno;
mod fork_cell;
mod invariant;
mod look;
mod mapping;
mod permission;
#[cfg(test)]
mod process_tests;
mod small_file;
mod vdso;
mod vmclock;

pub(crate) use errno::preserving_errno;
pub(crate) use fork_cell::ForkCell;
pub(crate) use mapping::Mapping;
#[cfg(test)]
pub(crate) use mapping::writable;

pub(crate) use crate::arch::CpuCounter;

pub use crate::attach_error::AttachError;
pub use clocksource::{Clocksource, clocksource, counter_is_clocksource};
pub use invariant::is_invariant;
pub use look::{look, look_with, now, now_by_syscall, resolution};
pub use permission::may_read_counter;
pub use small_file::boot_id;
pub use vdso::{gettime, gettime_at};
pub use vmclock::VmClock;
