//! Finds the system-call instructions of an x86-64 program, and makes code that counts the calls. Pure.
//!
//! [`find`] reads an ELF file. [`Stubs`] makes the counting code, and the jumps to it, for a file mapped at a given
//! address.

mod counter;
mod elf;
mod find;
mod flow;
mod site;
mod stubs;

pub use counter::{counter_reads, functions_at};
pub use elf::{Unreadable, read_parts};
pub use find::{Found, Left, Wanted, Why, find};
pub use site::{COMPARE, COUNTERS, Calls, JUMP, NUMBERS, PLACES, Read, Segment, Site};
pub use stubs::{
    ERRORS, FIRST, Head, Jump, MADE_CODE, MAPPED, NEXT, OTHERS, SEEN, Settled, Stubs, TIMED,
    Thread, UNSEEN, Write,
};

/// Compiles the README's example as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
