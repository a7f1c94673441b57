//! The image's own system calls.

use core::arch::asm;

use crate::layout::INSTALL_MARK;

const SYS_OPEN: usize = 2;
pub(crate) const SYS_CLOSE: usize = 3;
pub(crate) const SYS_FSTAT: usize = 5;
pub(crate) const SYS_MMAP: usize = 9;
pub(crate) const SYS_MPROTECT: usize = 10;
pub(crate) const SYS_MUNMAP: usize = 11;
pub(crate) const SYS_MREMAP: usize = 25;
pub(crate) const SYS_MADVISE: usize = 28;
pub(crate) const SYS_SHMAT: usize = 30;
pub(crate) const SYS_GETPID: usize = 39;
pub(crate) const SYS_EXECVE: usize = 59;
pub(crate) const SYS_PRCTL: usize = 157;
pub(crate) const SYS_TGKILL: usize = 234;

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
            "syscall",
            inlateout("rax") number => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d,
            in("r8") fifth, in("r9") INSTALL_MARK,
            lateout("rcx") _, lateout("r11") _,
            options(nostack)
        );
    }
    result
}

/// Opens a file.
pub(crate) fn open(path: usize, flags: usize) -> usize {
    syscall_5(SYS_OPEN, path, flags, 0, 0, 0)
}
