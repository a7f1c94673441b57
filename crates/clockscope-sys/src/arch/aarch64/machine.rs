//! Properties of the CPU that programs can read: counter rate and vDSO names.

use std::arch::asm;

/// Prefix of the vDSO's function names.
pub const VDSO_PREFIX: &str = "__kernel_";

/// Whether CPUID can report a hypervisor. CPUID is an instruction of x86-64.
pub const HAS_CPUID: bool = false;

/// There is no system call `time`.
pub(crate) const SYS_TIME: Option<libc::c_long> = None;

/// `None`: CPUID is an instruction of x86-64.
pub fn cpuid(_leaf: u32) -> Option<[u32; 4]> {
    None
}

/// `None`: an Arm CPU reports its hypervisor to the kernel only.
pub fn hypervisor() -> Option<String> {
    None
}

/// The rate of the counter in hertz, and the register that holds it; `None` if firmware has left the register zero.
pub fn counter_hz() -> Option<(f64, &'static str)> {
    let hertz: u64;
    // SAFETY: reads a register that Linux lets programs read.
    unsafe {
        asm!("mrs {}, cntfrq_el0", out(reg) hertz, options(nomem, nostack, preserves_flags));
    }
    let hertz = u32::try_from(hertz).ok().filter(|hertz| *hertz != 0)?;
    Some((f64::from(hertz), "CNTFRQ_EL0"))
}
