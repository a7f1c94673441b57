//! Answers by system call.

use core::arch::naked_asm;

/// Defines a function that makes a system call with the program's own arguments: it only loads the number.
macro_rules! by_syscall {
    ($($name:ident => $number:literal;)*) => {$(
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        extern "C" fn $name() {
            naked_asm!(
                ".cfi_startproc", "hint #34", "mov x8, #{number}", "svc #0", "ret", ".cfi_endproc",
                number = const $number
            )
        }
    )*};
}

by_syscall! {
    syscall_clock_gettime => 113;
    syscall_gettimeofday => 169;
    syscall_clock_getres => 114;
}
