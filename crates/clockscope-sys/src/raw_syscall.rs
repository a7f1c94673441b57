//! The system call instruction itself, without the C library around it.
//!
//! The answer is the kernel's: an error is its number, from -4095 to -1.
//!
//! # References
//!
//! - `syscall(2)`, section "Architecture calling conventions"

/// A number as the kernel takes it in a register.
pub(super) fn argument(number: i32) -> usize {
    (number as isize).cast_unsigned()
}

/// Writes the functions, one for each number of arguments.
macro_rules! system_call {
    ($(#[$about:meta])* $name:ident($($argument:ident in $register:tt),*)) => {
        $(#[$about])*
        #[inline(always)]
        pub(super) unsafe fn $name(number: libc::c_long $(, $argument: usize)*) -> isize {
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
    };
}

system_call! {
    /// A call without arguments.
    ///
    /// # Safety
    ///
    /// What the call does to the process must be sound.
    none()
}
system_call! {
    /// A call with one argument.
    ///
    /// # Safety
    ///
    /// What the call does to the process must be sound, and a pointer must be valid.
    one(first in "rdi")
}
system_call! {
    /// A call with two arguments.
    ///
    /// # Safety
    ///
    /// As [`one`].
    two(first in "rdi", second in "rsi")
}
system_call! {
    /// A call with three arguments.
    ///
    /// # Safety
    ///
    /// As [`one`].
    three(first in "rdi", second in "rsi", third in "rdx")
}
system_call! {
    /// A call with six arguments; calls with four and five take it too.
    ///
    /// # Safety
    ///
    /// As [`one`].
    six(
        first in "rdi", second in "rsi", third in "rdx",
        fourth in "r10", fifth in "r8", sixth in "r9"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_answers_and_refuses_as_through_the_c_library() {
        // SAFETY: both take nothing, and a number that no system call has does nothing.
        let (pid, nothing) = unsafe { (three(libc::SYS_getpid, 0, 0, 0), three(100_000, 0, 0, 0)) };
        assert_eq!(u32::try_from(pid), Ok(std::process::id()));
        assert_eq!(nothing, -isize::try_from(libc::ENOSYS).unwrap());
    }
}
