//! The kernel's number for this architecture.

/// `AUDIT_ARCH_AARCH64`, include/uapi/linux/audit.h (Linux 6.18).
pub(crate) const AUDIT_ARCH: u32 = 0xc000_00b7;
