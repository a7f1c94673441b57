//! arm64.

pub(crate) mod attach;
pub(crate) mod counter_read;
pub mod lacks;
pub(crate) mod tasks;

/// The architecture of system calls, as seccomp filters see it.
pub use clockscope_containers::filter::ARCH_AARCH64 as AUDIT_ARCH;

/// Always `None`: on arm64 no code in the program counts system calls, so there are no jumps to it.
pub(crate) fn near_jump(_: &[u8]) -> Option<i32> {
    None
}
