//! Linux's facts about the time-stamp counter.

#![allow(unsafe_code, reason = "asking the CPU is an instruction")]

#[cfg(test)]
#[path = "linux_tests.rs"]
mod tests;

/// The kernel's clocksources that are this counter.
pub(crate) const COUNTERS: &[&str] = &["tsc", "tsc-early"];
/// Clocksources that are this counter, scaled by a hypervisor.
pub(crate) const SCALED_COUNTERS: &[&str] = &["kvm-clock", "hyperv_clocksource_tsc_page"];
/// Name of `clock_gettime(2)` in the vDSO.
pub(crate) const GETTIME: &[u8] = b"__vdso_clock_gettime\0";
/// Largest page of memory, in bytes.
pub(crate) const LARGEST_PAGE: usize = 4 << 10;

/// True if the CPU or the kernel promises that the counter runs at one rate whatever the CPU does:
/// CPUID's bit for an invariant TSC, or the kernel's flags `constant_tsc` and `nonstop_tsc`. On
/// aarch64 the architecture promises it for the generic timer. Do not call this in a signal
/// handler.
///
/// CPUID costs a microsecond or more in a virtual machine: ask once.
///
/// # References
///
/// - Intel SDM vol. 3, 19.17.1 (invariant TSC); AMD APM vol. 3, CPUID 8000_0007 EDX bit 8
/// - `proc_cpuinfo(5)`; arch/x86/kernel/cpu/intel.c, amd.c (Linux 6.18)
pub fn is_invariant() -> bool {
    cpu_says_so() || kernel_says_so()
}

#[allow(unused_unsafe, reason = "safe since Rust 1.94")]
fn cpu_says_so() -> bool {
    use core::arch::x86_64::__cpuid;
    const POWER: u32 = 0x8000_0007;
    // SAFETY: every x86-64 CPU has the instruction.
    let highest = unsafe { __cpuid(0x8000_0000) }.eax;
    // SAFETY: as above, and the CPU has this leaf.
    highest >= POWER && unsafe { __cpuid(POWER) }.edx & 1 << 8 != 0
}

fn kernel_says_so() -> bool {
    let mut buffer = [0; 8192];
    let cpuinfo = crate::sys::small_file::beginning(c"/proc/cpuinfo", &mut buffer);
    flags_promise_it(cpuinfo)
}

/// Judges the flags of the first CPU.
fn flags_promise_it(cpuinfo: &[u8]) -> bool {
    let Some(flags) = cpuinfo.split(|byte| *byte == b'\n').find(|line| line.starts_with(b"flags"))
    else {
        return false;
    };
    let has = |wanted: &[u8]| flags.split(u8::is_ascii_whitespace).any(|flag| flag == wanted);
    has(b"constant_tsc") && has(b"nonstop_tsc")
}
