//! Facts of the machine that decide the cost of a clock read, and their meaning.
//!
//! Start at [`rules`]. [`collect`] reads files below a root; everything else is pure.

pub mod capture;
pub mod collect;
pub mod evidence;
pub mod facts;
pub mod log;
pub mod measured;
pub mod report;
pub mod root;
pub mod rules;
pub mod utc;

/// Tests the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
