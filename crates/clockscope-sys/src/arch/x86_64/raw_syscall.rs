//! The instruction that enters the kernel, with each number of arguments.
//!
//! Each function returns right behind the instruction, as those of every C library do. Where the kernel clears or fills
//! the CPU's prediction of returns (`spec_rstack_overflow` of AMD's Zen 1 to 4), that return costs a program half as much
//! as the call itself, so a loop around the bare instruction would measure too little.

/// Defines one function for each number of arguments.
macro_rules! system_calls {
    ($($(#[$about:meta])* $name:ident($($argument:ident in $register:tt),*);)*) => {$(
        $(#[$about])*
        #[inline(never)]
        pub(crate) unsafe fn $name(number: libc::c_long $(, $argument: usize)*) -> isize {
            let answer: isize;
            // SAFETY: the instruction changes rax, rcx and r11, and the memory that the caller has
            // vouched for.
            unsafe {
                std::arch::asm!(
                    "syscall",
                    inlateout("rax") number => answer,
                    $(in($register) $argument,)*
                    lateout("rcx") _,
                    lateout("r11") _,
                    options(nostack),
                );
            }
            answer
        }
    )*};
}

system_calls! {
    /// A call without arguments.
    ///
    /// # Safety
    ///
    /// The call's effect on the process must be sound.
    none();

    /// A call with one argument.
    ///
    /// # Safety
    ///
    /// The call's effect on the process must be sound, and a pointer must be valid.
    one(first in "rdi");

    /// A call with two arguments.
    ///
    /// # Safety
    ///
    /// As [`one`].
    two(first in "rdi", second in "rsi");

    /// A call with three arguments.
    ///
    /// # Safety
    ///
    /// As [`one`].
    three(first in "rdi", second in "rsi", third in "rdx");

    /// A call with six arguments; calls with four and five take it too.
    ///
    /// # Safety
    ///
    /// As [`one`].
    six(
        first in "rdi", second in "rsi", third in "rdx",
        fourth in "r10", fifth in "r8", sixth in "r9"
    );
}
