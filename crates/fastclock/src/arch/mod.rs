//! The CPU-dependent part: the counter.

#![allow(unsafe_code, reason = "reading the counter is an instruction")]

#[cfg_attr(all(target_arch = "aarch64", target_pointer_width = "64"), path = "aarch64/mod.rs")]
#[cfg_attr(all(target_arch = "x86_64", target_pointer_width = "64"), path = "x86_64/mod.rs")]
#[cfg_attr(
    not(all(any(target_arch = "x86_64", target_arch = "aarch64"), target_pointer_width = "64")),
    path = "other.rs"
)]
mod this;

#[cfg(all(target_arch = "aarch64", target_pointer_width = "64"))]
pub use this::CpuCounter;
#[cfg(all(target_arch = "x86_64", target_pointer_width = "64"))]
pub use this::{CpuCounter, CpuCounterP};
pub(crate) use this::{TICKS_ARE_SHORT, along};
