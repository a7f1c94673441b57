//! Makes clockscope's output from the models: tables and sentences for people, and the formats of other tools.

pub mod answers;
pub mod bench;
pub mod callers;
pub mod clock_page;
pub mod compare;
mod costs;
mod counter_reads;
mod declines;
pub mod entries;
pub mod host;
mod latency;
pub mod options;
mod overhead;
mod page_answers;
pub mod pages;
pub mod survey;
mod table;
pub mod text;
pub mod top;
mod verdict;
pub mod what_if;
pub mod wrongness;

#[cfg(test)]
mod tests;

/// Compiles and runs the README's example as a doc test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
