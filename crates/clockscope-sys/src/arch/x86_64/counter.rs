//! The time-stamp counter.

use std::arch::asm;
use std::arch::x86_64::{__rdtscp, _mm_lfence, _rdtsc};

use super::machine::leaf_or_nonsense;
use crate::clock_loops::CounterOrder;
use crate::loops::Loop;

/// Names of the ways to read the counter, see [`CounterOrder`].
pub const COUNTER_NAMES: [&str; 3] = ["rdtsc", "lfence;rdtsc", "rdtscp"];

/// True if the CPU can read the counter once all earlier instructions are complete.
pub fn has_read_after() -> bool {
    has_rdtscp()
}

/// True if the CPU has `rdtscp`.
pub fn has_rdtscp() -> bool {
    leaf_or_nonsense(0x8000_0000).eax >= 0x8000_0001
        && leaf_or_nonsense(0x8000_0001).edx & (1 << 27) != 0
}

/// True if one instruction gives the address of a thread's local storage: the kernel permits `rdfsbase`.
///
/// # References
///
/// `HWCAP2_FSGSBASE` in arch/x86/include/uapi/asm/hwcap2.h (Linux 6.18)
pub fn has_thread_pointer() -> bool {
    // SAFETY: takes a number.
    unsafe { libc::getauxval(libc::AT_HWCAP2) & 2 != 0 }
}

/// Reads the counter at any point in the CPU's instruction order: `rdtsc`.
#[inline]
pub(crate) fn bare() -> u64 {
    // SAFETY: reads a register that exists on every x86-64.
    unsafe { _rdtsc() }
}

/// Reads the counter after all earlier instructions: `lfence; rdtsc`.
#[inline]
pub(crate) fn fenced() -> u64 {
    // SAFETY: exists on every x86-64 and changes nothing.
    unsafe { _mm_lfence() };
    bare()
}

/// Reads the counter once all earlier instructions are complete; needs [`has_read_after`].
#[inline]
pub(crate) fn after() -> u64 {
    let mut cpu = 0;
    // SAFETY: changes only the local variable.
    unsafe { __rdtscp(&raw mut cpu) }
}

/// The loops around the instructions that read the counter; `None` if this CPU does not have them.
pub(crate) fn loops(order: CounterOrder) -> Option<Loop> {
    Some(match order {
        // SAFETY: the instruction exists on every x86-64; it changes the registers named.
        CounterOrder::Bare => Loop::around(|| unsafe {
            asm!("rdtsc", out("eax") _, out("edx") _, options(nomem, nostack, preserves_flags));
        }),
        // SAFETY: as above.
        CounterOrder::Fenced => Loop::around(|| unsafe {
            asm!("lfence", "rdtsc", out("eax") _, out("edx") _,
                 options(nomem, nostack, preserves_flags));
        }),
        CounterOrder::Rdtscp if !has_read_after() => return None,
        // SAFETY: as above.
        CounterOrder::Rdtscp => Loop::around(|| unsafe {
            asm!("rdtscp", out("eax") _, out("edx") _, out("ecx") _,
                 options(nomem, nostack, preserves_flags));
        }),
    })
}
