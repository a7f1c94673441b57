//! Measures the cost of a call and the errors of a clock.

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

/// Compiles and runs the README's example as a doc test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
