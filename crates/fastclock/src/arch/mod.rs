//! The CPU-dependent part: the counter.

#![allow(unsafe_code, reason = "reading the counter is an instruction")]

#[cfg(all(target_arch = "aarch64", target_pointer_width = "64"))]
mod aarch64;
#[cfg(not(all(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    target_pointer_width = "64"
)))]
mod other;
#[cfg(all(target_arch = "x86_64", target_pointer_width = "64"))]
mod x86_64;

#[cfg(all(target_arch = "aarch64", target_pointer_width = "64"))]
pub use aarch64::CpuCounter;
#[cfg(all(target_arch = "aarch64", target_pointer_width = "64"))]
pub(crate) use aarch64::{TICKS_ARE_SHORT, along};
#[cfg(not(all(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    target_pointer_width = "64"
)))]
pub(crate) use other::{TICKS_ARE_SHORT, along};
#[cfg(all(target_arch = "x86_64", target_pointer_width = "64"))]
pub use x86_64::{CpuCounter, CpuCounterP};
#[cfg(all(target_arch = "x86_64", target_pointer_width = "64"))]
pub(crate) use x86_64::{TICKS_ARE_SHORT, along};
