//! Code that depends on the architecture. Each architecture has a folder with the same names in it; no other module of
//! this crate tests for the architecture.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::{abi, names};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{abi, names};
