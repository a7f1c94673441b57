//! Text for a terminal: [`units`], [`lines`], [`style`], [`names`] that users write, and [`foreign`] text.

pub mod date;
pub mod foreign;
pub mod lines;
pub mod names;
pub mod style;
pub mod units;

/// Tests the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
