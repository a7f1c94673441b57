//! How the kernel names this architecture, and where it keeps registers.

/// `AUDIT_ARCH_AARCH64`, include/uapi/linux/audit.h (Linux 6.18).
pub(crate) const AUDIT_ARCH: u32 = 0xc000_00b7;
/// Whether `count.bpf.c` knows where the kernel keeps a program's registers.
pub(crate) const HAS_BPF: bool = false;
