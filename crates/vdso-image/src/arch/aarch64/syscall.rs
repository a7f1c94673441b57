//! The image's own system calls.

use core::arch::asm;

use crate::layout::INSTALL_MARK;

pub(crate) const SYS_CLOSE: usize = 57;
pub(crate) const SYS_FSTAT: usize = 80;
pub(crate) const SYS_TGKILL: usize = 131;
pub(crate) const SYS_PRCTL: usize = 167;
pub(crate) const SYS_GETPID: usize = 172;
pub(crate) const SYS_SHMAT: usize = 196;
pub(crate) const SYS_MUNMAP: usize = 215;
pub(crate) const SYS_MREMAP: usize = 216;
pub(crate) const SYS_EXECVE: usize = 221;
pub(crate) const SYS_MMAP: usize = 222;
pub(crate) const SYS_MPROTECT: usize = 226;
pub(crate) const SYS_MADVISE: usize = 233;
const SYS_OPENAT: usize = 56;
const AT_FDCWD: usize = (-100_isize).cast_unsigned();

/// Makes a marked system call; returns the kernel's result unchanged.
pub(crate) fn syscall_5(
    number: usize,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    fifth: usize,
) -> usize {
    let result;
    // SAFETY: the callers pass addresses in the range reserved for the image, of their own variables, or of the
    // kernel's image, which the program does not know yet. So no memory of the program changes.
    unsafe {
        asm!(
            "svc #0",
            in("x8") number,
            inlateout("x0") a => result,
            in("x1") b, in("x2") c, in("x3") d, in("x4") fifth, in("x5") INSTALL_MARK,
            options(nostack)
        );
    }
    result
}

/// Opens a file.
pub(crate) fn open(path: usize, flags: usize) -> usize {
    syscall_5(SYS_OPENAT, AT_FDCWD, path, flags, 0, 0)
}
