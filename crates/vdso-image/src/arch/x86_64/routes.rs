//! Answers by system call.
//!
//! `--clock syscall` is the per-process form of `vsyscall64 = 0` (Red Hat Enterprise Linux 5 and 6).

use core::arch::naked_asm;

/// Defines a function that makes a system call with the program's own arguments: it only loads the number.
macro_rules! by_syscall {
    ($($name:ident => $number:literal;)*) => {$(
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        extern "C" fn $name() {
            naked_asm!(".cfi_startproc", "mov eax, {number}", "syscall", "ret", ".cfi_endproc", number = const $number)
        }
    )*};
}

by_syscall! {
    syscall_clock_gettime => 228;
    syscall_gettimeofday => 96;
    syscall_time => 201;
    syscall_getcpu => 309;
    syscall_clock_getres => 229;
}
