//! Linux's facts about the generic timer.

/// The kernel's clocksources that are this counter.
pub(crate) const COUNTERS: &[&str] = &["arch_sys_counter"];
/// Clocksources that are this counter, scaled by a hypervisor.
pub(crate) const SCALED_COUNTERS: &[&str] = &[];
/// Name of `clock_gettime(2)` in the vDSO.
pub(crate) const GETTIME: &[u8] = b"__kernel_clock_gettime\0";
/// Largest page of memory, in bytes: kernels have pages of 4, 16 or 64 KiB.
pub(crate) const LARGEST_PAGE: usize = 64 << 10;

/// True: the architecture promises that the counter runs at one rate whatever the CPU does. On
/// x86-64 the CPU or the kernel has to state that.
///
/// # References
///
/// Arm Architecture Reference Manual, "The Generic Timer in AArch64 state"
pub const fn is_invariant() -> bool {
    true
}
