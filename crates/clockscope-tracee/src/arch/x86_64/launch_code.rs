//! What the launch code needs to know.

/// The architecture as seccomp filters see it.
pub(crate) use clockscope_containers::filter::ARCH_X86_64 as AUDIT_ARCH;
