//! The system call instruction itself, without the C library around it.
//!
//! The result is the kernel's: an error is its negative number, from -4095 to -1.
//!
//! # References
//!
//! - `syscall(2)`, section "Architecture calling conventions"

pub(super) use super::arch::raw_syscall::{none, one, six, three, two};

/// A C `int` as the kernel takes it in a register.
pub(super) fn argument(number: i32) -> usize {
    (number as isize).cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_answers_and_refuses_as_through_the_c_library() {
        // SAFETY: `getpid` takes nothing, and a number that no system call has does nothing.
        let (pid, nothing) = unsafe { (three(libc::SYS_getpid, 0, 0, 0), three(100_000, 0, 0, 0)) };
        assert_eq!(u32::try_from(pid), Ok(std::process::id()));
        assert_eq!(nothing, -isize::try_from(libc::ENOSYS).unwrap());
    }
}
