//! rustix with its own vDSO reader (the linux_raw backend): prime numbers of reads.
//!
//! Exact: neither rustix nor std reads these clocks for itself. rustix refuses an image that it
//! does not trust without a word and then makes system calls, so the counts also say that it
//! accepted the image.

use rustix::thread::sched_getcpu;
use rustix::time::{ClockId, clock_gettime};

fn read_clock(clock: ClockId, name: &str, calls: u32) {
    for _ in 0..calls {
        std::hint::black_box(clock_gettime(clock));
    }
    println!("vdso clock_gettime {name} {calls}");
}

fn main() {
    read_clock(ClockId::Boottime, "CLOCK_BOOTTIME", 1009);
    read_clock(ClockId::MonotonicRaw, "CLOCK_MONOTONIC_RAW", 503);
    for _ in 0..211 {
        std::hint::black_box(sched_getcpu());
    }
    println!("vdso getcpu - 211");
}
