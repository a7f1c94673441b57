//! The kernel's log: its lines about clocks, in the wording of twenty years of kernels.
//!
//! `lines` splits the stream, `json` takes messages out of objects, `prefix` removes the prefixes of loggers, `parse`
//! interprets the rest, `kept` bounds the memory, `reader` combines them and separates boots. `order` reverses a log with
//! its newest line first.

pub(super) mod clean;
pub mod event;
mod json;
mod kept;
mod lines;
mod order;
mod parse;
mod prefix;
pub mod reader;

pub use event::{Event, EventKind, Log};
pub(crate) use parse::is_name;
