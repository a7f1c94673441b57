//! The system-call instructions of an x86-64 program, and code that counts in front of them. Pure.
//!
//! [`find`] reads an ELF file, [`Stubs`] makes the code and the jumps to it for an address at which the file
//! is mapped.

mod branches;
mod elf;
mod find;
mod stubs;

pub use elf::Unreadable;
pub use find::{Behind, Found, Left, Segment, Site, Why, find, find_by_two};
pub use stubs::{
    ERRORS, FIRST, Head, JUMP, Jump, KEPT, KEPT_SIZE, KINDS, MADE_CODE, MAPPED, NEXT, NOTICE,
    NUMBERS, OTHERS, OWN_KINDS, PLACE_SIZE, PLACES, SEALED, SEEN, SHARDS, Stubs, TABLE_WORDS,
    TIMED, TIMES, UNSEEN, Write,
};

/// The example of the README is tried.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
