//! Statistics: pure functions over numbers.

pub mod allan;
mod bisect;
pub mod distribution;
pub mod gate;
pub mod gated;
pub mod histogram;
pub mod holm;
pub mod jumps;
pub mod launches;
pub mod median;
pub mod ministat;
pub mod nearest;
pub mod normal;
pub mod paired;
pub mod rank_test;
#[cfg(test)]
pub(crate) mod reference;
pub mod resolution;
pub mod scaling;
pub mod shift;
pub mod special;
pub mod student;
pub mod summary;
pub mod timed;
pub mod u_distribution;
pub mod welch;

/// The example of the README is tried.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
