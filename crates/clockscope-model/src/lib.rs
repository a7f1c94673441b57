//! The reports of clockscope as data: the schema of its JSON documents.
//!
//! One module a document. A field is added, never renamed; the unit is the last part of its name.

pub mod bench;
pub mod callers;
pub mod compare;
pub mod host;
pub mod names;
pub mod reads;
pub mod survey;
pub mod trace;
pub mod waiting;
pub mod wrongness;

/// Compiles and runs the README's example as a doc test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
