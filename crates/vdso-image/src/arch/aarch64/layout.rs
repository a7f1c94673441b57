//! Sizes and names of arm64.

use crate::layout::Function;

/// What the parts behind the image begin at multiples of: the largest page of any arm64 kernel. One image serves kernels
/// with pages of 4, 16 and 64 KiB.
pub const GRANULE: usize = 64 << 10;
/// Bytes of the place for the kernel's own image, whose data are up to four pages and its code two.
pub const KERNEL_SIZE: usize = 8 * GRANULE;
/// Bytes from the image's base to the end of the last page behind it.
pub(crate) const TOTAL: usize = 0x1d_0000;

/// The functions that the image has entries for.
pub const EXPORTED: &[Function] =
    &[Function::ClockGettime, Function::Gettimeofday, Function::ClockGetres, Function::Getrandom];
/// What the names of each of them begin with.
pub const PREFIXES: &[&str] = &["__kernel_"];
/// Other functions that the image exports if the kernel's does: name and entry.
pub const OWN: &[(&str, &str)] = &[("__kernel_rt_sigreturn", "clockscope_rt_sigreturn")];

/// What the tracer fills in behind any code that a thread of a running process executes: how the thread
/// goes on afterwards. What the code works on follows.
#[derive(Debug)]
#[repr(C)]
pub struct InjectedSlots {
    /// A mask of all signals.
    pub all_signals: u64,
    /// The thread's signal mask.
    pub mask: u64,
    /// Its flags of conditions.
    pub flags: u64,
    /// Its next instruction.
    pub resume: u64,
    /// How long it waits for the tracer at a time: `struct timespec`, seconds and nanoseconds.
    pub pause: [u64; 2],
    /// Its stack pointer.
    pub sp: u64,
    /// `x0` to `x30`.
    pub general: [u64; 31],
}
