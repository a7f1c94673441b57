//! x86-64.

pub(crate) mod attach;
pub(crate) mod counter_read;
pub(crate) mod image;
pub mod lacks;
pub(crate) mod tasks;

/// The table of system calls as seccomp filters see it.
pub use clockscope_containers::filter::ARCH_X86_64 as AUDIT_ARCH;

#[cfg(test)]
mod image_tests;
#[cfg(test)]
mod injected_tests;
#[cfg(test)]
mod launch_code_tests;
#[cfg(test)]
mod readers_tests;
