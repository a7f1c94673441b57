//! The generic timer's virtual counter, `CNTVCT_EL0`.

use std::arch::asm;

use crate::clock_loops::CounterOrder;
use crate::loops::Loop;

/// Names of the ways to read the counter, see [`CounterOrder`]. The last exists on x86-64 only.
pub const COUNTER_NAMES: [&str; 3] = ["cntvct_el0", "isb;cntvct_el0", "rdtscp"];

/// False: `rdtscp` is an instruction of x86-64.
pub fn has_rdtscp() -> bool {
    false
}

/// True: an `isb` completes all earlier instructions first.
pub fn has_read_after() -> bool {
    true
}

/// True: every program reads `TPIDR_EL0` by one instruction.
pub fn has_thread_pointer() -> bool {
    true
}

/// Reads the counter at any point in the CPU's instruction order.
#[inline]
pub(crate) fn bare() -> u64 {
    let ticks;
    // SAFETY: reads a register that Linux lets programs read.
    unsafe {
        asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags));
    }
    ticks
}

/// Reads the counter after all earlier instructions.
#[inline]
pub(crate) fn fenced() -> u64 {
    let ticks;
    // SAFETY: as above; the barrier changes nothing.
    unsafe { asm!("isb", "mrs {}, cntvct_el0", out(reg) ticks, options(nostack, preserves_flags)) };
    ticks
}

/// Reads the counter once all earlier instructions are complete.
#[inline]
pub(crate) fn after() -> u64 {
    fenced()
}

/// The loops around the instructions that read the counter; `None` for instructions of x86-64.
pub(crate) fn loops(order: CounterOrder) -> Option<Loop> {
    match order {
        // SAFETY: reads a register that Linux lets programs read, and changes one register.
        CounterOrder::Bare => Some(Loop::around(|| unsafe {
            asm!("mrs {}, cntvct_el0", out(reg) _, options(nomem, nostack, preserves_flags));
        })),
        // SAFETY: as above.
        CounterOrder::Fenced => Some(Loop::around(|| unsafe {
            asm!("isb", "mrs {}, cntvct_el0", out(reg) _, options(nomem, nostack, preserves_flags));
        })),
        CounterOrder::Rdtscp => None,
    }
}
