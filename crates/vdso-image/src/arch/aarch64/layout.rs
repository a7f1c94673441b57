//! Sizes and names of arm64.

use crate::layout::Function;

/// Alignment of the parts behind the image: the largest page size of any arm64 kernel. One image serves kernels with
/// pages of 4, 16 and 64 KiB.
pub const GRANULE: usize = 64 << 10;
/// Bytes reserved for the kernel's own image: up to four pages of data and two of code.
pub const KERNEL_SIZE: usize = 8 * GRANULE;
/// Bytes from the image's base to the end of the last page behind it.
pub(crate) const TOTAL: usize = 0x1d_0000;

/// The functions with entries in the image.
pub const EXPORTED: &[Function] =
    &[Function::ClockGettime, Function::Gettimeofday, Function::ClockGetres, Function::Getrandom];
/// Prefixes of the functions' exported names.
pub const PREFIXES: &[&str] = &["__kernel_"];
/// Other functions that the image exports if the kernel's image does: name and entry.
pub const OWN: &[(&str, &str)] = &[("__kernel_rt_sigreturn", "clockscope_rt_sigreturn")];

/// Slots behind any code that a thread of a running process executes, filled in by the tracer: the state in which the
/// thread continues afterwards. The code's own parameters follow.
#[derive(Debug)]
#[repr(C)]
pub struct InjectedSlots {
    /// A mask of all signals.
    pub all_signals: u64,
    /// The thread's signal mask.
    pub mask: u64,
    /// The thread's condition flags.
    pub flags: u64,
    /// Address of the thread's next instruction.
    pub resume: u64,
    /// Length of one wait for the tracer: `struct timespec`, seconds and nanoseconds.
    pub pause: [u64; 2],
    /// The thread's stack pointer.
    pub sp: u64,
    /// The thread's `x0` to `x30`.
    pub general: [u64; 31],
}
