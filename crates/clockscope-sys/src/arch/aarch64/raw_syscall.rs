//! The instruction that enters the kernel, with each number of arguments.
//!
//! Each function returns right behind the instruction, as those of every C library do.

/// Defines one function for each number of arguments.
macro_rules! system_calls {
    ($($(#[$about:meta])* $name:ident($($argument:ident in $register:tt),*);)*) => {$(
        $(#[$about])*
        #[inline(never)]
        pub(crate) unsafe fn $name(number: libc::c_long $(, $argument: usize)*) -> isize {
            let answer: isize;
            // SAFETY: the instruction changes x0, and the memory that the caller has vouched for.
            unsafe {
                std::arch::asm!(
                    "svc #0",
                    in("x8") number,
                    $(in($register) $argument,)*
                    lateout("x0") answer,
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
    one(first in "x0");

    /// A call with two arguments.
    ///
    /// # Safety
    ///
    /// As [`one`].
    two(first in "x0", second in "x1");

    /// A call with three arguments.
    ///
    /// # Safety
    ///
    /// As [`one`].
    three(first in "x0", second in "x1", third in "x2");

    /// A call with six arguments; calls with four and five take it too.
    ///
    /// # Safety
    ///
    /// As [`one`].
    six(
        first in "x0", second in "x1", third in "x2",
        fourth in "x3", fifth in "x4", sixth in "x5"
    );
}
