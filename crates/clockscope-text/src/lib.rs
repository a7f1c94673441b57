//! Lines for a terminal: [`units`], [`lines`], [`style`], the [`names`] that users write and the texts of
//! others ([`foreign`]).

pub mod date;
pub mod foreign;
pub mod lines;
pub mod names;
pub mod style;
pub mod units;

/// The example of the README is tried.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
