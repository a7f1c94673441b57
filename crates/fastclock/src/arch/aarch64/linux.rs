//! What Linux says of the generic timer.

/// The kernel's clocksources that are this counter.
pub(crate) const COUNTERS: &[&str] = &["arch_sys_counter"];
/// Those that are this counter, scaled by a hypervisor.
pub(crate) const SCALED_COUNTERS: &[&str] = &[];
/// What the vDSO calls `clock_gettime(2)`.
pub(crate) const GETTIME: &[u8] = b"__kernel_clock_gettime\0";
/// Of memory, in bytes: kernels have pages of 4, 16 or 64 KiB.
pub(crate) const LARGEST_PAGE: usize = 64 << 10;

/// True: the architecture promises that the counter runs at one rate whatever the CPU does. On x86-64 the CPU or the
/// kernel has to say so.
///
/// # References
///
/// Arm Architecture Reference Manual, "The Generic Timer in AArch64 state"
#[must_use]
pub const fn is_invariant() -> bool {
    true
}
