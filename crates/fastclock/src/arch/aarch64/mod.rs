//! The generic timer's virtual counter.

use core::arch::asm;

use crate::page::Counter;
use crate::units::Ticks;

/// The counter of this CPU: `CNTVCT_EL0`.
///
/// # References
///
/// - Arm Architecture Reference Manual, `CNTVCT_EL0`
/// - `__arch_counter_get_cntvct` and `arch_counter_enforce_ordering` in arch/arm64/include/asm/arch_timer.h (Linux 6.18)
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuCounter;

impl Counter for CpuCounter {
    #[inline(always)]
    fn ordered(&self) -> Ticks {
        let ticks;
        // SAFETY: reads a register that Linux lets programs read, and a word of the stack at an
        // address that depends on the counter. `isb` orders the counter after all earlier
        // instructions. The dependency orders later loads after the counter as soon as a load fence
        // comes between. Without `nomem`, the compiler moves no accesses across.
        unsafe {
            asm!(
                "isb",
                "mrs {ticks}, cntvct_el0",
                "eor {address}, {ticks}, {ticks}",
                "add {address}, sp, {address}",
                "ldr xzr, [{address}]",
                ticks = out(reg) ticks,
                address = out(reg) _,
                options(nostack, preserves_flags)
            );
        }
        Ticks(ticks)
    }

    #[inline(always)]
    fn unordered(&self) -> Ticks {
        let ticks;
        // SAFETY: as above.
        unsafe { asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nostack, nomem)) };
        Ticks(ticks)
    }
}

#[cfg(test)]
mod tests {
    use super::CpuCounter;
    use crate::page::tests::at_once::check_counter;

    #[test]
    fn the_short_way_to_the_time_agrees_with_the_long_one() {
        check_counter(CpuCounter);
    }
}
