//! The engine of `clockscope trace` and `run --stats`: starts or follows programs, counts, times and samples, and makes the report.
//!
//! [`launch`] runs a program traced, [`counter`] counts its system calls, [`sampling`] finds out who makes the calls, and [`summary`] turns
//! counts into [`clockscope_model::trace::TraceReport`].

pub mod clock_page;
pub mod clock_reads;
pub mod counter;
mod fallback_reads;
pub mod launch;
pub mod options;
pub mod sampling;
mod signals;
pub mod summary;
pub mod timeline;
pub mod verdict;

/// The example of the README is tried.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
