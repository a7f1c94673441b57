//! The engine of `clockscope survey`: finds the processes that read the clock on this host.
//!
//! | module | content |
//! |---|---|
//! | [`sampling`] | samples all CPUs for a while, and measures the cost of a read meanwhile |
//! | [`learn`] | maps the vDSO's instructions to clocks |
//! | [`reads`] | clock reads from places in the vDSO and in the kernel; pure |
//! | [`estimate`] | reads per second from samples, with an interval; pure |
//! | [`report`] | rows of processes, units and containers, in order; pure |
//! | [`processes`] | names and places of the sampled processes |

mod calibrate;
pub mod estimate;
pub mod learn;
pub mod processes;
pub mod reads;
pub mod report;
pub mod sampling;

/// Tests the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
