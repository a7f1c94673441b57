//! The rate of the TSC as the kernel publishes it for programs that read the counter themselves.

use aya_obj::generated::perf_event_mmap_page;
use aya_obj::generated::perf_sw_ids::PERF_COUNT_SW_DUMMY;
use aya_obj::generated::perf_type_id::PERF_TYPE_SOFTWARE;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::memory::page_size;
use super::perf_samples::{attributes, open_with};

/// `cap_user_time`: scale and offset of the time are valid.
const CAP_USER_TIME: u64 = 1 << 3;

/// `time_shift` and `time_mult` of the page of an event that counts nothing: a nanosecond of the
/// kernel's clock is `mult / 2^shift` of a tick of the TSC.
///
/// `None` if the kernel does not use the TSC for time, or does not let this process open events. No hardware counter is
/// needed.
///
/// # References
///
/// - `perf_event_open(2)`, `cap_user_time`
pub fn scale() -> Option<(u16, u32)> {
    let mut wanted = attributes(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY as u64);
    wanted.set_exclude_kernel(1);
    wanted.set_exclude_hv(1);
    let event = open_with(&wanted, 0, -1, -1).ok()?;
    let null = std::ptr::null_mut();
    // SAFETY: a fresh mapping at an address of the kernel's choice touches no other memory.
    let page = unsafe { mmap(null, page_size(), ProtFlags::READ, MapFlags::SHARED, &event, 0) };
    let page = page.ok()?.cast::<perf_event_mmap_page>();
    // SAFETY: the mapping is readable and larger than the fields read, which lie in it aligned. The
    // kernel writes them; rate and shift do not change while the counter keeps its rate.
    let (capabilities, shift, mult) = unsafe {
        (
            (&raw const (*page).__bindgen_anon_1.capabilities).read_volatile(),
            (&raw const (*page).time_shift).read_volatile(),
            (&raw const (*page).time_mult).read_volatile(),
        )
    };
    // SAFETY: the mapping is our own, and nothing refers to it any more.
    let _ = unsafe { munmap(page.cast(), page_size()) };
    (capabilities & CAP_USER_TIME != 0 && mult != 0 && shift < 64).then_some((shift, mult))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_is_that_of_a_counter_of_some_megahertz_to_gigahertz() {
        if let Some((shift, mult)) = scale() {
            let hertz = 1e9 * f64::from(shift).exp2() / f64::from(mult);
            assert!((1e6..2e10).contains(&hertz), "{hertz}");
        }
    }
}
