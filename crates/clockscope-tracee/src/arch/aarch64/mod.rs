//! arm64.

pub(crate) mod attach;
pub(crate) mod counter_read;
pub mod lacks;
pub(crate) mod tasks;

/// The table of system calls as seccomp filters see it.
pub use clockscope_containers::filter::ARCH_AARCH64 as AUDIT_ARCH;

/// No code in the program counts here, so none jumps there.
pub(crate) fn near_jump(_: &[u8]) -> Option<i32> {
    None
}
