//! Sizes, names and registers of x86-64.

use crate::layout::{Function, PAGE};

/// Alignment of the parts behind the image: a page.
pub const GRANULE: usize = PAGE;
/// Bytes reserved for the kernel's own image.
pub const KERNEL_SIZE: usize = 32 * PAGE;
/// Bytes from the image's base to the end of the last page behind it.
pub(crate) const TOTAL: usize = 0x11_b000;

/// The functions with entries in the image.
pub const EXPORTED: &[Function] = &Function::ALL;
/// Prefixes of the functions' exported names.
pub const PREFIXES: &[&str] = &["__vdso_", ""];
/// Other functions that the image exports if the kernel's image does: name and entry.
pub const OWN: &[(&str, &str)] = &[];

/// Flags at the start of a program: interrupts enabled, and the bit that is always set. Source: `start_thread_common`
/// in arch/x86/kernel/process_64.c (Linux 6.18).
pub const START_FLAGS: u32 = 0x202;

/// Slots behind any code that a thread of a running process executes, filled in by the tracer: the state in which the
/// thread continues afterwards. The code's own parameters follow.
#[derive(Debug)]
#[repr(C)]
pub struct InjectedSlots {
    /// A mask of all signals.
    pub all_signals: u64,
    /// The thread's signal mask.
    pub mask: u64,
    /// The thread's flags.
    pub flags: u64,
    /// Address of the thread's next instruction.
    pub resume: u64,
    /// Length of one wait for the tracer: `struct timeval`, seconds and microseconds.
    pub pause: [u64; 2],
    /// The thread's general registers, by their numbers in instructions: `rax`, `rcx`, `rdx`, `rbx`, `rsp`, `rbp`, `rsi`,
    /// `rdi`, `r8` to `r15`.
    pub general: [u64; 16],
}
