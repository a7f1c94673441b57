//! The kernel's log: its lines on clocks, in the words of twenty years of kernels.
//!
//! `lines` splits the stream, `prefix` takes off the texts that loggers put in front, `parse` understands the rest, `kept`
//! keeps memory bounded, `reader` joins them and tells one boot from the next. `order` turns a log round whose newest line
//! comes first.

pub(super) mod clean;
pub mod event;
mod kept;
mod lines;
mod order;
mod parse;
mod prefix;
pub mod reader;

pub use event::{Event, EventKind, Log};
