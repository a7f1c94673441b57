//! What the launch code needs to know.

/// The architecture as seccomp filters see it.
pub(crate) use clockscope_containers::filter::ARCH_AARCH64 as AUDIT_ARCH;
