//! Code that depends on the architecture. Each architecture has a folder with the same names in it; no other module of
//! this crate tests for the architecture.

#[cfg_attr(target_arch = "aarch64", path = "aarch64/mod.rs")]
#[cfg_attr(target_arch = "x86_64", path = "x86_64/mod.rs")]
mod this;

pub(crate) use this::{abi, names};
