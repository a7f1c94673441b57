//! clockscope's own vDSO image.
//!
//! A traced program is given this image in place of the kernel's. Its functions count the call and
//! jump to the kernel's own image, which stays mapped, or answer by another clock. The command's build script compiles this
//! crate a second time, with `--cfg clockscope_image`, and links it into an ELF shared object of at
//! most eight pages (see `image.ld`); as an ordinary library the crate holds only the [`layout`].
//!
//! | file | what is in it |
//! |---|---|
//! | `layout.rs` | the memory behind the image, byte by byte |
//! | `histogram.rs` | times of calls by buckets, part of it |
//! | `arch/` | what differs between architectures, in a folder each: the functions that programs call, and all assembly |
//! | `slots.rs` | giving a thread a slot; counting without one |
//! | `sample.rs` | timing one call in N |
//! | `plan.rs` | which calls these are |
//! | `routes.rs` | answers from the coarse clock |
//! | `tsc.rs` | answers from the clock page |
//! | `slow_reads.rs` | answers that take long |
//! | `clock_file.rs` | attaching the clock page |
//! | `install.rs` | runs once, before the program's first instruction |
//! | `attach.rs` | runs once in a program that is running already |
#![no_std]
#![cfg_attr(
    clockscope_image,
    allow(unsafe_code, reason = "code that runs inside other programs, below any library"),
    allow(clippy::cast_possible_truncation, reason = "a usize has 64 bits")
)]

mod arch;
pub mod histogram;
pub mod layout;
#[allow(clippy::cast_possible_truncation, reason = "small numbers, and high words of products")]
pub mod plan;

#[cfg(clockscope_image)]
mod attach;
#[cfg(clockscope_image)]
mod clock_file;
#[cfg(clockscope_image)]
mod install;
#[cfg(clockscope_image)]
mod routes;
#[cfg(clockscope_image)]
mod sample;
#[cfg(clockscope_image)]
mod slots;
#[cfg(clockscope_image)]
mod slow_reads;
#[cfg(clockscope_image)]
mod tsc;

/// Where the sources of this crate are, for the build script that compiles them into clockscope's vDSO image.
#[doc(hidden)]
pub const SOURCE_DIR: &str = env!("CARGO_MANIFEST_DIR");

/// The example of the README is tried.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
