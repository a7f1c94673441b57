//! What differs between architectures. Each has a folder, with the same names in both; nothing else in this
//! crate asks for the architecture.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::{abi, names};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{abi, names};
