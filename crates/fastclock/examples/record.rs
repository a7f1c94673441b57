//! Prints readings of the counter and the kernel's clocks, for tests/page/data: `record COUNT
//! PERIOD_MS`.

#![allow(clippy::print_stdout, reason = "its purpose")]

use std::thread::sleep;
use std::time::Duration;

use fastclock::arch::CpuCounter;
use fastclock::sys::look;

fn main() {
    let arguments: Vec<u64> =
        std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let [count, period] = arguments[..] else { return println!("usage: record COUNT PERIOD_MS") };
    for _ in 0..count {
        let reading = look(&CpuCounter, 64);
        let (ticks, half, mono) = (reading.ticks.0, reading.half_width.0, reading.mono.0);
        let (real, boot, tai) =
            (reading.offsets.real.0, reading.offsets.boot.0, reading.offsets.tai.0);
        let widths = (reading.offsets_half_width, reading.boot_half_width);
        println!("{ticks} {half} {mono} {real} {} {boot} {} {tai}", widths.0, widths.1);
        sleep(Duration::from_millis(period));
    }
}
