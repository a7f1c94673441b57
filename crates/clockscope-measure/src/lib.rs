//! Measuring: what a call costs, and how wrong a clock is.

pub mod batch;
pub mod bench;
pub mod clocks;
pub mod host;
pub mod instructions;
pub mod live;
pub mod path;
pub mod rounds;
pub mod system_calls;
pub mod wrongness;

/// The example of the README is tried.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
