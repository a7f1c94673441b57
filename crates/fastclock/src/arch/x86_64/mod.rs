//! The time-stamp counter.

use core::arch::asm;
use core::arch::x86_64::_rdtsc;
use core::mem::offset_of;

use crate::page::{Counter, Slot, Steep};
use crate::units::Ticks;

/// [`Counter::ordered_in`] with the instructions that read the counter.
///
/// Written in assembly because every saved register and every instruction after the counter costs
/// time: the next ordered read waits until all of them are done. The slot is read by memory
/// operands, so that no callee-saved register is needed.
macro_rules! ordered_in {
    ($($counter:literal),+; $line:expr, $slot:expr) => {{
        let [fine, mut nanos] = $line.intercept;
        asm!(
            $($counter,)+
            // Compares the upper half, then takes the lower half's distance from the base.
            "cmp edx, dword ptr [{slot} + {base} + 4]",
            "jne 2f",
            "mov edx, eax",
            "sub edx, dword ptr [{slot} + {base}]",
            "jb 3f",
            "cmp rdx, qword ptr [{slot} + {span}]",
            "jae 3f",
            "mul qword ptr [{slot} + {fraction}]",
            "add {fine}, rax",
            "adc {nanos}, rdx",
            "jmp 5f",
            "3:",
            "mov {nanos}, {nowhere}",
            "jmp 5f",
            // The lower half has wrapped: add 2^32 ticks and check the span.
            "2:",
            "dec edx",
            "cmp edx, dword ptr [{slot} + {base} + 4]",
            "jne 3b",
            "bts rax, 32",
            "mov edx, dword ptr [{slot} + {base}]",
            "neg rdx",
            "add rdx, rax",
            "cmp rdx, qword ptr [{slot} + {span}]",
            "jae 3b",
            "mul qword ptr [{slot} + {fraction}]",
            "add {fine}, rax",
            "adc {nanos}, rdx",
            "5:",
            slot = in(reg) $slot,
            fine = inout(reg) fine => _,
            nanos = inout(reg) nanos,
            base = const offset_of!(Slot, base),
            span = const offset_of!(Slot, span),
            fraction = const offset_of!(Slot, fraction),
            nowhere = const Slot::NOWHERE as i64,
            out("rax") _,
            out("rcx") _,
            out("rdx") _,
            options(nostack)
        );
        nanos
    }};
}

/// The counter of this CPU: the TSC.
///
/// # References
///
/// - Intel SDM vol. 2, RDTSC; AMD APM vol. 3, RDTSC
/// - `rdtsc_ordered` in arch/x86/include/asm/tsc.h (Linux 6.18)
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuCounter;

impl Counter for CpuCounter {
    #[inline(always)]
    fn ordered(&self) -> Ticks {
        let (low, high): (u64, u64);
        // SAFETY: both instructions exist on every x86-64 and touch no memory. If a program has
        // forbidden itself the counter (PR_SET_TSC), the second raises SIGSEGV. Written in assembly
        // because the vDSO image is compiled without SSE2, to which the intrinsic of the first
        // belongs.
        unsafe {
            asm!("lfence", "rdtsc", out("rax") low, out("rdx") high, options(nostack, preserves_flags));
        }
        Ticks(high << 32 | low)
    }

    #[inline(always)]
    fn ordered_on(&self, line: Steep) -> ([u64; 2], u64) {
        let (low, high): (u64, u64);
        let [fine, mut nanos] = line.intercept;
        // SAFETY: as above, and arithmetic on registers. `rdtsc` zeroes the upper halves of the
        // registers that receive the counter's halves.
        unsafe {
            asm!(
                "lfence",
                "rdtsc",
                "mov {low}, rax",
                "mov {high}, rdx",
                "mul {fraction}",
                "add {fine}, rax",
                "adc {nanos}, rdx",
                low = out(reg) low,
                high = out(reg) high,
                fraction = in(reg) line.fraction,
                fine = inout(reg) fine => _,
                nanos = inout(reg) nanos,
                out("rax") _,
                out("rdx") _,
                options(nostack)
            );
        }
        ([low, high], nanos)
    }

    #[inline(always)]
    fn ordered_in(&self, line: Steep, slot: &Slot) -> u64 {
        // SAFETY: as above.
        unsafe { ordered_in!("lfence", "rdtsc"; line, slot) }
    }

    #[inline(always)]
    fn unordered(&self) -> Ticks {
        // SAFETY: as above.
        Ticks(unsafe { _rdtsc() })
    }
}

/// The TSC for CPUs that have `rdtscp`, which waits for all earlier instructions by itself and is
/// cheaper than a fence. Other CPUs raise SIGILL.
///
/// # References
///
/// Intel SDM vol. 2, RDTSCP; AMD APM vol. 3, RDTSCP; CPUID Fn8000_0001, EDX bit 27
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuCounterP;

impl Counter for CpuCounterP {
    #[inline(always)]
    fn ordered(&self) -> Ticks {
        CpuCounter.ordered()
    }

    #[inline(always)]
    fn ordered_in(&self, line: Steep, slot: &Slot) -> u64 {
        // SAFETY: as above; this type is for CPUs that have the instruction.
        unsafe { ordered_in!("rdtscp"; line, slot) }
    }

    #[inline(always)]
    fn unordered(&self) -> Ticks {
        CpuCounter.unordered()
    }
}

#[cfg(test)]
mod tests {
    use super::{CpuCounter, CpuCounterP};
    use crate::page::tests::at_once::check_counter;

    #[test]
    fn the_short_way_to_the_time_agrees_with_the_long_one() {
        check_counter(CpuCounter);
    }

    #[test]
    fn so_does_rdtscp_where_the_cpu_has_it() {
        use core::arch::x86_64::__cpuid;
        let has =
            __cpuid(0x8000_0000).eax >= 0x8000_0001 && __cpuid(0x8000_0001).edx & 1 << 27 != 0;
        if has {
            check_counter(CpuCounterP);
        }
    }
}
