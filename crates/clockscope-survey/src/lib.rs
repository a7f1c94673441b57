//! The engine of `clockscope survey`: who reads the clock on this host.
//!
//! | module | what is in it |
//! |---|---|
//! | [`sampling`] | samples all CPUs for a while, and measures meanwhile what a read costs |
//! | [`learn`] | which instructions of the vDSO belong to which clock |
//! | [`reads`] | from places in the vDSO and in the kernel to reads of clocks; pure |
//! | [`estimate`] | from samples to reads a second, with an interval; pure |
//! | [`report`] | rows of processes, units and containers, in order; pure |
//! | [`processes`] | names and places of the processes that were sampled |

mod calibrate;
pub mod estimate;
pub mod learn;
pub mod processes;
pub mod reads;
pub mod report;
pub mod sampling;

/// The example of the README is tried.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
