//! The system call instruction itself, without the C library around it.
//!
//! The answer is the kernel's: an error is its number, from -4095 to -1.
//!
//! # References
//!
//! - `syscall(2)`, section "Architecture calling conventions"

/// Writes the functions, one for each number of arguments.
macro_rules! system_call {
    ($(#[$about:meta])* $name:ident($($argument:ident in $x86:tt / $arm:tt),*)) => {
        $(#[$about])*
        #[cfg(target_arch = "x86_64")]
        #[inline(always)]
        pub(super) unsafe fn $name(number: libc::c_long $(, $argument: usize)*) -> isize {
            let answer: isize;
            // SAFETY: the instruction changes rax, rcx and r11, and the memory that the caller has
            // vouched for.
            unsafe {
                std::arch::asm!(
                    "syscall",
                    inlateout("rax") number => answer,
                    $(in($x86) $argument,)*
                    lateout("rcx") _,
                    lateout("r11") _,
                    options(nostack),
                );
            }
            answer
        }

        $(#[$about])*
        #[cfg(target_arch = "aarch64")]
        #[inline(always)]
        pub(super) unsafe fn $name(number: libc::c_long $(, $argument: usize)*) -> isize {
            let answer: isize;
            // SAFETY: the instruction changes x0, and the memory that the caller has vouched for.
            unsafe {
                std::arch::asm!(
                    "svc 0",
                    in("x8") number,
                    $(in($arm) $argument,)*
                    lateout("x0") answer,
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
    one(first in "rdi" / "x0")
}
system_call! {
    /// A call with two arguments.
    ///
    /// # Safety
    ///
    /// As [`one`].
    two(first in "rdi" / "x0", second in "rsi" / "x1")
}
system_call! {
    /// A call with three arguments.
    ///
    /// # Safety
    ///
    /// As [`one`].
    three(first in "rdi" / "x0", second in "rsi" / "x1", third in "rdx" / "x2")
}
system_call! {
    /// A call with six arguments; calls with four and five take it too.
    ///
    /// # Safety
    ///
    /// As [`one`].
    six(
        first in "rdi" / "x0", second in "rsi" / "x1", third in "rdx" / "x2",
        fourth in "r10" / "x3", fifth in "r8" / "x4", sixth in "r9" / "x5"
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
