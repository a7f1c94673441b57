//! The engine of `clockscope trace` and `run`: turns a [`plan::Plan`] into a
//! [`clockscope_model::trace::TraceReport`].
//!
//! [`launch`] runs a program, [`attach`] attaches to running processes. Both use `counter` to count system
//! calls, `sampling` to find callers, `top` to show rates during the run, and `summary` to make the report.

pub mod attach;
mod clock_page;
pub mod clock_reads;
mod counter;
pub mod counter_reads;
mod fallback_reads;
pub mod launch;
mod observers;
pub mod options;
pub mod plan;
mod rows;
#[cfg(test)]
mod rows_for_tests;
mod sampling;
mod signals;
mod summary;
mod throttling;
mod tick_time;
mod timeline;
mod top;
mod verdict;

/// A duration in nanoseconds, saturating.
fn nanos(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Compiles and runs the README's example as a doc test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
