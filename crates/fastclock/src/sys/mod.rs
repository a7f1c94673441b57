//! System calls and kernel interfaces: clocks, pages in memory, and the kernel's facts about the
//! counter.

#![allow(unsafe_code, reason = "system calls")]

mod clocksource;
mod errno;
mod fork_cell;
mod look;
mod mapping;
mod permission;
#[cfg(test)]
pub(crate) mod process_tests;
pub(crate) mod small_file;
mod vdso;
mod vmclock;

pub(crate) use errno::preserving_errno;
pub(crate) use fork_cell::ForkCell;
pub(crate) use mapping::Mapping;
#[cfg(test)]
pub(crate) use mapping::writable;

pub(crate) use crate::arch::CpuCounter;
pub(crate) use crate::system::facts::LARGEST_PAGE;

pub use crate::attach_error::AttachError;
pub use crate::system::facts::is_invariant;
pub use clocksource::{Clocksource, clocksource, counter_is_clocksource};
pub use look::{look, look_with, now, now_by_syscall, resolution};
pub use permission::may_read_counter;
pub use small_file::boot_id;
pub use vdso::{gettime, gettime_at};
pub use vmclock::VmClock;
