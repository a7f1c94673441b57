//! Statistics: pure functions over numbers.

pub mod distribution;
pub mod gate;
pub mod gated;
pub mod histogram;
pub mod holm;
pub mod launches;
pub mod median;
pub mod ministat;
pub mod order;
pub mod poisson;
mod probability;
pub mod proportion;
pub mod resolution;
pub mod timed;

/// Tests the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
