//! The rate of the TSC as the kernel tells it to programs that count for themselves.

use std::os::fd::AsRawFd as _;

use super::perf_event::{EXCLUDE_HYPERVISOR, EXCLUDE_KERNEL, Event};

/// The beginning of `struct perf_event_mmap_page`.
#[repr(C)]
struct Page {
    version: u32,
    compatible: u32,
    lock: u32,
    index: u32,
    offset: i64,
    time_enabled: u64,
    time_running: u64,
    capabilities: u64,
    counter_width: u16,
    time_shift: u16,
    time_mult: u32,
}

const PERF_TYPE_SOFTWARE: u32 = 1;
const PERF_COUNT_SW_DUMMY: u64 = 9;
const CAP_USER_TIME: u64 = 1 << 3;
const PAGE_BYTES: usize = 4096;

/// `time_shift` and `time_mult` of the page of an event that counts nothing: a nanosecond of the
/// kernel's clock is `mult / 2^shift` of a tick of the TSC.
///
/// `None` where the kernel does not time by the TSC, or does not let this process open events. No
/// hardware counter is needed.
///
/// # References
///
/// - `perf_event_open(2)`, `cap_user_time`
#[must_use]
pub fn scale() -> Option<(u16, u32)> {
    let event = Event {
        kind: PERF_TYPE_SOFTWARE,
        config: PERF_COUNT_SW_DUMMY,
        flags: EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR,
        ..Event::default()
    };
    let event = event.open().ok()?;
    // SAFETY: a fresh mapping at an address of the kernel's choice touches no other memory.
    let page = unsafe {
        let (protection, flags) = (libc::PROT_READ, libc::MAP_SHARED);
        libc::mmap(std::ptr::null_mut(), PAGE_BYTES, protection, flags, event.as_raw_fd(), 0)
    };
    if page == libc::MAP_FAILED {
        return None;
    }
    let page = page.cast::<Page>();
    // SAFETY: the mapping is readable and larger than the fields read, which lie in it aligned. The
    // kernel writes them; rate and shift do not change while the counter keeps its rate.
    let (capabilities, shift, mult) = unsafe {
        (
            (&raw const (*page).capabilities).read_volatile(),
            (&raw const (*page).time_shift).read_volatile(),
            (&raw const (*page).time_mult).read_volatile(),
        )
    };
    // SAFETY: the mapping is our own, and nothing refers to it any more.
    let _ = unsafe { libc::munmap(page.cast(), PAGE_BYTES) };
    (capabilities & CAP_USER_TIME != 0 && mult != 0 && shift < 64).then_some((shift, mult))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_the_fields_where_the_kernel_puts_them() {
        assert_eq!(std::mem::offset_of!(Page, capabilities), 40);
        assert_eq!(std::mem::offset_of!(Page, time_shift), 50);
        assert_eq!(std::mem::offset_of!(Page, time_mult), 52);
    }

    #[test]
    fn the_scale_is_that_of_a_counter_of_some_hundred_megahertz_or_more() {
        if let Some((shift, mult)) = scale() {
            let hertz = 1e9 * f64::from(shift).exp2() / f64::from(mult);
            assert!((1e8..2e10).contains(&hertz), "{hertz}");
        }
    }
}
