//! A clock page in a file, as left by a timekeeper that wrote it once.

#![allow(unsafe_code, reason = "a page is written to a file as it lies in memory")]

use std::path::Path;

use fastclock::arch::CpuCounter;
use fastclock::page::{Content, Page, SIZE, State, Writer};
use fastclock::{Bound, Line, Nanos, TickLength, Ticks, sys};

/// Nanoseconds: far more than the error of a line through two looks after a minute.
pub(crate) const BOUND: u64 = 1_000_000;

/// A line through two looks at the kernel's clock, some milliseconds apart.
fn line_and_offsets() -> (Line, fastclock::Offsets) {
    let first = sys::look(&CpuCounter, 50);
    let mut last = first;
    while last.mono.0 - first.mono.0 < 20_000_000 {
        last = sys::look(&CpuCounter, 50);
    }
    let ticks = Ticks(last.ticks.0 - first.ticks.0);
    let tick = TickLength::from_elapsed(ticks, Nanos(last.mono.0 - first.mono.0));
    (Line { base: last.ticks, mono: last.mono, tick: tick.expect("both pass") }, last.offsets)
}

/// Writes a page whose line holds for five minutes.
pub(crate) fn write(path: &Path) {
    let page = Page::new();
    let mut writer =
        Writer::create(&page, sys::boot_id().expect("/proc is there"), std::process::id());
    let (line, offsets) = line_and_offsets();
    writer.publish(Content {
        span: line.tick.ticks(300_000_000_000),
        grace: Ticks(0),
        previous: None,
        bound: Bound { at_base: BOUND, growth: 0 },
        state: State::Running,
        line,
        offsets,
    });
    // SAFETY: a page has SIZE bytes, all of which are written, and no other code has this page.
    let bytes = unsafe { std::slice::from_raw_parts((&raw const page).cast::<u8>(), SIZE) };
    std::fs::write(path, bytes).expect("write a page");
}
