//! The engine of `clockscope trace` and `run`: takes a [`plan::Plan`], and gives a whole [`clockscope_model::trace::TraceReport`].
//!
//! [`launch`] runs a program, [`attach`] takes running ones. In both, `counter` counts system calls, `sampling` finds out who makes the
//! calls, `top` shows rates meanwhile, and `summary` makes the report.

pub mod attach;
mod clock_page;
pub mod clock_reads;
mod counter;
mod fallback_reads;
pub mod launch;
mod observers;
pub mod options;
pub mod plan;
mod sampling;
mod signals;
mod summary;
mod tick_time;
mod timeline;
mod top;
mod verdict;

/// A time in nanoseconds, as the report has it.
fn nanos(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The example of the README is tried.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
