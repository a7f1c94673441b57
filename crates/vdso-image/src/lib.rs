//! clockscope's own vDSO image.
//!
//! A traced program gets this image instead of the kernel's. The image's functions count the call and jump to the
//! kernel's own image, which stays mapped, or they answer from another clock. The build script of `clockscope-tracee`
//! compiles this crate a second time, with `--cfg clockscope_image`, and links it into an ELF shared object of at most
//! eight pages (see `image-x86_64.ld` and `image-aarch64.ld`). As an ordinary library the crate holds only [`layout`],
//! [`histogram`] and [`plan`].
//!
//! | file | contents |
//! |---|---|
//! | `layout.rs` | the memory behind the image, byte by byte |
//! | `histogram.rs` | histograms of call times, part of that memory |
//! | `arch/` | one folder per architecture: all instructions |
//! | `entry.rs` | the functions that programs call |
//! | `slots.rs` | gives a thread a slot; counts calls of threads without a slot |
//! | `sample.rs` | times one call in N |
//! | `plan.rs` | chooses the calls to time |
//! | `routes.rs` | answers from the coarse clock |
//! | `tsc.rs` | answers from the clock page |
//! | `slow_reads.rs` | delayed answers, as on a host with a slow clocksource |
//! | `install/clock_file.rs` | attaches the clock page |
//! | `install.rs` | runs once, before the program's first instruction |
//! | `stubs.rs` | the operands of the code that the tracer writes into a process |
//! | `attach.rs` | runs in a process that clockscope attaches to or detaches from |
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
mod entry;
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
mod stubs;
#[cfg(clockscope_image)]
mod tsc;

/// Source directory of this crate, for the build script that compiles it into clockscope's vDSO image.
#[doc(hidden)]
pub const SOURCE_DIR: &str = env!("CARGO_MANIFEST_DIR");

/// Compiles the README's example as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
