//! Linux, on a CPU whose counter is known.

#[path = "../clock/alone.rs"]
pub(crate) mod alone;
#[cfg_attr(target_arch = "aarch64", path = "aarch64/linux.rs")]
#[cfg_attr(target_arch = "x86_64", path = "x86_64/linux.rs")]
pub(crate) mod facts;
#[path = "../sys/mod.rs"]
pub mod sys;
