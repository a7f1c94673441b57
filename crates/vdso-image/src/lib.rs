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
//! | `entry.rs` | the functions that programs call: count, then jump |
//! | `slots.rs` | giving a thread a slot; counting without one |
//! | `sample.rs` | timing one call in N |
//! | `plan.rs` | which calls these are |
//! | `routes.rs` | answers by system call, and by the coarse clock |
//! | `slow_reads.rs` | the kernel's answers, after as long as on a host with a slow clocksource |
//! | `tsc.rs` | answers from the clock page |
//! | `clock_file.rs` | attaching the clock page |
//! | `install.rs` | runs once, before the program's first instruction |
//! | `attach.rs` | runs once, in a program that is running already |
//! | `stubs.rs` | the instructions that the tracer writes into a process to bring the image there |
#![no_std]
#![cfg_attr(
    clockscope_image,
    allow(unsafe_code, reason = "code that runs inside other programs, below any library"),
    allow(clippy::cast_possible_truncation, reason = "x86-64 only: a usize has 64 bits")
)]

pub mod histogram;
pub mod layout;
#[allow(clippy::cast_possible_truncation, reason = "small numbers, and high words of products")]
pub mod plan;

#[cfg(all(clockscope_image, target_arch = "x86_64"))]
mod attach;
#[cfg(all(clockscope_image, target_arch = "x86_64"))]
mod clock_file;
#[cfg(all(clockscope_image, target_arch = "x86_64"))]
mod entry;
#[cfg(all(clockscope_image, target_arch = "x86_64"))]
mod install;
#[cfg(all(clockscope_image, target_arch = "x86_64"))]
mod routes;
#[cfg(all(clockscope_image, target_arch = "x86_64"))]
mod sample;
#[cfg(all(clockscope_image, target_arch = "x86_64"))]
mod slots;
#[cfg(all(clockscope_image, target_arch = "x86_64"))]
mod slow_reads;
#[cfg(all(clockscope_image, target_arch = "x86_64"))]
mod stubs;
#[cfg(all(clockscope_image, target_arch = "x86_64"))]
mod tsc;

/// Where the sources of this crate are, for the build script that compiles them into clockscope's vDSO image.
#[doc(hidden)]
pub const SOURCE_DIR: &str = env!("CARGO_MANIFEST_DIR");

/// The example of the README is tried.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
